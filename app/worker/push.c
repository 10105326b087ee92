/* POST /api/v1/push: from the body to groups, and the answer (contract 1, section 1). */
#include "worker/push.h"

#include "base/clock.h"
#include "shm/maintenance.h"
#include "wire/json.h"
#include "wire/json_write.h"
#include "worker/push_spool.h"

#include <stdio.h>

enum {
    PUSH_MAX_ITEMS = 100000, /* bounds the memory of one request: about 200 bytes an item */
    PUSH_FRAME_OVERHEAD = 23 /* bytes of a frame beside transaction id and payload */
};

static bool push_text(struct request *r, size_t index, const char *field, struct json_value v,
                      struct slice *out, struct err *err)
{
    if (v.type != JSON_STRING)
        return err_set(err, "bad body: items[%zu].%s must be a string, found %s", index, field,
                       json_type_name(v.type));
    if (!json_string(v, request_arena(r), out, err))
        return err_prefix(err, "bad body: items[%zu].%s", index, field);
    return true;
}

/* Returns 0 or the HTTP status of the refusal. */
static int push_parse_item(struct push_request *push, size_t index, struct json_value element,
                           struct err *err)
{
    struct push_item *item = &push->items[index];
    struct json_value queue, partition, payload, transaction_id;
    const struct json_field fields[] = {{"queue", &queue},
                                        {"partition", &partition},
                                        {"payload", &payload},
                                        {"transactionId", &transaction_id}};
    if (element.type != JSON_OBJECT) {
        (void)err_set(err, "bad body: items[%zu] must be an object, found %s", index,
                      json_type_name(element.type));
        return 400;
    }
    if (!json_pick(element, fields, sizeof fields / sizeof *fields, err)) {
        (void)err_prefix(err, "bad body: items[%zu]", index);
        return 400;
    }
    if (!json_present(queue) || payload.type == JSON_ABSENT) {
        (void)err_set(err, "bad body: items[%zu].%s is required", index,
                      json_present(queue) ? "payload" : "queue");
        return 400;
    }
    item->request = push;
    item->payload = payload.raw;
    item->partition = SLICE_LITERAL("Default");
    item->message_id = uuid_v7();
    if (!push_text(push->r, index, "queue", queue, &item->queue, err))
        return 400;
    if (json_present(partition) &&
        !push_text(push->r, index, "partition", partition, &item->partition, err))
        return 400;
    int status = name_check("queue", item->queue, err);
    if (status == 0)
        status = name_check("partition", item->partition, err);
    if (status != 0) {
        (void)err_prefix(err, "bad body: items[%zu]", index);
        return status;
    }
    if (json_present(transaction_id)) {
        if (!push_text(push->r, index, "transactionId", transaction_id, &item->transaction_id, err))
            return 400;
        if (item->transaction_id.n > TRANSACTION_ID_MAX_BYTES) {
            (void)err_set(err, "bad body: items[%zu].transactionId has %zu bytes, the limit is %d",
                          index, item->transaction_id.n, TRANSACTION_ID_MAX_BYTES);
            return 400;
        }
    } else {
        char *text = arena_alloc(request_arena(push->r), UUID_TEXT_SIZE);
        uuid_format(&item->message_id, text);
        item->transaction_id = (struct slice){text, UUID_TEXT_SIZE};
    }
    item->hash = txn_hash_of(item->transaction_id);
    return 0;
}

static size_t push_count(struct json_value items)
{
    size_t n = 0;
    struct json_iter it = json_iterate(items);
    struct json_value element;
    while (json_next(&it, &element))
        n++;
    return n;
}

static int push_parse(struct push_request *push, struct err *err)
{
    struct json_value body, items;
    const struct json_field fields[] = {{"items", &items}};
    if (!json_validate(request_body(push->r), &body, err)) {
        (void)err_prefix(err, "bad body");
        return 400;
    }
    if (body.type != JSON_OBJECT) {
        (void)err_set(err, "bad body: expected an object with items, found %s",
                      json_type_name(body.type));
        return 400;
    }
    if (!json_pick(body, fields, 1, err)) {
        (void)err_prefix(err, "bad body");
        return 400;
    }
    if (items.type != JSON_ARRAY) {
        (void)err_set(err, "bad body: items is required and must be an array, found %s",
                      json_type_name(items.type));
        return 400;
    }
    push->count = push_count(items);
    if (push->count > PUSH_MAX_ITEMS) {
        (void)err_set(err, "bad body: items has %zu elements, the limit is %d", push->count,
                      PUSH_MAX_ITEMS);
        return 413;
    }
    push->items = arena_zarray(request_arena(push->r), push->count, sizeof *push->items);
    struct json_iter it = json_iterate(items);
    struct json_value element;
    for (size_t i = 0; json_next(&it, &element); i++) {
        int status = push_parse_item(push, i, element, err);
        if (status != 0)
            return status;
    }
    return 0;
}

