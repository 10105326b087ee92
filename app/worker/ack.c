/* POST /api/v1/ack and /ack/batch: from the body to groups, and the answer (seed "POST /api/v1/ack
 * and /ack/batch"). */
#include "worker/ack.h"

#include "wire/json.h"
#include "wire/json_write.h"
#include "worker/wake.h"

enum {
    ACK_MAX_ITEMS = 100000, /* bounds the memory of one request */
};

enum ack_status ack_status_of(struct json_value v, struct slice text)
{
    static const char *const completed[] = {"completed", "success", "acked", "ok"};
    if (!json_present(v))
        return ACK_COMPLETED;
    for (size_t i = 0; i < sizeof completed / sizeof *completed; i++)
        if (slice_is(text, completed[i]))
            return ACK_COMPLETED;
    return slice_is(text, "retry") ? ACK_RETRY : slice_is(text, "dlq") ? ACK_DLQ : ACK_FAILED;
}

bool ack_lease_is_plausible(struct slice lease)
{
    return lease.n <= ACK_MAX_LEASE_BYTES && (lease.n == 0 || memchr(lease.p, 0, lease.n) == NULL);
}

struct ack_fields {
    struct json_value transaction_id, partition_id, status, lease_id, reason;
};

bool ack_text(struct arena *arena, const char *field, struct json_value v, struct slice *out,
              struct err *err)
{
    *out = (struct slice){"", 0};
    if (!json_present(v))
        return true;
    if (v.type != JSON_STRING)
        return err_set(err, "%s must be a string, found %s", field, json_type_name(v.type));
    return json_string(v, arena, out, err) || err_prefix(err, "%s", field);
}

struct ack_key {
    struct slice partition, lease;
};

struct ack_group_node {
    struct table_node node;
    struct ack_group group;
};

static bool ack_group_equal(const struct table_node *node, const void *key)
{
    const struct ack_group *g = &TABLE_OWNER(node, const struct ack_group_node, node)->group;
    const struct ack_key *k = key;
    return slice_equal(g->partition_text, k->partition) && slice_equal(g->lease_text, k->lease);
}

static struct ack_group *ack_group_get(struct ack_request *ack, struct table *table,
                                       const struct ack_key *key)
{
    uint64_t hash = table_hash(key->partition, key->lease);
    struct table_node *found = table_find(table, hash, key);
    if (found != NULL)
        return &TABLE_OWNER(found, struct ack_group_node, node)->group;
    struct ack_group_node *node = arena_zarray(request_arena(ack->r), 1, sizeof *node);
    struct ack_group *g = &node->group;
    g->request = ack;
    g->partition_text = key->partition;
    g->lease_text = key->lease;
    g->lease_is_uuid = uuid_parse(key->lease, &g->lease_id);
    g->all_completed = true;
    g->conflated = -1;
    g->next = ack->groups;
    ack->groups = g;
    ack->open++;
    table_insert(table, &node->node, hash);
    return g;
}

static bool ack_parse_item(struct ack_request *ack, struct table *table, struct ack_item *item,
                           struct json_value v, struct err *err)
{
    struct ack_fields f;
    const struct json_field fields[] = {{"transactionId", &f.transaction_id},
                                        {"partitionId", &f.partition_id},
                                        {"status", &f.status},
                                        {"leaseId", &f.lease_id},
                                        {"error", &f.reason}};
    struct ack_key key;
    struct slice status;
    struct arena *arena = request_arena(ack->r);
    if (v.type != JSON_OBJECT)
        return err_set(err, "must be an object, found %s", json_type_name(v.type));
    if (!json_pick(v, fields, sizeof fields / sizeof *fields, err) ||
        !ack_text(arena, "transactionId", f.transaction_id, &item->transaction_id, err) ||
        !ack_text(arena, "partitionId", f.partition_id, &key.partition, err) ||
        !ack_text(arena, "status", f.status, &status, err) ||
        !ack_text(arena, "leaseId", f.lease_id, &key.lease, err) ||
        !ack_text(arena, "error", f.reason, &item->reason, err))
        return false;
    item->hash = txn_hash_of(item->transaction_id);
    item->status = ack_status_of(f.status, status);
    item->group = ack_group_get(ack, table, &key);
    item->group->all_completed &= item->status == ACK_COMPLETED;
    item->group->count++;
    return true;
}

