/* The body of a transaction: operations, riders, leases (contract 1, section 5). */
#include "worker/transaction.h"

#include <stdarg.h>
#include <stdio.h>

enum { TXN_MAX_ENTRIES = PUSH_MAX_ITEMS, TXN_MAX_KV_OPS = 64, TXN_MAX_KV_KEYS = 256 };

static bool refuse(struct txn_refusal *out, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);
static bool refuse(struct txn_refusal *out, int status, const char *fmt, ...)
{
    va_list ap;
    out->status = status;
    (void)snprintf(out->reason, sizeof out->reason, "bad_request");
    va_start(ap, fmt);
    (void)vsnprintf(out->text.text, sizeof out->text.text, fmt, ap);
    va_end(ap);
    return false;
}

struct txn_parse {
    struct transaction *t;
    struct arena *arena;
    struct txn_refusal *refusal;
    struct table cursors;
    struct txn_cursor *first, *last;
    size_t lease_cap;
};

/* First pass: what there is, so that arrays can be made. */
static bool count_operation(struct txn_parse *p, size_t index, struct json_value op)
{
    struct json_value type, items, item;
    const struct json_field fields[] = {{"type", &type}, {"items", &items}};
    struct slice name = {"", 0};
    struct err err;
    if (op.type != JSON_OBJECT)
        return refuse(p->refusal, 400, "operations[%zu] must be an object, found %s", index,
                      json_type_name(op.type));
    if (!json_pick(op, fields, 2, &err) || !ack_text(p->arena, "type", type, &name, &err))
        return refuse(p->refusal, 400, "operations[%zu]: %s", index, err.text);
    if (slice_is(name, "ack")) {
        p->t->ack_count++;
    } else if (slice_is(name, "push")) {
        if (json_present(items) && items.type != JSON_ARRAY)
            return refuse(p->refusal, 400, "operations[%zu].items must be an array, found %s",
                          index, json_type_name(items.type));
        if (!json_present(items))
            p->t->push_count++;
        for (struct json_iter it = json_iterate(items); json_next(&it, &item);)
            p->t->push_count++;
    } else if (name.n == 0) {
        return refuse(p->refusal, 400, "every transaction operation needs a `type` of push or ack");
    } else if (slice_is(name, "kv") || slice_is(name, "timer") || slice_is(name, "timers")) {
        return refuse(p->refusal, 400,
                      "kv and timer operations are TOP-LEVEL arrays of the request (\"kv\":[...], "
                      "\"timers\":[...]), never elements of `operations`");
    } else {
        return refuse(p->refusal, 400,
                      "segments transaction supports only push and ack operations, got `%.*s`",
                      SLICE_ARGS(name));
    }
    return true;
}

static bool parse_push(struct txn_parse *p, struct json_value element, const char *where)
{
    struct transaction *t = p->t;
    struct push_item *item = &t->pushes[t->push_count++];
    struct err err;
    int status = push_item_parse(p->arena, element, true, item, &err);
    if (status != 0)
        return refuse(p->refusal, status, "%s: %s", where, err.text);
    t->entries[t->entry_count++].push = item;
    return true;
}

static void name_lease(struct txn_parse *p, struct slice lease)
{
    struct transaction *t = p->t;
    if (lease.n == 0)
        return;
    t->names_leases = true;
    if (!ack_lease_is_plausible(lease) ||
        (t->lease_count > 0 && slice_equal(t->leases[t->lease_count - 1], lease)))
        return;
    if (t->lease_count == p->lease_cap) {
        size_t cap = p->lease_cap == 0 ? 8 : 2 * p->lease_cap;
        struct slice *grown = arena_alloc(p->arena, cap * sizeof *grown);
        if (t->lease_count > 0)
            memcpy(grown, t->leases, t->lease_count * sizeof *grown);
        t->leases = grown;
        p->lease_cap = cap;
    }
    t->leases[t->lease_count++] = lease;
}

static void hopeless(struct transaction *t, size_t index, struct slice text)
{
    if (t->hopeless.text.p != NULL)
        return;
    t->hopeless.index = index;
    t->hopeless.text = text;
}