/* Finds items that repeat an id of the same partition inside the request: the first wins. */
struct push_seen {
    struct push_item **slots; /* open addressing, power of two, at most half full */
    size_t mask;
};

static bool push_same_partition(const struct push_item *a, const struct push_item *b)
{
    return slice_equal(a->partition, b->partition) && slice_equal(a->queue, b->queue);
}

static struct push_item *push_seen_before(struct push_seen *seen, struct push_item *item)
{
    uint64_t h;
    memcpy(&h, item->hash.bytes, sizeof h);
    for (size_t i = (size_t)h & seen->mask;; i = (i + 1) & seen->mask) {
        struct push_item *at = seen->slots[i];
        if (at == NULL) {
            seen->slots[i] = item;
            return NULL;
        }
        if (memcmp(&at->hash, &item->hash, sizeof at->hash) == 0 && push_same_partition(at, item))
            return at;
    }
}

static void push_mark_repeats(struct push_request *push)
{
    if (push->count < 2)
        return;
    struct push_seen seen = {.mask = 3};
    while (seen.mask < 2 * push->count)
        seen.mask = seen.mask * 2 + 1;
    seen.slots = arena_zarray(request_arena(push->r), seen.mask + 1, sizeof *seen.slots);
    for (size_t i = 0; i < push->count; i++)
        push->items[i].leader = push_seen_before(&seen, &push->items[i]);
}

struct push_group_node {
    struct table_node node;
    struct push_group group;
    struct push_group_node *next; /* in order of first mention */
};

static bool push_group_equal(const struct table_node *node, const void *key)
{
    const struct push_group *group = &TABLE_OWNER(node, const struct push_group_node, node)->group;
    const struct push_item *item = key;
    return slice_equal(group->queue, item->queue) && slice_equal(group->partition, item->partition);
}

static struct push_group_node *push_group_of(struct arena *arena, struct table *table,
                                             const struct push_item *item, bool *fresh)
{
    uint64_t hash = table_hash(item->queue, item->partition);
    struct table_node *node = table_find(table, hash, item);
    *fresh = node == NULL;
    if (node != NULL)
        return TABLE_OWNER(node, struct push_group_node, node);
    struct push_group_node *g = arena_zarray(arena, 1, sizeof *g);
    g->group.queue = item->queue;
    g->group.partition = item->partition;
    table_insert(table, &g->node, hash);
    return g;
}

/* Collects the items of each (queue, partition) in request order. All items count as unsettled
 * before the first group is handed over, since a group may settle at once. */
static void push_submit(struct push_request *push)
{
    struct arena *arena = request_arena(push->r);
    struct table table = {.equal = push_group_equal};
    struct push_group_node *first = NULL, **link = &first, *last = NULL;
    struct push_group_node **group_of = arena_alloc(arena, push->count * sizeof *group_of);
    for (size_t i = 0; i < push->count; i++) {
        struct push_item *item = &push->items[i];
        if (item->leader != NULL)
            continue;
        push->unsettled++;
        if (last == NULL || !push_group_equal(&last->node, item)) {
            bool fresh;
            last = push_group_of(arena, &table, item, &fresh);
            if (fresh) {
                *link = last;
                link = &last->next;
            }
        }
        group_of[i] = last;
        last->group.count++;
        last->group.bytes += item->payload.n + item->transaction_id.n + PUSH_FRAME_OVERHEAD;
    }
    table_free(&table);
    for (struct push_group_node *g = first; g != NULL; g = g->next) {
        g->group.items = arena_alloc(arena, g->group.count * sizeof *g->group.items);
        g->group.count = 0;
    }
    for (size_t i = 0; i < push->count; i++)
        if (push->items[i].leader == NULL)
            group_of[i]->group.items[group_of[i]->group.count++] = &push->items[i];
    struct worker *w = push->w;
    for (struct push_group_node *g = first; g != NULL;) {
        struct push_group_node *next =
            g->next; /* handing over the last group may end the request */
        push_fusion_add(w, &g->group);
        g = next;
    }
}

