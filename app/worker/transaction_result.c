/* What a transaction came to: answers, and what follows a commit. */
#include "worker/transaction.h"

#include "wire/hex.h"
#include "wire/json_write.h"
#include "worker/push_bind.h"
#include "worker/wake.h"

#include <stdio.h>

static void write_failure(const struct transaction *t, const struct txn_refusal *refusal,
                          struct buf *body)
{
    BUF_PUT_LITERAL(body, "{\"transactionId\":");
    json_write_uuid(body, &t->id);
    BUF_PUT_LITERAL(body, ",\"success\":false,\"reason\":");
    json_write_string(body, slice_of(refusal->reason));
    BUF_PUT_LITERAL(body, ",\"error\":");
    json_write_string(body, slice_of(refusal->text.text));
    BUF_PUT_LITERAL(body, ",\"results\":[]");
}

/* The lost precondition as kv_apply_v1 tells it: {index,op,ns,key,reason,version,value}. */
static void write_precondition(const struct transaction *t, struct slice detail, struct buf *body)
{
    struct json_value lost, index, reason, version, value;
    const struct json_field fields[] = {
        {"index", &index}, {"reason", &reason}, {"version", &version}, {"value", &value}};
    struct err err;
    int64_t at;
    if (!json_validate(detail, &lost, &err) || !json_pick(lost, fields, 4, &err) ||
        !json_int64(index, &at))
        die("kv_apply_v1 tells a lost precondition that cannot be read");
    BUF_PUT_LITERAL(body, ",\"ok\":false,\"failedIndex\":");
    buf_put_int(body, (int64_t)t->entry_count + at);
    BUF_PUT_LITERAL(body, ",\"kvReason\":");
    buf_put_slice(body, reason.raw);
    BUF_PUT_LITERAL(body, ",\"version\":");
    buf_put_slice(body, version.raw);
    BUF_PUT_LITERAL(body, ",\"value\":");
    buf_put_slice(body, value.raw);
}

void transaction_refuse(struct transaction *t, const struct txn_refusal *refusal,
                        struct slice detail)
{
    struct buf body = {0};
    WORKER_COUNT(t->w, transactions_rolled_back, 1);
    write_failure(t, refusal, &body);
    if (detail.n > 0)
        write_precondition(t, detail, &body);
    buf_putc(&body, '}');
    request_answer(t->r, refusal->status, NULL, (struct slice){0}, &body);
}

/* Index of an operation, for the error text. */
static size_t entry_of_push(const struct transaction *t, const struct push_item *item)
{
    for (size_t i = 0; i < t->entry_count; i++)
        if (t->entries[i].push == item)
            return i;
    return 0;
}

/* A hash as SQL writes it: 32 hex digits in quotes. */
static bool read_hash(struct json_value token, struct txn_hash *hash)
{
    *hash = (struct txn_hash){{0}};
    return token.type == JSON_STRING && token.raw.n == 2 * TXN_HASH_SIZE + 2 &&
           hex_decode((struct slice){token.raw.p + 1, 2 * TXN_HASH_SIZE}, hash->bytes);
}

static size_t entry_of_ack(const struct transaction *t, const struct txn_cursor *c,
                           struct json_value token)
{
    struct txn_hash hash;
    bool named = read_hash(token, &hash);
    for (size_t i = c->first; named && i < t->entry_count; i++)
        if (t->entries[i].cursor == c && memcmp(&t->entries[i].ack->hash, &hash, sizeof hash) == 0)
            return i;
    return c->first;
}

struct refused_detail {
    struct json_value ack, hash, push, index, off;
};

static bool read_detail(struct slice text, struct refused_detail *d)
{
    const struct json_field fields[] = {{"ack", &d->ack},
                                        {"hash", &d->hash},
                                        {"push", &d->push},
                                        {"index", &d->index},
                                        {"off", &d->off}};
    struct json_value whole;
    struct err err;
    return json_validate(text, &whole, &err) && json_pick(whole, fields, 5, &err);
}

static void duplicate_text(const struct transaction *t, const struct refused_detail *d,
                           struct err *text)
{
    int64_t push, index, offset;
    if (!json_int64(d->push, &push) || !json_int64(d->index, &index) ||
        !json_int64(d->off, &offset) || push < 0 || (size_t)push >= t->group_count || index < 0 ||
        (size_t)index >= t->groups[push].count)
        die("log_transaction_wire_v1 names a duplicate that was not pushed");
    const struct push_item *item = t->groups[push].items[index];
    (void)err_set(
        text,
        "operation %zu: duplicate: transactionId \"%.*s\" is in queue \"%.100s\" already, "
        "at offset %lld",
        entry_of_push(t, item), item->transaction_id.n > 128 ? 128 : (int)item->transaction_id.n,
        item->transaction_id.n > 0 ? item->transaction_id.p : "",
        arena_cstr(request_arena(t->r), item->queue), (long long)offset);
}

