/* Folding of acks and realignment of verdicts.
 * objects: flusher/fold */
#include "flusher/fold.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct slice GROUP = {"billing", 7};

static struct ack_record record(uint64_t partition, uint64_t lease, int64_t end, uint64_t ticket)
{
    struct ack_record r = {.worker_slot = (uint32_t)ticket % 7,
                           .worker_generation = 40 + (uint32_t)ticket % 7,
                           .message_count = 10,
                           .ticket = ticket,
                           .batch_end = end};
    memcpy(r.partition_id.bytes, &partition, sizeof partition);
    memcpy(r.lease_id.bytes, &lease, sizeof lease);
    return r;
}

static void add(struct fold_batch *b, struct ack_record r, struct slice group)
{
    assert_true(fold_add(b, &r, group));
}

/* What was answered, in order. */
struct answers {
    size_t count;
    uint64_t tickets[4096];
    enum ack_verdict verdicts[4096];
};

static void note(const struct fold_waiter *w, enum ack_verdict verdict, void *owner)
{
    struct answers *a = owner;
    assert_int_equal(w->worker_slot, w->ticket % 7);
    assert_int_equal(w->worker_generation, 40 + w->ticket % 7);
    a->tickets[a->count] = w->ticket;
    a->verdicts[a->count++] = verdict;
}

static void test_folds_to_the_greatest_end(void **state)
{
    (void)state;
    struct fold_batch *b = fold_batch_new();
    add(b, record(1, 5, 100, 1), GROUP);
    add(b, record(1, 5, 300, 2), GROUP);
    add(b, record(1, 5, 200, 3), GROUP);
    assert_int_equal(b->count, 1);
    assert_int_equal(b->waiting, 3);
    assert_int_equal(b->rows[0]->batch_end, 300);
    assert_int_equal(b->rows[0]->message_count, 30);
    fold_batch_free(b);
}

static void test_repeat_counts_messages_once(void **state)
{
    (void)state;
    struct fold_batch *b = fold_batch_new();
    struct ack_record big = record(2, 5, 100, 9);
    big.message_count = INT32_MAX;
    add(b, record(1, 5, 100, 1), GROUP);
    add(b, record(1, 5, 100, 2), GROUP);
    assert_int_equal(b->rows[0]->message_count, 10);
    add(b, big, GROUP);
    add(b, record(2, 5, 101, 10), GROUP);
    assert_int_equal(b->rows[1]->message_count, INT32_MAX); /* no overflow */
    fold_batch_free(b);
}

