/* One batch of spooled records, grouped into one segment per partition. */
#include "keeper/spool_batch.h"

#include <stdlib.h>

struct batch_id {
    struct table_node node;
    const struct batch_segment *segment;
    struct txn_hash hash;
};

static bool segment_equal(const struct table_node *node, const void *key)
{
    const struct batch_segment *s = TABLE_OWNER(node, const struct batch_segment, node);
    const struct spool_record *r = key;
    return slice_equal(s->queue, r->queue) && slice_equal(s->partition, r->partition);
}

static bool id_equal(const struct table_node *node, const void *key)
{
    const struct batch_id *a = TABLE_OWNER(node, const struct batch_id, node), *b = key;
    return a->segment == b->segment && memcmp(&a->hash, &b->hash, sizeof a->hash) == 0;
}

void spool_batch_clear(struct spool_batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        buf_free(&b->segments[i]->frames);
        free(b->segments[i]->items);
    }
    free(b->segments);
    table_free(&b->table);
    table_free(&b->ids);
    arena_free(&b->arena);
    *b = (struct spool_batch){0};
}

static struct batch_segment *segment_of(struct spool_batch *b, const struct spool_record *r)
{
    uint64_t hash = table_hash(r->queue, r->partition);
    b->table.equal = segment_equal;
    struct table_node *node = table_find(&b->table, hash, r);
    if (node != NULL)
        return TABLE_OWNER(node, struct batch_segment, node);
    struct batch_segment *s = arena_zarray(&b->arena, 1, sizeof *s);
    s->queue = arena_copy(&b->arena, r->queue);
    s->partition = arena_copy(&b->arena, r->partition);
    table_insert(&b->table, &s->node, hash);
    if (b->count == b->cap) {
        b->cap = b->cap == 0 ? 16 : 2 * b->cap;
        b->segments = mem_realloc(b->segments, b->cap * sizeof(struct batch_segment *));
    }
    b->segments[b->count++] = s;
    return s;
}

bool spool_batch_add(struct spool_batch *b, const struct spool_record *r)
{
    struct batch_segment *s = segment_of(b, r);
    struct batch_id key = {.segment = s, .hash = txn_hash_of(r->transaction_id)};
    uint64_t hash;
    memcpy(&hash, key.hash.bytes, sizeof hash);
    b->ids.equal = id_equal;
    if (table_find(&b->ids, hash, &key) != NULL)
        return false;
    struct batch_id *id = arena_alloc(&b->arena, sizeof *id);
    *id = key;
    table_insert(&b->ids, &id->node, hash);
    struct frame frame = {
        .message_id = r->message_id, .transaction_id = r->transaction_id, .payload = r->payload};
    if (s->count == s->cap) {
        s->cap = s->cap == 0 ? 16 : 2 * s->cap;
        s->items = mem_realloc(s->items, s->cap * sizeof *s->items);
    }
    size_t at = s->frames.n;
    frame_append(&s->frames, &frame);
    s->items[s->count++] = (struct batch_item){
        .at = at, .n = s->frames.n - at, .hash = key.hash, .time_us = r->time_us};
    b->records++;
    b->bytes += s->frames.n - at;
    return true;
}

size_t spool_segment_left(const struct batch_segment *s)
{
    size_t left = 0;
    for (size_t i = 0; i < s->count; i++)
        left += !s->items[i].stored;
    return left;
}

static void build_hashes(const struct batch_segment *s, struct pg_params *params)
{
    struct buf hashes = {0};
    for (size_t i = 0; i < s->count; i++)
        if (!s->items[i].stored)
            buf_put(&hashes, s->items[i].hash.bytes, TXN_HASH_SIZE);
    pg_array_bytes(params, buf_slice(&hashes));
    buf_free(&hashes);
}

static void build_blob(const struct batch_segment *s, struct segment_packer *packer,
                       struct pg_params *params)
{
    struct buf frames = {0}, blob = {0};
    for (size_t i = 0; i < s->count; i++)
        if (!s->items[i].stored)
            buf_put(&frames, s->frames.p + s->items[i].at, s->items[i].n);
    segment_pack(packer, buf_slice(&frames), &blob);
    pg_array_bytes(params, buf_slice(&blob));
    buf_free(&frames);
    buf_free(&blob);
}

void spool_batch_build(struct batch_segment *const *segments, size_t count,
                       struct segment_packer *packer, struct pg_params *params)
{
    pg_array_begin(params, PG_TEXT);
    for (size_t i = 0; i < count; i++)
        pg_array_bytes(params, segments[i]->queue);
    pg_array_end(params);
    pg_array_begin(params, PG_TEXT);
    for (size_t i = 0; i < count; i++)
        pg_array_bytes(params, segments[i]->partition);
    pg_array_end(params);
    pg_array_begin(params, PG_INT4);
    for (size_t i = 0; i < count; i++)
        pg_array_int4(params, (int32_t)spool_segment_left(segments[i]));
    pg_array_end(params);
    pg_array_begin(params, PG_BYTEA);
    for (size_t i = 0; i < count; i++)
        build_hashes(segments[i], params);
    pg_array_end(params);
    pg_array_begin(params, PG_INT8);
    for (size_t i = 0; i < count; i++)
        pg_array_int8(params, -1);
    pg_array_end(params);
    pg_array_begin(params, PG_BYTEA);
    for (size_t i = 0; i < count; i++)
        build_blob(segments[i], packer, params);
    pg_array_end(params);
}

void spool_segment_records(const struct batch_segment *s, struct buf *out)
{
    for (size_t i = 0; i < s->count; i++) {
        struct frame frame;
        size_t at = s->items[i].at;
        if (s->items[i].stored || !frame_read(buf_slice(&s->frames), &at, &frame))
            continue;
        struct spool_record record = {.time_us = s->items[i].time_us,
                                      .message_id = frame.message_id,
                                      .queue = s->queue,
                                      .partition = s->partition,
                                      .transaction_id = frame.transaction_id,
                                      .payload = frame.payload};
        spool_put(out, &record);
    }
}