struct txn_cursor_node {
    struct table_node node;
    struct txn_cursor cursor;
};

struct txn_cursor_key {
    struct uuid partition_id;
    struct slice group;
};

static bool cursor_equal(const struct table_node *node, const void *key)
{
    const struct txn_cursor *c = &TABLE_OWNER(node, const struct txn_cursor_node, node)->cursor;
    const struct txn_cursor_key *k = key;
    return uuid_equal(&c->partition_id, &k->partition_id) && slice_equal(c->group, k->group);
}

static struct txn_cursor *cursor_get(struct txn_parse *p, const struct txn_cursor_key *key)
{
    struct transaction *t = p->t;
    struct slice id = {(const char *)key->partition_id.bytes, sizeof key->partition_id.bytes};
    uint64_t hash = table_hash(id, key->group);
    struct table_node *found = table_find(&p->cursors, hash, key);
    if (found != NULL)
        return &TABLE_OWNER(found, struct txn_cursor_node, node)->cursor;
    struct txn_cursor_node *node = arena_zarray(p->arena, 1, sizeof *node);
    struct txn_cursor *c = &node->cursor;
    c->partition_id = key->partition_id;
    c->group = key->group;
    c->first = t->entry_count;
    c->all_completed = true;
    if (p->last == NULL)
        p->first = c;
    else
        p->last->next = c;
    p->last = c;
    t->cursor_count++;
    table_insert(&p->cursors, &node->node, hash);
    return c;
}

static bool parse_ack(struct txn_parse *p, struct json_value op, size_t index)
{
    struct transaction *t = p->t;
    struct ack_item *ack = &t->acks[t->ack_count++];
    struct txn_entry *entry = &t->entries[t->entry_count];
    struct json_value transaction_id, partition_id, status, group, lease_id, reason;
    const struct json_field fields[] = {
        {"transactionId", &transaction_id}, {"partitionId", &partition_id}, {"status", &status},
        {"consumerGroup", &group},          {"leaseId", &lease_id},         {"error", &reason}};
    struct slice partition, status_text, lease;
    struct txn_cursor_key key;
    struct err err;
    if (!json_pick(op, fields, sizeof fields / sizeof *fields, &err) ||
        !ack_text(p->arena, "transactionId", transaction_id, &ack->transaction_id, &err) ||
        !ack_text(p->arena, "partitionId", partition_id, &partition, &err) ||
        !ack_text(p->arena, "status", status, &status_text, &err) ||
        !ack_text(p->arena, "consumerGroup", group, &key.group, &err) ||
        !ack_text(p->arena, "leaseId", lease_id, &lease, &err) ||
        !ack_text(p->arena, "error", reason, &ack->reason, &err))
        return refuse(p->refusal, 400, "operations[%zu]: %s", index, err.text);
    if (key.group.n == 0)
        key.group = SLICE_LITERAL(QUEUE_MODE_GROUP);
    int refused = name_check("consumerGroup", key.group, &err);
    if (refused != 0)
        return refuse(p->refusal, refused, "operations[%zu]: %s", index, err.text);
    ack->hash = txn_hash_of(ack->transaction_id);
    ack->status = ack_status_of(status, status_text);
    entry->ack = ack;
    name_lease(p, lease);
    if (!uuid_parse(partition, &key.partition_id)) {
        hopeless(t, t->entry_count++, ACK_UNRESOLVABLE);
        return true;
    }
    struct txn_cursor *c = cursor_get(p, &key);
    /* One cursor has one lease: a second id of the same cursor is stale for certain. */
    if (!ack_lease_is_plausible(lease) ||
        (lease.n > 0 && c->lease.n > 0 && !slice_equal(c->lease, lease)))
        hopeless(t, t->entry_count, ACK_INVALID_LEASE);
    if (c->lease.n == 0)
        c->lease = lease;
    c->all_completed &= ack->status == ACK_COMPLETED;
    c->count++;
    entry->cursor = c;
    t->entry_count++;
    return true;
}

