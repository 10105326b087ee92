/* Messages of a stream cycle: from push_items to segments, and their results. */
#include "worker/stream_sinks.h"

#include "pg/result.h"
#include "wire/json_write.h"
#include "worker/streams.h"
#include "worker/wake.h"

enum { SINK_QUEUED = 1, SINK_DUPLICATE = 2 }; /* status, as log_push_multi_v1 has it */

static bool sink_same_partition(const struct sink_item *a, const struct sink_item *b)
{
    return slice_equal(a->partition, b->partition) && slice_equal(a->queue, b->queue);
}

static bool sink_item_equal(const struct table_node *node, const void *key)
{
    const struct sink_item *a = TABLE_OWNER(node, const struct sink_item, node), *b = key;
    return memcmp(&a->hash, &b->hash, sizeof a->hash) == 0 && sink_same_partition(a, b);
}

static bool sink_segment_equal(const struct table_node *node, const void *key)
{
    const struct sink_segment *s = TABLE_OWNER(node, const struct sink_segment, node);
    return sink_same_partition(s->items[0], key);
}

/* A message id that is no UUID is not the client's to choose: it gets one of ours. */
static bool sink_ids(struct sink_item *item, struct json_value message_id,
                     struct json_value transaction_id, struct arena *arena, struct err *err)
{
    struct slice text;
    struct err ignored;
    if (message_id.type != JSON_STRING || !json_string(message_id, arena, &text, &ignored) ||
        !uuid_parse(text, &item->message_id))
        item->message_id = uuid_v7();
    if (json_present(transaction_id)) {
        if (!streams_text(transaction_id, "transactionId", arena, &item->transaction_id, err))
            return false;
        if (item->transaction_id.n > TRANSACTION_ID_MAX_BYTES)
            return err_set(err, "transactionId has %zu bytes, the limit is %d",
                           item->transaction_id.n, TRANSACTION_ID_MAX_BYTES);
    } else {
        char *id = arena_alloc(arena, UUID_TEXT_SIZE);
        uuid_format(&item->message_id, id);
        item->transaction_id = (struct slice){id, UUID_TEXT_SIZE};
    }
    item->hash = txn_hash_of(item->transaction_id);
    return true;
}

static int sink_item_parse(struct json_value element, struct arena *arena, struct sink_item *item,
                           struct err *err)
{
    struct json_value queue, partition, payload, data, message_id, transaction_id;
    const struct json_field fields[] = {
        {"queue", &queue}, {"partition", &partition},  {"payload", &payload},
        {"data", &data},   {"messageId", &message_id}, {"transactionId", &transaction_id}};
    if (element.type != JSON_OBJECT) {
        (void)err_set(err, "must be an object, found %s", json_type_name(element.type));
        return 400;
    }
    if (!json_pick(element, fields, sizeof fields / sizeof *fields, err))
        return 400;
    if (!json_present(queue)) {
        (void)err_set(err, "queue is required");
        return 400;
    }
    item->partition = SLICE_LITERAL("Default");
    if (!streams_text(queue, "queue", arena, &item->queue, err) ||
        !streams_text(partition, "partition", arena, &item->partition, err))
        return 400;
    int status = name_check("queue", item->queue, err);
    if (status == 0)
        status = name_check("partition", item->partition, err);
    if (status != 0)
        return status;
    if (!json_present(payload) && data.type != JSON_ABSENT)
        payload = data;
    item->payload = payload.type == JSON_ABSENT ? SLICE_LITERAL("{}") : payload.raw;
    return sink_ids(item, message_id, transaction_id, arena, err) ? 0 : 400;
}

static uint64_t sink_item_hash(const struct sink_item *item)
{
    uint64_t h;
    memcpy(&h, item->hash.bytes, sizeof h);
    return h;
}

int stream_sinks_parse(struct json_value array, struct arena *arena, struct stream_sinks *out,
                       struct err *err)
{
    struct table seen = {.equal = sink_item_equal};
    struct json_value element;
    int status = 0;
    *out = (struct stream_sinks){.count = streams_count(array)};
    if (json_present(array) && array.type != JSON_ARRAY) {
        (void)err_set(err, "push_items must be an array, found %s", json_type_name(array.type));
        return 400;
    }
    if (out->count > STREAMS_MAX_ELEMENTS) {
        (void)err_set(err, "push_items has %zu elements, the limit is %d", out->count,
                      STREAMS_MAX_ELEMENTS);
        return 413;
    }
    out->items = arena_zarray(arena, out->count, sizeof *out->items);
    struct json_iter it = json_iterate(array);
    for (size_t i = 0; status == 0 && json_next(&it, &element); i++) {
        struct sink_item *item = &out->items[i];
        status = sink_item_parse(element, arena, item, err);
        if (status != 0) {
            (void)err_prefix(err, "push_items[%zu]", i);
            break;
        }
        struct table_node *first = table_find(&seen, sink_item_hash(item), item);
        if (first != NULL)
            item->leader = TABLE_OWNER(first, struct sink_item, node);
        else
            table_insert(&seen, &item->node, sink_item_hash(item));
    }
    table_free(&seen);
    return status;
}