static void test_what_does_not_fold(void **state)
{
    (void)state;
    struct fold_batch *b = fold_batch_new();
    add(b, record(1, 5, 100, 1), GROUP);
    add(b, record(1, 6, 200, 2), GROUP);                     /* another lease */
    add(b, record(2, 5, 300, 3), GROUP);                     /* another partition, same lease */
    add(b, record(1, 5, 400, 4), SLICE_LITERAL("billing2")); /* another group */
    add(b, record(1, 5, 500, 5), (struct slice){NULL, 0});
    assert_int_equal(b->count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(b->rows[i]->batch_end, 100 * (int64_t)(i + 1));
    assert_true(slice_is(b->rows[3]->group, "billing2"));
    fold_batch_free(b);
}

static void test_group_name_is_copied(void **state)
{
    (void)state;
    char name[] = "billing";
    struct fold_batch *b = fold_batch_new();
    add(b, record(1, 5, 100, 1), slice_of(name));
    memset(name, 'x', 7);
    add(b, record(1, 5, 101, 2), GROUP);
    assert_int_equal(b->count, 1);
    assert_true(slice_is(b->rows[0]->group, "billing"));
    fold_batch_free(b);
}

static void test_verdict_reaches_all_of_its_row(void **state)
{
    (void)state;
    struct answers a = {0};
    struct fold_batch *b = fold_batch_new();
    add(b, record(1, 5, 100, 11), GROUP);
    add(b, record(2, 5, 100, 12), GROUP);
    add(b, record(1, 5, 200, 13), GROUP);
    add(b, record(1, 6, 100, 14), GROUP);
    add(b, record(2, 5, 100, 15), GROUP);
    /* Verdicts come in any order; each finds its own row. */
    assert_int_equal(fold_answer_row(b, 2, ACK_REJECTED, note, &a), 1);
    assert_int_equal(fold_answer_row(b, 0, ACK_COMMITTED, note, &a), 2);
    assert_int_equal(fold_unanswered(b, 0), 1);
    assert_int_equal(fold_answer_row(b, 1, ACK_COMMITTED, note, &a), 2);
    static const uint64_t tickets[] = {14, 11, 13, 12, 15};
    assert_int_equal(a.count, 5);
    assert_memory_equal(a.tickets, tickets, sizeof tickets);
    assert_int_equal(a.verdicts[0], ACK_REJECTED);
    for (size_t i = 1; i < 5; i++)
        assert_int_equal(a.verdicts[i], ACK_COMMITTED);
    assert_int_equal(b->waiting, 0);
    assert_int_equal(fold_unanswered(b, 0), b->count);
    fold_batch_free(b);
}

static void test_nobody_is_answered_twice(void **state)
{
    (void)state;
    struct answers a = {0};
    struct fold_batch *b = fold_batch_new();
    for (uint64_t i = 0; i < 5; i++)
        add(b, record(i, 5, 100, i), GROUP);
    assert_int_equal(fold_answer_row(b, 3, ACK_COMMITTED, note, &a), 1);
    assert_int_equal(fold_answer_row(b, 3, ACK_REJECTED, note, &a), 0);
    assert_int_equal(fold_answer_row(b, 5, ACK_REJECTED, note, &a), 0);
    assert_int_equal(fold_answer_row(b, SIZE_MAX, ACK_REJECTED, note, &a), 0);
    assert_int_equal(fold_answer_rest(b, ACK_UNKNOWN, note, &a), 4);
    assert_int_equal(fold_answer_rest(b, ACK_UNKNOWN, note, &a), 0);
    static const uint64_t tickets[] = {3, 0, 1, 2, 4};
    assert_int_equal(a.count, 5);
    assert_memory_equal(a.tickets, tickets, sizeof tickets);
    fold_batch_free(b);
}

static void test_full_batch_still_folds(void **state)
{
    (void)state;
    struct fold_batch *b = fold_batch_new();
    for (uint64_t i = 0; i < FOLD_ROWS_MAX; i++)
        add(b, record(i, 5, 100, i), GROUP);
    struct ack_record one_more = record(FOLD_ROWS_MAX, 5, 100, 1);
    assert_false(fold_add(b, &one_more, GROUP));
    assert_int_equal(b->count, FOLD_ROWS_MAX);
    assert_int_equal(b->waiting, FOLD_ROWS_MAX);
    add(b, record(77, 5, 900, 2), GROUP);
    assert_int_equal(b->rows[77]->batch_end, 900);
    fold_batch_free(b);
}

/* Random acks against the plain rule, row by row. */
static void test_against_the_plain_rule(void **state)
{
    (void)state;
    enum { ROUNDS = 50, ACKS = 2000 };
    static const struct slice groups[] = {{"a", 1}, {"ab", 2}, {"b", 1}};
    static struct ack_record acks[ACKS];
    static size_t group_of[ACKS];
    srand(7);
    for (int round = 0; round < ROUNDS; round++) {
        static struct answers a;
        static bool seen[ACKS];
        memset(&a, 0, sizeof a);
        memset(seen, 0, sizeof seen);
        struct fold_batch *b = fold_batch_new();
        for (size_t i = 0; i < ACKS; i++) {
            acks[i] = record((uint64_t)rand() % 40, (uint64_t)rand() % 3, rand() % 1000, i);
            group_of[i] = (size_t)rand() % 3;
            add(b, acks[i], groups[group_of[i]]);
        }
        for (size_t row = 0; row < b->count; row++) {
            size_t before = a.count;
            assert_true(fold_answer_row(b, row, ACK_COMMITTED, note, &a) > 0);
            int64_t greatest = -1;
            for (size_t k = before; k < a.count; k++) {
                const struct ack_record *r = &acks[a.tickets[k]];
                assert_false(seen[a.tickets[k]]);
                seen[a.tickets[k]] = true;
                assert_true(uuid_equal(&r->partition_id, &b->rows[row]->partition_id));
                assert_true(uuid_equal(&r->lease_id, &b->rows[row]->lease_id));
                assert_true(slice_equal(groups[group_of[a.tickets[k]]], b->rows[row]->group));
                if (r->batch_end > greatest)
                    greatest = r->batch_end;
            }
            assert_int_equal(greatest, b->rows[row]->batch_end);
        }
        assert_int_equal(a.count, ACKS);
        assert_true(b->count <= 40 * 3 * 3);
        fold_batch_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folds_to_the_greatest_end),
        cmocka_unit_test(test_repeat_counts_messages_once),
        cmocka_unit_test(test_what_does_not_fold),
        cmocka_unit_test(test_group_name_is_copied),
        cmocka_unit_test(test_verdict_reaches_all_of_its_row),
        cmocka_unit_test(test_nobody_is_answered_twice),
        cmocka_unit_test(test_full_batch_still_folds),
        cmocka_unit_test(test_against_the_plain_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