static bool parse_operation(struct txn_parse *p, size_t index, struct json_value op)
{
    struct json_value type, items, item;
    const struct json_field fields[] = {{"type", &type}, {"items", &items}};
    struct err err;
    char where[64];
    if (!json_pick(op, fields, 2, &err))
        return refuse(p->refusal, 400, "operations[%zu]: %s", index, err.text);
    struct slice name;
    if (!json_string(type, p->arena, &name, &err))
        return refuse(p->refusal, 400, "operations[%zu]: %s", index, err.text);
    if (slice_is(name, "ack"))
        return parse_ack(p, op, index);
    if (!json_present(items)) {
        (void)snprintf(where, sizeof where, "operations[%zu]", index);
        return parse_push(p, op, where);
    }
    size_t place = 0;
    for (struct json_iter it = json_iterate(items); json_next(&it, &item); place++) {
        (void)snprintf(where, sizeof where, "operations[%zu].items[%zu]", index, place);
        if (!parse_push(p, item, where))
            return false;
    }
    return true;
}

static bool parse_operations(struct txn_parse *p, struct json_value operations)
{
    struct transaction *t = p->t;
    struct json_value op;
    size_t index = 0;
    for (struct json_iter it = json_iterate(operations); json_next(&it, &op); index++) {
        if (!count_operation(p, index, op))
            return false;
        if (t->push_count + t->ack_count > TXN_MAX_ENTRIES)
            return refuse(p->refusal, 413, "more than %d operations in one transaction",
                          TXN_MAX_ENTRIES);
    }
    t->entries = arena_zarray(p->arena, t->push_count + t->ack_count, sizeof *t->entries);
    t->pushes = arena_zarray(p->arena, t->push_count, sizeof *t->pushes);
    t->acks = arena_zarray(p->arena, t->ack_count, sizeof *t->acks);
    t->push_count = t->ack_count = 0; /* counted again as they are filled */
    index = 0;
    for (struct json_iter it = json_iterate(operations); json_next(&it, &op); index++)
        if (!parse_operation(p, index, op))
            return false;
    return true;
}

static bool parse_leases(struct txn_parse *p, struct json_value leases)
{
    struct json_value element;
    struct slice lease;
    struct err err;
    if (json_present(leases) && leases.type != JSON_ARRAY)
        return refuse(p->refusal, 400, "requiredLeases must be an array, found %s",
                      json_type_name(leases.type));
    for (struct json_iter it = json_iterate(leases); json_next(&it, &element);) {
        if (!ack_text(p->arena, "requiredLeases", element, &lease, &err))
            return refuse(p->refusal, 400, "%s", err.text);
        name_lease(p, lease);
    }
    return true;
}

/* A refusal of the standalone routes as one of a transaction. */
static bool refuse_rider(struct txn_refusal *out, const struct refusal *rider)
{
    const char *reason = rider->status == 413   ? "payload_too_large"
                         : rider->status == 403 ? rider->error
                                                : "bad_request";
    const char *text = rider->detail.text;
    (void)refuse(out, rider->status, "%s%s%.400s", rider->reason, *text == '\0' ? "" : ": ", text);
    (void)snprintf(out->reason, sizeof out->reason, "%s", reason);
    return false;
}

/* What only a transaction refuses of its key/value operations. */
static bool check_kv(struct txn_parse *p, struct json_value kv)
{
    struct json_value element, op, keys, key;
    const struct json_field fields[] = {{"op", &op}, {"keys", &keys}};
    struct slice name;
    struct err err;
    size_t count = 0, key_count = 0, index = 0;
    for (struct json_iter it = json_iterate(kv); json_next(&it, &element);)
        count++;
    if (count > TXN_MAX_KV_OPS)
        return refuse(p->refusal, 400,
                      "%zu kv operations in one transaction, the ceiling on this wire is %d", count,
                      TXN_MAX_KV_OPS);
    for (struct json_iter it = json_iterate(kv); json_next(&it, &element); index++) {
        if (element.type != JSON_OBJECT)
            return refuse(p->refusal, 400, "kv operation at index %zu is not an object", index);
        if (!json_pick(element, fields, 2, &err))
            return refuse(p->refusal, 400, "kv operation at index %zu: %s", index, err.text);
        if (op.type == JSON_STRING && json_string(op, p->arena, &name, &err) &&
            slice_is(name, "getPrefix"))
            return refuse(p->refusal, 400,
                          "kv operation at index %zu: getPrefix is not available inside a "
                          "transaction; it lives only on POST /api/v1/kv",
                          index);
        key_count += keys.type != JSON_ARRAY;
        for (struct json_iter k = json_iterate(keys);
             keys.type == JSON_ARRAY && json_next(&k, &key);)
            key_count++;
    }
    return key_count <= TXN_MAX_KV_KEYS ||
           refuse(p->refusal, 400, "%zu kv keys in one transaction, the ceiling on this wire is %d",
                  key_count, TXN_MAX_KV_KEYS);
}