/* Push maintenance: nothing reaches the log. */
static void push_buffer(struct push_request *push)
{
    push->maintenance = true;
    for (size_t i = 0; i < push->count; i++) {
        if (push->items[i].leader != NULL)
            continue;
        push->unsettled++;
        push_spool_add(push->w, &push->items[i], PUSH_FAILED);
    }
}

void push_handle(struct worker *w, struct request *r)
{
    struct err err;
    struct push_request *push = arena_zarray(request_arena(r), 1, sizeof *push);
    push->w = w;
    push->r = r;
    push->deadline_ms = loop_now_ms(w->loop) + (uint64_t)w->settings.request_timeout_ms;
    WORKER_COUNT(w, push_requests, 1);
    int status = push_parse(push, &err);
    if (status != 0) {
        request_answer_error(r, status, "%s", err.text);
        return;
    }
    if (push->count == 0) {
        struct buf body = {0};
        BUF_PUT_LITERAL(&body, "[]");
        request_answer(r, 201, NULL, (struct slice){0}, &body);
        return;
    }
    push_mark_repeats(push);
    if (maintenance_is_on(w->shm, MAINTENANCE_PUSH))
        push_buffer(push);
    else
        push_submit(push);
}

static void push_write_item(struct buf *out, size_t index, const struct push_item *item,
                            const char *failure)
{
    static const char *const words[] = {[PUSH_QUEUED] = "queued",
                                        [PUSH_DUPLICATE] = "duplicate",
                                        [PUSH_BUFFERED] = "buffered",
                                        [PUSH_FAILED] = "failed"};
    /* A repeat inside the request reports its leader's message, whoever won. */
    const struct push_item *id = item->leader != NULL ? item->leader : item;
    enum push_status status =
        item->leader != NULL && id->status == PUSH_QUEUED ? PUSH_DUPLICATE : id->status;
    BUF_PUT_LITERAL(out, "{\"index\":");
    buf_put_int(out, (int64_t)index);
    BUF_PUT_LITERAL(out, ",\"message_id\":");
    json_write_uuid(out, &id->message_id);
    BUF_PUT_LITERAL(out, ",\"transaction_id\":");
    json_write_string(out, item->transaction_id);
    BUF_PUT_LITERAL(out, ",\"queueName\":");
    json_write_string(out, item->queue);
    BUF_PUT_LITERAL(out, ",\"status\":\"");
    buf_put_slice(out, slice_of(words[status]));
    buf_putc(out, '"');
    if (status == PUSH_FAILED) {
        BUF_PUT_LITERAL(out, ",\"error\":");
        json_write_string(out, slice_of(failure));
    }
    buf_putc(out, '}');
}

static void push_answer(struct push_request *push)
{
    struct buf body = {0};
    size_t tally[PUSH_UNKNOWN + 1] = {0};
    for (size_t i = 0; i < push->count; i++) {
        const struct push_item *item = &push->items[i];
        tally[item->leader == NULL                  ? item->status
              : item->leader->status == PUSH_QUEUED ? PUSH_DUPLICATE
                                                    : item->leader->status]++;
    }
    WORKER_COUNT(push->w, push_messages, tally[PUSH_QUEUED]);
    WORKER_COUNT(push->w, push_duplicates, tally[PUSH_DUPLICATE]);
    WORKER_COUNT(push->w, push_buffered, tally[PUSH_BUFFERED]);
    WORKER_COUNT(push->w, push_failed, tally[PUSH_FAILED]);
    if (tally[PUSH_UNKNOWN] > 0) {
        /* Contract 1, section 6: the deadline passed with the outcome unknown. */
        BUF_PUT_LITERAL(&body, "{\"error\":\"timeout\",\"code\":\"timeout\"}");
        request_answer(push->r, 503, NULL, SLICE_LITERAL("Retry-After: 1\r\n"), &body);
        return;
    }
    buf_reserve(&body, push->count * 192);
    for (size_t i = 0; i < push->count; i++) {
        buf_putc(&body, i == 0 ? '[' : ',');
        push_write_item(&body, i, &push->items[i], push->failure);
    }
    buf_putc(&body, ']');
    int status = push->maintenance && tally[PUSH_FAILED] > 0 ? 500 : 201;
    request_answer(push->r, status, NULL, (struct slice){0}, &body);
}

void push_item_settle(struct push_item *item, enum push_status status)
{
    item->status = status;
    if (--item->request->unsettled == 0)
        push_answer(item->request);
}