void stream_sinks_group(struct stream_sinks *sinks, struct arena *arena)
{
    struct table table = {.equal = sink_segment_equal};
    struct sink_segment **of = arena_zarray(arena, sinks->count, sizeof *of);
    sinks->segments = arena_zarray(arena, sinks->count, sizeof(struct sink_segment *));
    sinks->segment_count = 0;
    for (size_t i = 0; i < sinks->count; i++) {
        struct sink_item *item = &sinks->items[i];
        if (item->leader != NULL || item->duplicate)
            continue;
        uint64_t hash = table_hash(item->queue, item->partition);
        struct table_node *node = table_find(&table, hash, item);
        if (node == NULL) {
            struct sink_segment *s = arena_zarray(arena, 1, sizeof *s);
            s->items = arena_zarray(arena, 1, sizeof(struct sink_item *));
            s->items[0] = item;
            sinks->segments[sinks->segment_count++] = s;
            table_insert(&table, &s->node, hash);
            node = &s->node;
        }
        of[i] = TABLE_OWNER(node, struct sink_segment, node);
        of[i]->count++;
    }
    table_free(&table);
    for (size_t i = 0; i < sinks->segment_count; i++) {
        struct sink_segment *s = sinks->segments[i];
        s->items = arena_zarray(arena, s->count, sizeof(struct sink_item *));
        s->count = 0;
    }
    for (size_t i = 0; i < sinks->count; i++)
        if (of[i] != NULL)
            of[i]->items[of[i]->count++] = &sinks->items[i];
}

static void sinks_bind_blobs(struct worker *w, const struct stream_sinks *sinks,
                             struct pg_params *params)
{
    struct buf frames = {0}, blob = {0};
    pg_array_begin(params, PG_BYTEA);
    for (size_t i = 0; i < sinks->segment_count; i++) {
        const struct sink_segment *s = sinks->segments[i];
        buf_clear(&frames);
        buf_clear(&blob);
        for (size_t k = 0; k < s->count; k++) {
            struct frame frame = {.message_id = s->items[k]->message_id,
                                  .transaction_id = s->items[k]->transaction_id,
                                  .payload = s->items[k]->payload};
            frame_append(&frames, &frame);
        }
        segment_pack(w->packer, buf_slice(&frames), &blob);
        pg_array_bytes(params, buf_slice(&blob));
    }
    pg_array_end(params);
    buf_free(&frames);
    buf_free(&blob);
}

/* The hashes of a segment, one after the other. */
static struct slice sink_segment_hashes(const struct sink_segment *s, struct buf *hashes)
{
    buf_clear(hashes);
    for (size_t k = 0; k < s->count; k++)
        buf_put(hashes, s->items[k]->hash.bytes, TXN_HASH_SIZE);
    return buf_slice(hashes);
}

/* The hashes, and what this host can vouch for them. */
static void sinks_bind_hashes(struct worker *w, struct stream_sinks *sinks,
                              struct pg_params *params)
{
    struct buf hashes = {0};
    pg_array_begin(params, PG_BYTEA);
    for (size_t i = 0; i < sinks->segment_count; i++) {
        struct sink_segment *s = sinks->segments[i];
        struct slice bytes = sink_segment_hashes(s, &hashes);
        pg_array_bytes(params, bytes);
        s->vouch = (struct dedup_vouch){.from = 0, .upto = -1};
        if (w->settings.dedup_cache)
            s->vouch = dedup_ask(w->shm, s->items[0]->queue, s->items[0]->partition,
                                 (const struct txn_hash *)(const void *)bytes.p, s->count);
    }
    pg_array_end(params);
    buf_free(&hashes);
}

/* One array with a value per segment. */
#define SINK_ARRAY(type, put)                                                                      \
    do {                                                                                           \
        pg_array_begin(params, (type));                                                            \
        for (size_t i = 0; i < sinks->segment_count; i++) {                                        \
            const struct sink_segment *s = sinks->segments[i];                                     \
            put;                                                                                   \
        }                                                                                          \
        pg_array_end(params);                                                                      \
    } while (0)