static bool ack_parse_items(struct ack_request *ack, const struct json_value *values,
                            struct err *err)
{
    struct table table = {.equal = ack_group_equal};
    bool ok = true;
    for (size_t i = 0; ok && i < ack->count; i++) {
        ok = ack_parse_item(ack, &table, &ack->items[i], values[i], err);
        if (!ok && ack->count > 1)
            (void)err_prefix(err, "acknowledgments[%zu]", i);
    }
    table_free(&table);
    return ok;
}

static void ack_write_item(struct buf *out, size_t index, const struct ack_item *item)
{
    BUF_PUT_LITERAL(out, "{\"index\":");
    buf_put_int(out, (int64_t)index);
    BUF_PUT_LITERAL(out, ",\"transactionId\":");
    json_write_string(out, item->transaction_id);
    BUF_PUT_LITERAL(out, ",\"success\":");
    json_write_bool(out, item->success);
    BUF_PUT_LITERAL(out, ",\"error\":");
    if (item->error.p == NULL)
        BUF_PUT_LITERAL(out, "null");
    else
        json_write_string(out, item->error);
    BUF_PUT_LITERAL(out, ",\"leaseReleased\":");
    json_write_bool(out, item->lease_released);
    BUF_PUT_LITERAL(out, ",\"dlq\":");
    json_write_bool(out, item->dlq);
    BUF_PUT_LITERAL(out, ",\"noop\":");
    json_write_bool(out, item->noop);
    if (item->group->conflated >= 0 && item == item->group->items[0]) {
        BUF_PUT_LITERAL(out, ",\"conflated\":");
        buf_put_int(out, item->group->conflated);
    }
    buf_putc(out, '}');
}

static void ack_answer(struct ack_request *ack)
{
    struct buf body = {0};
    if (ack->unknown) {
        BUF_PUT_LITERAL(&body, "{\"error\":\"outcome_unknown: the ack may or may not have applied; "
                               "send it again\",\"code\":\"outcome_unknown\"}");
        request_answer(ack->r, 503, NULL, SLICE_LITERAL("Retry-After: 1\r\n"), &body);
        return;
    }
    WORKER_COUNT(ack->w, ack_items, ack->count);
    buf_reserve(&body, ack->count * 192 + 2);
    buf_putc(&body, '[');
    for (size_t i = 0; i < ack->count; i++) {
        if (i > 0)
            buf_putc(&body, ',');
        WORKER_COUNT(ack->w, ack_failed, !ack->items[i].success);
        ack_write_item(&body, i, &ack->items[i]);
    }
    buf_putc(&body, ']');
    request_answer(ack->r, 200, NULL, (struct slice){0}, &body);
}

void ack_group_done(struct ack_group *g)
{
    if (--g->request->open == 0)
        ack_answer(g->request);
}

void ack_group_fail(struct ack_group *g, struct slice text)
{
    g->conflated = -1;
    for (size_t i = 0; i < g->count; i++) {
        struct ack_item *item = g->items[i];
        item->success = item->lease_released = item->dlq = item->noop = false;
        item->error = text;
    }
    ack_group_done(g);
}

void ack_group_committed(struct ack_group *g)
{
    for (size_t i = 0; i < g->count; i++) {
        g->items[i]->success = true;
        g->items[i]->lease_released = true;
    }
    ack_group_wake(g);
    ack_group_done(g);
}

void ack_group_wake(struct ack_group *g)
{
    wake_send(g->request->w, g->queue, 0,
              table_hash(g->request->consumer_group, (struct slice){0}));
}

/* Gives each group its items, in request order, then starts them all. A group may end at once, so
 * the last one started may end the request. */
