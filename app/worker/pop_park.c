/* Parked pops. A set holds the calls that wait for the same thing. Its rule: a set is always left
 * by a claim that came back empty and was started after the last wake-up, and that claim says when
 * to look again. So one parked call is woken per wake-up; a success wakes two more, an empty claim
 * ends the chain, and idle sets cost nothing. */
#include "worker/pop.h"

#include "base/buf.h"
#include "shm/fifo.h"

#include <stdlib.h>

enum { POP_HOLD_MARGIN_MS = 50 }; /* a held call looks again so long before its last moment */

/* The sets of one queue. Discovery sets, which any queue may concern, hang on gate 0. */
struct pop_gate {
    struct table_node node;
    LIST_HEAD(, pop_set) sets;
};

static bool pop_set_equal(const struct table_node *node, const void *key)
{
    return slice_equal(TABLE_OWNER(node, const struct pop_set, node)->key,
                       *(const struct slice *)key);
}

/* Gates are told apart by the full 64-bit hash: two queues that collide wake each other. */
static bool pop_gate_equal(const struct table_node *node, const void *key)
{
    return node->hash == *(const uint64_t *)key;
}

void pop_sets_init(struct pop_engine *engine)
{
    engine->sets.equal = pop_set_equal;
    engine->gates.equal = pop_gate_equal;
}

static struct pop_gate *pop_gate_find(struct pop_engine *engine, uint64_t queue)
{
    struct table_node *node = table_find(&engine->gates, queue, &queue);
    return node == NULL ? NULL : TABLE_OWNER(node, struct pop_gate, node);
}

static struct pop_gate *pop_gate_get(struct pop_engine *engine, uint64_t queue)
{
    struct pop_gate *gate = pop_gate_find(engine, queue);
    if (gate == NULL) {
        gate = mem_zalloc(sizeof *gate);
        LIST_INIT(&gate->sets);
        table_insert(&engine->gates, &gate->node, queue);
    }
    return gate;
}

static void pop_set_wake(struct pop_set *set);

static void pop_set_look(struct loop_timer *timer)
{
    pop_set_wake(TABLE_OWNER(timer, struct pop_set, look_timer));
}

/* Names are length-prefixed, so that no two different sets share a key. */
static void pop_set_key(const struct pop_call *call, struct buf *key)
{
    const struct slice parts[] = {call->queue, call->partition, call->group, call->namespace,
                                  call->task};
    buf_putc(key, call->discovery ? 'd' : call->pinned ? 'p' : 'q');
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        uint32_t n = (uint32_t)parts[i].n;
        buf_put(key, &n, sizeof n);
        buf_put_slice(key, parts[i]);
    }
}

static struct pop_set *pop_set_new(struct pop_engine *engine, const struct pop_call *call,
                                   struct slice key, uint64_t hash)
{
    struct pop_set *set = mem_zalloc(sizeof *set);
    char *copy = mem_alloc(key.n);
    memcpy(copy, key.p, key.n);
    set->key = (struct slice){copy, key.n};
    set->engine = engine;
    set->pinned = call->pinned;
    set->discovery = call->discovery;
    set->queue_hash = call->discovery ? 0 : table_hash(call->queue, (struct slice){0});
    set->partition_hash = call->pinned ? table_hash(call->partition, (struct slice){0}) : 0;
    set->group_hash = table_hash(call->group, (struct slice){0});
    set->look_timer.fire = pop_set_look;
    TAILQ_INIT(&set->parked);
    set->gate = pop_gate_get(engine, set->queue_hash);
    LIST_INSERT_HEAD(&set->gate->sets, set, gate_link);
    table_insert(&engine->sets, &set->node, hash);
    return set;
}

static void pop_set_free(struct pop_set *set)
{
    struct pop_engine *engine = set->engine;
    loop_timer_cancel(engine->w->loop, &set->look_timer);
    LIST_REMOVE(set, gate_link);
    if (LIST_EMPTY(&set->gate->sets)) {
        table_remove(&engine->gates, &set->gate->node);
        free(set->gate);
    }
    table_remove(&engine->sets, &set->node);
    free((char *)set->key.p);
    free(set);
}

void pop_park_join(struct pop_call *call)
{
    struct pop_engine *engine = call->w->pop;
    struct buf text = {0};
    pop_set_key(call, &text);
    struct slice key = buf_slice(&text);
    uint64_t hash = table_hash(key, (struct slice){0});
    struct table_node *node = table_find(&engine->sets, hash, &key);
    call->set = node != NULL ? TABLE_OWNER(node, struct pop_set, node)
                             : pop_set_new(engine, call, key, hash);
    call->set->members++;
    buf_free(&text);
}

void pop_park_leave(struct pop_call *call)
{
    struct pop_set *set = call->set;
    if (call->state == POP_PARKED)
        TAILQ_REMOVE(&set->parked, call, link);
    if (--set->members == 0)
        pop_set_free(set);
    call->set = NULL;
}

bool pop_park_known_empty(const struct pop_call *call)
{
    return call->set->known_empty && !TAILQ_EMPTY(&call->set->parked);
}

void pop_park_call(struct pop_call *call, bool at_head)
{
    call->state = POP_PARKED;
    if (at_head)
        TAILQ_INSERT_HEAD(&call->set->parked, call, link);
    else
        TAILQ_INSERT_TAIL(&call->set->parked, call, link);
}