void transaction_refused(struct transaction *t, struct slice state, struct slice error,
                         struct slice detail)
{
    struct txn_refusal refusal = {.status = 200, .reason = "kv_precondition"};
    struct refused_detail d;
    int64_t place;
    if (!slice_is(state, "QT001") && !slice_is(state, "QT002")) {
        (void)err_set(&refusal.text, "%.*s", SLICE_ARGS(error));
        transaction_refuse(t, &refusal, detail);
        return;
    }
    if (!read_detail(detail, &d))
        die("log_transaction_wire_v1 refuses with something else than JSON");
    if (slice_is(state, "QT001")) {
        (void)snprintf(refusal.reason, sizeof refusal.reason, "duplicate");
        duplicate_text(t, &d, &refusal.text);
    } else {
        (void)snprintf(refusal.reason, sizeof refusal.reason, "ack_rejected");
        if (!json_int64(d.ack, &place) || place < 0 || (size_t)place >= t->cursor_count)
            die("log_transaction_acks_v1 refuses an ack that it does not name");
        (void)err_set(&refusal.text, "operation %zu: %.*s",
                      entry_of_ack(t, t->cursors[place], d.hash), SLICE_ARGS(error));
    }
    transaction_refuse(t, &refusal, (struct slice){0});
}

struct committed {
    struct json_value kv, timers, pushes, acks;
};

static void note_pushes(struct transaction *t, struct json_value pushes)
{
    struct worker *w = t->w;
    struct json_value element, id, base;
    const struct json_field fields[] = {{"id", &id}, {"base", &base}};
    struct json_iter it = json_iterate(pushes);
    for (size_t i = 0; i < t->group_count; i++) {
        const struct push_group *g = &t->groups[i];
        struct slice text;
        struct uuid partition_id;
        struct err err;
        int64_t first;
        if (!json_next(&it, &element) || !json_pick(element, fields, 2, &err) ||
            !json_string(id, request_arena(t->r), &text, &err) ||
            !uuid_parse(text, &partition_id) || !json_int64(base, &first))
            die("log_transaction_wire_v1 does not say where push %zu went", i);
        push_note(w, g, &partition_id, first);
        wake_send(w, table_hash(g->queue, (struct slice){0}),
                  table_hash(g->partition, (struct slice){0}), 0);
        WORKER_COUNT(w, push_messages, g->count);
        WORKER_COUNT(w, push_segments, 1);
    }
}

/* The dead-lettered message of a cursor, if there is one. */
static bool dead_hash(struct json_value list, struct txn_hash *hash)
{
    struct json_value token;
    struct json_iter it = json_iterate(list);
    return json_next(&it, &token) && read_hash(token, hash);
}

static void note_acks(struct transaction *t, struct json_value acks)
{
    struct worker *w = t->w;
    struct json_value element, queue, released, dlq;
    const struct json_field fields[] = {{"queue", &queue}, {"released", &released}, {"dlq", &dlq}};
    struct json_iter it = json_iterate(acks);
    for (size_t at = 0; at < t->cursor_count; at++) {
        struct txn_cursor *c = t->cursors[at];
        struct slice name;
        struct txn_hash hash;
        struct uuid lease;
        struct err err;
        if (!json_next(&it, &element) || !json_pick(element, fields, 3, &err) ||
            !json_string(queue, request_arena(t->r), &name, &err))
            die("log_transaction_wire_v1 does not say what came of cursor %zu", at);
        bool dead = dead_hash(dlq, &hash);
        for (size_t i = 0; i < c->count; i++)
            c->acks[i]->dlq = dead && memcmp(&c->acks[i]->hash, &hash, sizeof hash) == 0;
        if (dead)
            WORKER_COUNT(w, ack_dead_letters, 1);
        if (!c->recognised && w->settings.ack_registry)
            registry_drop(w->shm, &c->partition_id, c->group,
                          uuid_parse(c->lease, &lease) ? &lease : NULL);
        if (released.type == JSON_TRUE)
            wake_send(w, table_hash(name, (struct slice){0}), 0,
                      table_hash(c->group, (struct slice){0}));
    }
    WORKER_COUNT(w, ack_items, t->ack_count);
}

