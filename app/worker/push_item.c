/* Items that a request wants stored: read, repeats found, gathered per partition. For the push
 * route and for transactions. */
#include "worker/push.h"

#include "wire/json.h"

enum { PUSH_FRAME_OVERHEAD = 23 /* bytes of a frame beside its ids and payload */ };

static bool item_text(struct arena *arena, const char *field, struct json_value v,
                      struct slice *out, struct err *err)
{
    if (v.type != JSON_STRING)
        return err_set(err, "%s must be a string, found %s", field, json_type_name(v.type));
    return json_string(v, arena, out, err) || err_prefix(err, "%s", field);
}

static bool item_transaction_id(struct arena *arena, struct json_value v, bool in_transaction,
                                struct push_item *item, struct err *err)
{
    if (json_present(v) && !item_text(arena, "transactionId", v, &item->transaction_id, err))
        return false;
    if (!json_present(v) || (in_transaction && item->transaction_id.n == 0)) {
        char *text = arena_alloc(arena, UUID_TEXT_SIZE);
        uuid_format(&item->message_id, text);
        item->transaction_id = (struct slice){text, UUID_TEXT_SIZE};
    }
    if (item->transaction_id.n > TRANSACTION_ID_MAX_BYTES)
        return err_set(err, "transactionId has %zu bytes, the limit is %d", item->transaction_id.n,
                       TRANSACTION_ID_MAX_BYTES);
    item->hash = txn_hash_of(item->transaction_id);
    return true;
}

/* Anything but the text of a UUID is no trace id. */
static void item_trace_id(struct arena *arena, struct json_value v, struct push_item *item)
{
    struct slice text;
    struct err err;
    item->traced = v.type == JSON_STRING && json_string(v, arena, &text, &err) &&
                   uuid_parse(text, &item->trace_id);
}

int push_item_parse(struct arena *arena, struct json_value element, bool in_transaction,
                    struct push_item *item, struct err *err)
{
    struct json_value queue, partition, payload, data, trace_id, transaction_id;
    const struct json_field fields[] = {{"queue", &queue},     {"partition", &partition},
                                        {"payload", &payload}, {"transactionId", &transaction_id},
                                        {"data", &data},       {"traceId", &trace_id}};
    size_t count = in_transaction ? 6 : 4;
    bool ok = element.type == JSON_OBJECT
                  ? json_pick(element, fields, count, err)
                  : err_set(err, "must be an object, found %s", json_type_name(element.type));
    if (!ok)
        return 400;
    if (in_transaction && payload.type == JSON_ABSENT)
        payload =
            data.type != JSON_ABSENT ? data : (struct json_value){JSON_OBJECT, SLICE_LITERAL("{}")};
    if (!json_present(queue) || payload.type == JSON_ABSENT) {
        (void)err_set(err, "%s is required", json_present(queue) ? "payload" : "queue");
        return 400;
    }
    item->payload = payload.raw;
    item->partition = SLICE_LITERAL("Default");
    item->message_id = uuid_v7();
    if (!item_text(arena, "queue", queue, &item->queue, err) ||
        (json_present(partition) &&
         !item_text(arena, "partition", partition, &item->partition, err)))
        return 400;
    int status = name_check("queue", item->queue, err);
    if (status == 0)
        status = name_check("partition", item->partition, err);
    if (status != 0)
        return status;
    if (in_transaction)
        item_trace_id(arena, trace_id, item);
    return item_transaction_id(arena, transaction_id, in_transaction, item, err) ? 0 : 400;
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

void push_items_mark_repeats(struct arena *arena, struct push_item *items, size_t count)
{
    if (count < 2)
        return;
    struct push_seen seen = {.mask = 3};
    while (seen.mask < 2 * count)
        seen.mask = seen.mask * 2 + 1;
    seen.slots = arena_zarray(arena, seen.mask + 1, sizeof *seen.slots);
    for (size_t i = 0; i < count; i++)
        items[i].leader = push_seen_before(&seen, &items[i]);
}

struct push_group_node {
    struct table_node node;
    struct push_group group;
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

struct push_group *push_items_group(struct arena *arena, struct push_item *items, size_t count)
{
    struct table table = {.equal = push_group_equal};
    struct push_group *first = NULL, **link = &first;
    struct push_group_node *last = NULL;
    struct push_group **group_of = arena_alloc(arena, count * sizeof(struct push_group *));
    for (size_t i = 0; i < count; i++) {
        const struct push_item *item = &items[i];
        if (item->leader != NULL)
            continue;
        if (last == NULL || !push_group_equal(&last->node, item)) {
            bool fresh;
            last = push_group_of(arena, &table, item, &fresh);
            if (fresh) {
                *link = &last->group;
                link = &last->group.next;
            }
        }
        group_of[i] = &last->group;
        last->group.count++;
        last->group.bytes += item->payload.n + item->transaction_id.n + PUSH_FRAME_OVERHEAD +
                             (item->traced ? sizeof item->trace_id : 0);
    }
    table_free(&table);
    for (struct push_group *g = first; g != NULL; g = g->next) {
        g->items = arena_alloc(arena, g->count * sizeof *g->items);
        g->count = 0;
    }
    for (size_t i = 0; i < count; i++)
        if (items[i].leader == NULL)
            group_of[i]->items[group_of[i]->count++] = &items[i];
    return first;
}
