/* Segments to be as parameters of a statement, and what this host remembers of them once they are
 * committed. For the push flush and for transactions. */
#include "worker/push_bind.h"

static void bind_blobs(struct worker *w, const struct push_group *groups, size_t count,
                       struct pg_params *params)
{
    struct buf blob = {0};
    pg_array_begin(params, PG_BYTEA);
    for (size_t i = 0; i < count; i++) {
        const struct push_group *g = &groups[i];
        buf_clear(&w->frames);
        buf_reserve(&w->frames, g->bytes);
        for (size_t k = 0; k < g->count; k++) {
            const struct push_item *item = g->items[k];
            struct frame frame = {.message_id = item->message_id,
                                  .flags = item->traced ? FRAME_TRACE : 0,
                                  .trace_id = item->trace_id,
                                  .transaction_id = item->transaction_id,
                                  .payload = item->payload};
            frame_append(&w->frames, &frame);
        }
        buf_clear(&blob);
        segment_pack(w->packer, buf_slice(&w->frames), &blob);
        pg_array_bytes(params, buf_slice(&blob));
    }
    pg_array_end(params);
    buf_free(&blob);
}

/* The hashes of a segment, one after the other, in the scratch buffer. */
static struct slice group_hashes(const struct push_group *g, struct buf *hashes)
{
    buf_clear(hashes);
    buf_reserve(hashes, g->count * TXN_HASH_SIZE);
    for (size_t k = 0; k < g->count; k++)
        buf_put(hashes, g->items[k]->hash.bytes, TXN_HASH_SIZE);
    return buf_slice(hashes);
}

static const struct txn_hash *hashes_in(struct slice bytes)
{
    return (const struct txn_hash *)(const void *)bytes.p;
}

static void bind_hashes(struct worker *w, const struct push_group *groups, size_t count,
                        struct pg_params *params, struct dedup_vouch *vouches)
{
    struct buf hashes = {0};
    pg_array_begin(params, PG_BYTEA);
    for (size_t i = 0; i < count; i++) {
        const struct push_group *g = &groups[i];
        struct slice bytes = group_hashes(g, &hashes);
        pg_array_bytes(params, bytes);
        vouches[i] = (struct dedup_vouch){.from = 0, .upto = -1};
        if (w->settings.dedup_cache)
            vouches[i] = dedup_ask(w->shm, g->queue, g->partition, hashes_in(bytes), g->count);
    }
    pg_array_end(params);
    buf_free(&hashes);
}

void push_bind(struct worker *w, const struct push_group *groups, size_t count,
               struct pg_params *params, struct dedup_vouch *vouches)
{
    pg_array_begin(params, PG_TEXT);
    for (size_t i = 0; i < count; i++)
        pg_array_bytes(params, groups[i].queue);
    pg_array_end(params);
    pg_array_begin(params, PG_TEXT);
    for (size_t i = 0; i < count; i++)
        pg_array_bytes(params, groups[i].partition);
    pg_array_end(params);
    pg_array_begin(params, PG_INT4);
    for (size_t i = 0; i < count; i++)
        pg_array_int4(params, (int32_t)groups[i].count);
    pg_array_end(params);
    bind_hashes(w, groups, count, params, vouches);
    pg_array_begin(params, PG_INT8);
    for (size_t i = 0; i < count; i++)
        pg_array_int8(params, vouches[i].upto);
    pg_array_end(params);
    bind_blobs(w, groups, count, params);
}

void push_bind_vouches(const struct dedup_vouch *vouches, size_t count, struct pg_params *params)
{
    pg_array_begin(params, PG_INT8);
    for (size_t i = 0; i < count; i++)
        pg_array_int8(params, vouches[i].from);
    pg_array_end(params);
    pg_array_begin(params, PG_UUID);
    for (size_t i = 0; i < count; i++)
        pg_array_uuid(params, &vouches[i].partition_id);
    pg_array_end(params);
}

void push_note(struct worker *w, const struct push_group *group, const struct uuid *partition_id,
               int64_t base)
{
    struct buf hashes = {0};
    if (!w->settings.dedup_cache)
        return;
    dedup_note(w->shm, group->queue, group->partition, partition_id, base,
               hashes_in(group_hashes(group, &hashes)), group->count);
    buf_free(&hashes);
}