static void write_entry(struct buf *body, size_t index, const struct txn_entry *entry)
{
    const struct push_item *push = entry->push;
    BUF_PUT_LITERAL(body, "{\"index\":");
    buf_put_int(body, (int64_t)index);
    if (push == NULL) {
        BUF_PUT_LITERAL(body, ",\"type\":\"ack\",\"success\":true,\"transactionId\":");
        json_write_string(body, entry->ack->transaction_id);
        BUF_PUT_LITERAL(body, ",\"error\":null,\"dlq\":");
        json_write_bool(body, entry->ack->dlq);
    } else {
        BUF_PUT_LITERAL(body, ",\"type\":\"push\",\"success\":true,\"transactionId\":");
        json_write_string(body, push->transaction_id);
        BUF_PUT_LITERAL(body, ",\"messageId\":");
        json_write_uuid(body, push->leader != NULL ? &push->leader->message_id : &push->message_id);
        BUF_PUT_LITERAL(body, ",\"queueName\":");
        json_write_string(body, push->queue);
        if (push->leader != NULL)
            BUF_PUT_LITERAL(body, ",\"duplicate\":true");
    }
    buf_putc(body, '}');
}

static void write_rider_head(struct buf *body, size_t index, size_t place, const char *type)
{
    buf_printf(body, "%s{\"index\":%zu,\"opIndex\":%zu,\"type\":\"%s\",", index == 0 ? "" : ",",
               index, place, type);
}

/* A result of kv_apply_v1 is the text of an object that is not empty. */
static void write_kv(const struct transaction *t, struct json_value results, struct buf *body)
{
    struct json_value element;
    struct json_iter it = json_iterate(results);
    for (size_t i = 0; i < t->kv.count; i++) {
        struct slice text;
        struct err err;
        if (!json_next(&it, &element) || !json_string(element, request_arena(t->r), &text, &err) ||
            text.n < 2)
            die("log_transaction_wire_v1 has no result of kv operation %zu", i);
        write_rider_head(body, t->entry_count + i, i, "kv");
        buf_put(body, text.p + 1, text.n - 1);
    }
}

static void write_timers(const struct transaction *t, struct json_value results, struct buf *body)
{
    struct json_value element, status, deliver, txn;
    const struct json_field fields[] = {
        {"status", &status}, {"deliverUs", &deliver}, {"txn", &txn}};
    struct arena *arena = request_arena(t->r);
    struct json_iter it = json_iterate(results);
    for (size_t i = 0; i < t->timers.count; i++) {
        struct slice word, hex, id = {0};
        struct err err;
        int64_t deliver_us = 0;
        if (!json_next(&it, &element) || !json_pick(element, fields, 3, &err) ||
            !json_string(status, arena, &word, &err) ||
            (json_present(deliver) && !json_int64(deliver, &deliver_us)))
            die("log_transaction_wire_v1 has no result of timer operation %zu", i);
        if (json_present(txn) && json_string(txn, arena, &hex, &err)) {
            char *bytes = arena_alloc(arena, hex.n / 2 + 1);
            if (hex_decode(hex, (uint8_t *)bytes))
                id = (struct slice){bytes, hex.n / 2};
        }
        write_rider_head(body, t->entry_count + t->kv.count + i, i, "timer");
        timer_op_write(&t->timers.list[i], word, deliver_us, id, body);
        buf_putc(body, '}');
    }
}

void transaction_committed(struct transaction *t, struct slice outcome)
{
    struct committed c;
    struct json_value whole;
    const struct json_field fields[] = {
        {"kv", &c.kv}, {"timers", &c.timers}, {"pushes", &c.pushes}, {"acks", &c.acks}};
    struct buf body = {0};
    struct err err;
    if (!json_validate(outcome, &whole, &err) || !json_pick(whole, fields, 4, &err))
        die("log_transaction_wire_v1 answered something else than its JSON: %s", err.text);
    note_pushes(t, c.pushes);
    note_acks(t, c.acks);
    WORKER_COUNT(t->w, kv_operations, t->kv.count);
    WORKER_COUNT(t->w, timer_operations, t->timers.count);
    timer_ops_tell_keeper(t->w, &t->timers);

    buf_reserve(&body, t->entry_count * 192 + 128);
    BUF_PUT_LITERAL(&body, "{\"transactionId\":");
    json_write_uuid(&body, &t->id);
    BUF_PUT_LITERAL(&body, ",\"success\":true,\"results\":[");
    for (size_t i = 0; i < t->entry_count; i++) {
        if (i > 0)
            buf_putc(&body, ',');
        write_entry(&body, i, &t->entries[i]);
    }
    write_kv(t, c.kv, &body);
    write_timers(t, c.timers, &body);
    BUF_PUT_LITERAL(&body, "]}");
    request_answer(t->r, 200, NULL, (struct slice){0}, &body);
}