static void ack_start_groups(struct ack_request *ack)
{
    struct arena *arena = request_arena(ack->r);
    for (struct ack_group *g = ack->groups; g != NULL; g = g->next) {
        g->items = arena_alloc(arena, g->count * sizeof *g->items);
        g->count = 0;
    }
    for (size_t i = 0; i < ack->count; i++) {
        struct ack_group *g = ack->items[i].group;
        g->items[g->count++] = &ack->items[i];
    }
    for (struct ack_group *g = ack->groups, *next; g != NULL; g = next) {
        next = g->next;
        if (!uuid_parse(g->partition_text, &g->partition_id))
            ack_group_fail(g, ACK_UNRESOLVABLE);
        else if (!ack_lease_is_plausible(g->lease_text))
            ack_group_fail(g, ACK_INVALID_LEASE);
        else
            ack_group_start(g);
    }
}

static void ack_run(struct ack_request *ack, const struct json_value *values)
{
    struct err err;
    if (ack->count == 0) {
        ack_answer(ack);
        return;
    }
    ack->items = arena_zarray(request_arena(ack->r), ack->count, sizeof *ack->items);
    if (!ack_parse_items(ack, values, &err)) {
        request_answer_error(ack->r, 400, "bad body: %s", err.text);
        return;
    }
    ack_start_groups(ack);
}

/* Reads what both routes share. NULL: refused and answered. */
static struct ack_request *ack_begin(struct worker *w, struct request *r, struct json_value *body,
                                     struct json_value *list)
{
    struct err err;
    struct json_value group;
    const struct json_field fields[] = {{"consumerGroup", &group}, {"acknowledgments", list}};
    struct ack_request *ack = arena_zarray(request_arena(r), 1, sizeof *ack);
    ack->w = w;
    ack->r = r;
    ack->deadline_ms = loop_now_ms(w->loop) + (uint64_t)w->settings.request_timeout_ms;
    ack->consumer_group = SLICE_LITERAL(QUEUE_MODE_GROUP);
    WORKER_COUNT(w, ack_requests, 1);
    bool ok = json_validate(request_body(r), body, &err);
    if (ok && body->type != JSON_OBJECT)
        ok = err_set(&err, "expected an object, found %s", json_type_name(body->type));
    ok = ok && json_pick(*body, fields, sizeof fields / sizeof *fields, &err);
    if (ok && json_present(group))
        ok = ack_text(request_arena(r), "consumerGroup", group, &ack->consumer_group, &err);
    if (!ok) {
        request_answer_error(r, 400, "bad body: %s", err.text);
        return NULL;
    }
    int status = name_check("consumerGroup", ack->consumer_group, &err);
    if (status != 0) {
        request_answer_error(r, status, "bad body: %s", err.text);
        return NULL;
    }
    return ack;
}

void ack_handle_single(struct worker *w, struct request *r)
{
    struct json_value body, list;
    struct ack_request *ack = ack_begin(w, r, &body, &list);
    if (ack == NULL)
        return;
    ack->count = 1;
    ack_run(ack, &body);
}

void ack_handle_batch(struct worker *w, struct request *r)
{
    struct json_value body, list, element;
    struct ack_request *ack = ack_begin(w, r, &body, &list);
    if (ack == NULL)
        return;
    if (list.type != JSON_ARRAY) {
        request_answer_error(r, 400, "bad body: acknowledgments must be an array, found %s",
                             json_type_name(list.type));
        return;
    }
    struct json_iter it = json_iterate(list);
    while (json_next(&it, &element))
        ack->count++;
    if (ack->count > ACK_MAX_ITEMS) {
        request_answer_error(r, 413, "bad body: acknowledgments has %zu elements, the limit is %d",
                             ack->count, ACK_MAX_ITEMS);
        return;
    }
    struct json_value *values = arena_alloc(request_arena(r), ack->count * sizeof *values);
    it = json_iterate(list);
    for (size_t i = 0; json_next(&it, &element); i++)
        values[i] = element;
    ack_run(ack, values);
}