static bool parse_riders(struct txn_parse *p, struct json_value kv, struct json_value timers)
{
    struct transaction *t = p->t;
    struct refusal refusal;
    const struct json_field riders[] = {{"kv", &kv}, {"timers", &timers}};
    for (size_t i = 0; i < 2; i++)
        if (json_present(*riders[i].out) && riders[i].out->type != JSON_ARRAY)
            return refuse(p->refusal, 400,
                          "`%s` must be an array at the TOP LEVEL of the request body, beside "
                          "`operations` and never inside it",
                          riders[i].name);
    if (!check_kv(p, kv))
        return false;
    if (!kv_ops_parse(kv, TXN_MAX_KV_OPS, p->arena, &t->kv, &refusal) ||
        !timer_ops_parse(t->w, timers, true, p->arena, &t->timers, &refusal))
        return refuse_rider(p->refusal, &refusal);
    return true;
}

/* Gives the partitions their items and the cursors their acks, in request order. */
static void gather(struct txn_parse *p)
{
    struct transaction *t = p->t;
    push_items_mark_repeats(p->arena, t->pushes, t->push_count);
    struct push_group *first = push_items_group(p->arena, t->pushes, t->push_count);
    for (struct push_group *g = first; g != NULL; g = g->next)
        t->group_count++;
    t->groups = arena_zarray(p->arena, t->group_count, sizeof *t->groups);
    size_t at = 0;
    for (struct push_group *g = first; g != NULL; g = g->next)
        t->groups[at++] = *g;
    t->cursors = arena_alloc(p->arena, t->cursor_count * sizeof *t->cursors);
    at = 0;
    for (struct txn_cursor *c = p->first; c != NULL; c = c->next) {
        t->cursors[at++] = c;
        c->acks = arena_alloc(p->arena, c->count * sizeof(struct ack_item *));
        c->count = 0;
    }
    for (size_t i = 0; i < t->entry_count; i++) {
        struct txn_cursor *c = t->entries[i].cursor;
        if (c != NULL)
            c->acks[c->count++] = t->entries[i].ack;
    }
}

bool transaction_parse(struct transaction *t, struct txn_refusal *refusal)
{
    struct txn_parse p = {.t = t,
                          .arena = request_arena(t->r),
                          .refusal = refusal,
                          .cursors = {.equal = cursor_equal}};
    struct json_value body, operations, leases, kv, timers;
    const struct json_field fields[] = {
        {"operations", &operations}, {"requiredLeases", &leases}, {"kv", &kv}, {"timers", &timers}};
    struct err err;
    bool ok = json_validate(request_body(t->r), &body, &err);
    if (ok && body.type != JSON_OBJECT)
        ok = err_set(&err, "expected an object, found %s", json_type_name(body.type));
    if (!ok || !json_pick(body, fields, sizeof fields / sizeof *fields, &err))
        return refuse(refusal, 400, "bad body: %s", err.text);
    ok = parse_riders(&p, kv, timers);
    if (ok && operations.type != JSON_ARRAY &&
        (json_present(operations) || t->kv.count + t->timers.count == 0))
        ok = refuse(refusal, 400,
                    "transaction requires an operations array (or a top-level kv/timers array)");
    ok = ok && parse_operations(&p, operations) && parse_leases(&p, leases);
    table_free(&p.cursors);
    if (ok)
        gather(&p);
    return ok;
}