void stream_sinks_bind(struct worker *w, struct stream_sinks *sinks, struct pg_params *params)
{
    SINK_ARRAY(PG_TEXT, pg_array_bytes(params, s->items[0]->queue));
    SINK_ARRAY(PG_TEXT, pg_array_bytes(params, s->items[0]->partition));
    SINK_ARRAY(PG_INT4, pg_array_int4(params, (int32_t)s->count));
    sinks_bind_hashes(w, sinks, params);
    SINK_ARRAY(PG_INT8, pg_array_int8(params, s->vouch.upto));
    sinks_bind_blobs(w, sinks, params);
    SINK_ARRAY(PG_INT8, pg_array_int8(params, s->vouch.from));
    SINK_ARRAY(PG_UUID, pg_array_uuid(params, &s->vouch.partition_id));
}

/* The segment of a row; NULL: a row of another kind, or of another status. */
static struct sink_segment *sinks_row(const struct stream_sinks *sinks, const PGresult *r, int row,
                                      int status)
{
    if (pg_is_null(r, row, SINK_ORDINAL) || pg_get_int4(r, row, SINK_STATUS) != status)
        return NULL;
    size_t i = (size_t)pg_get_int4(r, row, SINK_ORDINAL) - 1;
    if (i >= sinks->segment_count)
        die("streams_cycle_v1 answered segment %zu of %zu", i + 1, sinks->segment_count);
    return sinks->segments[i];
}

bool stream_sinks_duplicates(struct stream_sinks *sinks, const PGresult *r)
{
    bool any = false;
    for (int row = 0; row < PQntuples(r); row++) {
        struct sink_segment *s = sinks_row(sinks, r, row, SINK_DUPLICATE);
        if (s == NULL)
            continue;
        size_t n = pg_array_length(r, row, SINK_DUP_INDEX);
        for (size_t k = 0; k < n; k++) {
            size_t index = (size_t)pg_array_int(r, row, SINK_DUP_INDEX, k);
            if (index >= s->count)
                die("streams_cycle_v1 names message %zu of %zu", index, s->count);
            s->items[index]->duplicate = true;
            s->items[index]->offset = pg_array_int(r, row, SINK_DUP_OFFSET, k);
            any = true;
        }
    }
    return any;
}

void stream_sinks_committed(struct worker *w, struct stream_sinks *sinks, const PGresult *r)
{
    struct buf hashes = {0};
    const struct slice none = {0};
    for (int row = 0; row < PQntuples(r); row++) {
        struct sink_segment *s = sinks_row(sinks, r, row, SINK_QUEUED);
        if (s == NULL)
            continue;
        int64_t base = pg_get_int8(r, row, SINK_BASE_OFFSET);
        struct uuid id = pg_get_uuid(r, row, SINK_PARTITION_ID);
        const struct sink_item *first = s->items[0];
        for (size_t k = 0; k < s->count; k++)
            s->items[k]->offset = base + (int64_t)k;
        if (w->settings.dedup_cache) {
            struct slice bytes = sink_segment_hashes(s, &hashes);
            dedup_note(w->shm, first->queue, first->partition, &id, base,
                       (const struct txn_hash *)(const void *)bytes.p, s->count);
        }
        wake_send(w, table_hash(first->queue, none), table_hash(first->partition, none), 0);
    }
    buf_free(&hashes);
}

void stream_sinks_write(const struct stream_sinks *sinks, struct buf *out)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < sinks->count; i++) {
        const struct sink_item *item = &sinks->items[i];
        const struct sink_item *stored = item->leader != NULL ? item->leader : item;
        if (i > 0)
            buf_putc(out, ',');
        BUF_PUT_LITERAL(out, "{\"queue\":");
        json_write_string(out, item->queue);
        BUF_PUT_LITERAL(out, ",\"partition\":");
        json_write_string(out, item->partition);
        BUF_PUT_LITERAL(out, ",\"status\":");
        if (item->leader != NULL || item->duplicate)
            BUF_PUT_LITERAL(out, "\"duplicate\"");
        else
            BUF_PUT_LITERAL(out, "\"queued\"");
        BUF_PUT_LITERAL(out, ",\"baseOffset\":");
        buf_put_int(out, stored->offset);
        BUF_PUT_LITERAL(out, ",\"transactionId\":");
        json_write_string(out, item->transaction_id);
        buf_putc(out, '}');
    }
    buf_putc(out, ']');
}
