/* Folding of ack records and realignment of verdicts. */
#include "flusher/fold.h"

#include <stdlib.h>

struct fold_key {
    const struct ack_record *record;
    struct slice group;
};

static bool fold_key_equal(const struct table_node *node, const void *key)
{
    const struct fold_row *row = TABLE_OWNER(node, const struct fold_row, by_key);
    const struct fold_key *k = key;
    return uuid_equal(&row->partition_id, &k->record->partition_id) &&
           uuid_equal(&row->lease_id, &k->record->lease_id) && slice_equal(row->group, k->group);
}

static uint64_t fold_key_hash(const struct fold_key *k)
{
    /* Both ids are random enough for one of them to do; the group separates what shares a lease. */
    struct slice id = {(const char *)k->record->partition_id.bytes, sizeof(struct uuid)};
    return table_hash(id, k->group);
}

struct fold_batch *fold_batch_new(void)
{
    struct fold_batch *b = mem_alloc(sizeof *b);
    b->count = b->waiting = 0;
    b->by_key = (struct table){.equal = fold_key_equal};
    b->arena = (struct arena){0};
    return b;
}

void fold_batch_free(struct fold_batch *b)
{
    table_free(&b->by_key);
    arena_free(&b->arena);
    free(b);
}

static struct fold_row *fold_row_new(struct fold_batch *b, const struct fold_key *key,
                                     uint64_t hash)
{
    struct fold_row *row = arena_alloc(&b->arena, sizeof *row);
    row->partition_id = key->record->partition_id;
    row->lease_id = key->record->lease_id;
    row->group = arena_copy(&b->arena, key->group);
    row->batch_end = key->record->batch_end;
    row->message_count = (int32_t)key->record->message_count;
    STAILQ_INIT(&row->waiters);
    table_insert(&b->by_key, &row->by_key, hash);
    b->rows[b->count++] = row;
    return row;
}

/* The same end again is a repeat of one ack and counts its messages once; another end is another
 * part of the partition. */
static void fold_row_extend(struct fold_row *row, const struct ack_record *record)
{
    int32_t count = (int32_t)record->message_count;
    if (record->batch_end == row->batch_end) {
        if (count > row->message_count)
            row->message_count = count;
        return;
    }
    if (record->batch_end > row->batch_end)
        row->batch_end = record->batch_end;
    if (__builtin_add_overflow(row->message_count, count, &row->message_count))
        row->message_count = INT32_MAX;
}

bool fold_add(struct fold_batch *b, const struct ack_record *record, struct slice group)
{
    struct fold_key key = {record, group};
    uint64_t hash = fold_key_hash(&key);
    struct table_node *node = table_find(&b->by_key, hash, &key);
    struct fold_row *row;
    if (node != NULL) {
        row = TABLE_OWNER(node, struct fold_row, by_key);
        fold_row_extend(row, record);
    } else if (b->count < FOLD_ROWS_MAX) {
        row = fold_row_new(b, &key, hash);
    } else {
        return false;
    }
    struct fold_waiter *w = arena_alloc(&b->arena, sizeof *w);
    w->ticket = record->ticket;
    w->worker_slot = record->worker_slot;
    w->worker_generation = record->worker_generation;
    STAILQ_INSERT_TAIL(&row->waiters, w, link);
    b->waiting++;
    return true;
}

size_t fold_answer_row(struct fold_batch *b, size_t index, enum ack_verdict verdict,
                       fold_answer *answer, void *owner)
{
    size_t answered = 0;
    if (index >= b->count)
        return 0;
    struct fold_waiter *w;
    while ((w = STAILQ_FIRST(&b->rows[index]->waiters)) != NULL) {
        STAILQ_REMOVE_HEAD(&b->rows[index]->waiters, link);
        answer(w, verdict, owner);
        answered++;
    }
    b->waiting -= answered;
    return answered;
}

size_t fold_answer_rest(struct fold_batch *b, enum ack_verdict verdict, fold_answer *answer,
                        void *owner)
{
    size_t answered = 0;
    for (size_t i = 0; i < b->count; i++)
        answered += fold_answer_row(b, i, verdict, answer, owner);
    return answered;
}

size_t fold_unanswered(const struct fold_batch *b, size_t from)
{
    while (from < b->count && STAILQ_EMPTY(&b->rows[from]->waiters))
        from++;
    return from;
}