/* Lets the oldest parked call that may still claim look. */
static bool pop_set_probe(struct pop_set *set)
{
    uint64_t now = loop_now_ms(set->engine->w->loop);
    struct pop_call *call;
    if (set->engine->w->stopping)
        return false;
    TAILQ_FOREACH(call, &set->parked, link)
    {
        if (now >= call->claim_until_ms)
            continue;
        TAILQ_REMOVE(&set->parked, call, link);
        pop_call_claim(call);
        return true;
    }
    return false;
}

static void pop_set_wake(struct pop_set *set)
{
    set->again = true;
    set->known_empty = false;
    if (set->probing == 0)
        (void)pop_set_probe(set);
}

void pop_park_served(struct pop_set *set)
{
    set->probing--;
    set->known_empty = false;
    if (pop_set_probe(set))
        (void)pop_set_probe(set);
}

static uint64_t pop_hold_until(const struct pop_call *call)
{
    return call->claim_until_ms < POP_HOLD_MARGIN_MS ? 0
                                                     : call->claim_until_ms - POP_HOLD_MARGIN_MS;
}

int32_t pop_park_hold_ms(const struct pop_call *call)
{
    uint64_t now = loop_now_ms(call->w->loop), until = pop_hold_until(call);
    if (!call->wait || call->pinned || call->discovery || call->batch == 1 || until <= now)
        return 0;
    return until - now > INT32_MAX ? INT32_MAX : (int32_t)(until - now);
}

/* The call that must be answered first looks next, in time for that. */
static int64_t pop_set_hold(struct pop_set *set, int64_t retry_after_ms)
{
    uint64_t now = loop_now_ms(set->engine->w->loop);
    struct pop_call *call, *first = NULL;
    TAILQ_FOREACH(call, &set->parked, link)
    {
        if (now < call->claim_until_ms &&
            (first == NULL || call->claim_until_ms < first->claim_until_ms))
            first = call;
    }
    if (first == NULL)
        return retry_after_ms;
    TAILQ_REMOVE(&set->parked, first, link);
    TAILQ_INSERT_HEAD(&set->parked, first, link);
    int64_t left = pop_hold_until(first) <= now ? 0 : (int64_t)(pop_hold_until(first) - now);
    return left < retry_after_ms ? left : retry_after_ms;
}

void pop_park_probed(struct pop_set *set, int64_t retry_after_ms, bool held)
{
    struct worker *w = set->engine->w;
    set->probing--;
    /* Another claim is on its way, and which of the two looked last is not known: only the last one
     * to come back, with none beside it, may say that there is nothing. */
    if (set->again || set->probing > 0) {
        set->again = true;
        if (set->probing == 0)
            (void)pop_set_probe(set);
        return;
    }
    /* Whoever comes while another is held may want less than that one: it looks for itself. */
    set->known_empty = !held;
    if (held)
        retry_after_ms = pop_set_hold(set, retry_after_ms);
    if (retry_after_ms < 0) {
        loop_timer_cancel(w->loop, &set->look_timer);
        return;
    }
    /* Something is pending but not claimable yet. What ends that earlier (an ack) normally wakes
     * us; the cap bounds what the loss of that wake-up costs. */
    if (retry_after_ms > w->settings.fallback_poll_ms)
        retry_after_ms = w->settings.fallback_poll_ms;
    loop_timer_set(w->loop, &set->look_timer, loop_now_ms(w->loop) + (uint64_t)retry_after_ms + 1);
}

void pop_park_unprobed(struct pop_set *set)
{
    set->probing--;
    pop_set_wake(set);
}

static void pop_gate_wake(struct pop_gate *gate, uint64_t partition, uint64_t group)
{
    struct pop_set *set, *next;
    for (set = LIST_FIRST(&gate->sets); set != NULL; set = next) {
        next = LIST_NEXT(set, gate_link);
        if (set->pinned && partition != 0 && partition != set->partition_hash)
            continue;
        if (group != 0 && group != set->group_hash)
            continue;
        pop_set_wake(set);
    }
}

void pop_wake(struct worker *w, uint64_t queue, uint64_t partition, uint64_t group)
{
    struct pop_engine *engine = w->pop;
    if (queue == 0) {
        for (size_t i = 0; i < engine->gates.bucket_count; i++)
            for (struct table_node *n = engine->gates.buckets[i]; n != NULL; n = n->next)
                pop_gate_wake(TABLE_OWNER(n, struct pop_gate, node), 0, group);
        return;
    }
    struct pop_gate *gate = pop_gate_find(engine, queue);
    if (gate != NULL)
        pop_gate_wake(gate, partition, group);
    gate = pop_gate_find(engine, 0);
    if (gate != NULL)
        pop_gate_wake(gate, 0, group);
}

void pop_answer_parked(struct worker *w)
{
    struct pop_engine *engine = w->pop;
    struct pop_call *call, *after;
    for (size_t i = 0; i < engine->sets.bucket_count; i++) {
        struct table_node *n = engine->sets.buckets[i];
        while (n != NULL) {
            struct pop_set *set = TABLE_OWNER(n, struct pop_set, node);
            n = n->next; /* the set goes with its last member */
            for (call = TAILQ_FIRST(&set->parked); call != NULL; call = after) {
                after = TAILQ_NEXT(call, link);
                pop_call_answer_empty(call);
            }
        }
    }
    for (call = TAILQ_FIRST(&engine->queued); call != NULL; call = after) {
        after = TAILQ_NEXT(call, link);
        if (call->wait)
            pop_call_answer_empty(call);
    }
}
