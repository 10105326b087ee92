/* The dedup memory: what it vouches for is true, whatever was noted in which order. */
#include "base/clock.h"
#include "log/txn_hash.h"
#include "shm/dedup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    struct settings settings;
    struct shm *shm;
    char dir[64];
};

static int setup(void **state)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    struct err err;
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/queen-dedup-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    assert_int_equal(setenv("QUEEN_RUN_DIR", f->dir, 1), 0);
    assert_int_equal(setenv("QUEEN_DEDUP_CACHE_MB", "1", 1), 0);
    assert_int_equal(setenv("QUEEN_ACK_REGISTRY_MB", "1", 1), 0);
    if (!settings_load(&f->settings, &err) || !shm_attach(&f->settings, &f->shm, &err))
        fail_msg("%s", err.text);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    struct err err;
    char command[128];
    shm_detach(f->shm);
    assert_true(shm_remove(&f->settings, &err));
    (void)snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

#define QUEUE SLICE_LITERAL("orders")

static struct txn_hash hash_of(unsigned n)
{
    char text[16];
    int len = snprintf(text, sizeof text, "t%u", n);
    return txn_hash_of((struct slice){text, (size_t)len});
}

static const struct uuid ID = {{1}}, OTHER = {{2}};

static struct dedup_vouch ask(struct fixture *f, const char *partition, unsigned n)
{
    struct txn_hash h = hash_of(n);
    return dedup_ask(f->shm, QUEUE, slice_of(partition), &h, 1);
}

static void note(struct fixture *f, const char *partition, int64_t base, unsigned first,
                 size_t count)
{
    struct txn_hash *hashes = mem_alloc(count * sizeof *hashes);
    for (size_t i = 0; i < count; i++)
        hashes[i] = hash_of(first + (unsigned)i);
    dedup_note(f->shm, QUEUE, slice_of(partition), &ID, base, hashes, count);
    free(hashes);
}

static void unknown_partition_is_not_vouched_for(void **state)
{
    struct dedup_vouch v = ask(*state, "fresh", 1);
    assert_true(v.from > v.upto);
}

static void noted_hashes_are_refused_and_others_vouched_for(void **state)
{
    struct fixture *f = *state;
    note(f, "p", 0, 0, 10);
    for (unsigned n = 0; n < 10; n++) {
        struct dedup_vouch v = ask(f, "p", n);
        assert_true(v.from > v.upto);
    }
    struct dedup_vouch v = ask(f, "p", 10);
    assert_int_equal(v.from, 0);
    assert_int_equal(v.upto, 9);
    assert_true(uuid_equal(&v.partition_id, &ID));
    /* The same id on another partition is another message. */
    note(f, "q", 0, 100, 1);
    v = ask(f, "q", 5);
    assert_int_equal(v.upto, 0);
}

static void one_known_hash_spoils_the_batch(void **state)
{
    struct fixture *f = *state;
    note(f, "p", 0, 0, 3);
    struct txn_hash batch[] = {hash_of(50), hash_of(51), hash_of(2)};
    struct dedup_vouch v = dedup_ask(f->shm, QUEUE, SLICE_LITERAL("p"), batch, 3);
    assert_true(v.from > v.upto);
}

static void commits_told_of_out_of_order_join(void **state)
{
    struct fixture *f = *state;
    note(f, "p", 0, 0, 2);
    note(f, "p", 6, 6, 2);
    note(f, "p", 4, 4, 2);
    assert_int_equal(ask(f, "p", 90).upto, 1);
    note(f, "p", 2, 2, 2);
    assert_int_equal(ask(f, "p", 90).upto, 7);
    assert_int_equal(ask(f, "p", 90).from, 0);
}

static void a_gap_ends_the_range_below_it(void **state)
{
    struct fixture *f = *state;
    note(f, "p", 0, 0, 2);
    /* Offset 2 was written by somebody else; too many later commits give the old range up. */
    for (unsigned i = 0; i < 5; i++)
        note(f, "p", 3 + 2 * (int64_t)i, 10 + 2 * i, 1);
    struct dedup_vouch v = ask(f, "p", 90);
    assert_true(v.from >= 3);
    assert_true(v.from <= v.upto);
}

static void another_incarnation_starts_over(void **state)
{
    struct fixture *f = *state;
    struct txn_hash h = hash_of(7);
    note(f, "p", 0, 0, 5);
    dedup_note(f->shm, QUEUE, SLICE_LITERAL("p"), &OTHER, 0, &h, 1);
    struct dedup_vouch v = ask(f, "p", 90);
    assert_true(uuid_equal(&v.partition_id, &OTHER));
    assert_int_equal(v.from, 0);
    assert_int_equal(v.upto, 0);
}

/* Far more hashes than the memory holds: whatever is vouched for must be true, so a hash that was
 * pushed at an offset inside the vouched range is never vouched for. */
static void dropped_generations_are_not_vouched_for(void **state)
{
    struct fixture *f = *state;
    enum { TOTAL = 400000, STEP = 500 };
    for (unsigned at = 0; at < TOTAL; at += STEP)
        note(f, "p", at, at, STEP);
    struct dedup_stats stats;
    dedup_stats(f->shm, &stats);
    assert_true(stats.rotations >= 2);
    size_t covered = 0;
    for (unsigned n = 0; n < TOTAL; n += 7) {
        struct dedup_vouch v = ask(f, "p", n);
        assert_false(v.from <= (int64_t)n && (int64_t)n <= v.upto);
        covered += v.from <= v.upto;
    }
    struct dedup_vouch fresh = ask(f, "p", TOTAL + 1);
    assert_int_equal(fresh.upto, TOTAL - 1);
    assert_true(fresh.from > 0); /* the oldest were dropped */
    assert_true(fresh.from < TOTAL - 1);
    assert_true(covered > 0);
}

/* More at once than there is room for: it must end, and vouch for none of it. */
static void a_note_larger_than_the_memory_ends(void **state)
{
    struct fixture *f = *state;
    note(f, "p", 0, 0, 50000);
    note(f, "p", 50000, 50000, 100000);
    note(f, "q", 0, 0, 100000);
    for (unsigned n = 0; n < 150000; n += 331) {
        struct dedup_vouch v = ask(f, "p", n);
        assert_false(v.from <= (int64_t)n && (int64_t)n <= v.upto);
    }
    note(f, "p", 150000, 150000, 10);
    assert_int_equal(ask(f, "p", 999999).upto, 150009);
}

/* After a failover that lost commits the same offsets are given again. */
static void offsets_given_again_start_over(void **state)
{
    struct fixture *f = *state;
    note(f, "p", 0, 0, 10);
    note(f, "p", 5, 50, 3);
    struct dedup_vouch v = ask(f, "p", 90);
    assert_int_equal(v.from, 5);
    assert_int_equal(v.upto, 7);
}

/* Several partitions in random order against a model that remembers everything. */
static void random_notes_never_vouch_for_what_is_there(void **state)
{
    struct fixture *f = *state;
    enum { PARTITIONS = 5, STEPS = 20000 };
    static int64_t where[PARTITIONS][STEPS]; /* offset + 1 of transaction n on the partition */
    int64_t next[PARTITIONS] = {0};
    const char *const names[PARTITIONS] = {"a", "b", "c", "d", "e"};
    unsigned seed = 12345;
    memset(where, 0, sizeof where);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned p = (unsigned)rand_r(&seed) % PARTITIONS, n = (unsigned)rand_r(&seed) % STEPS;
        struct dedup_vouch v = ask(f, names[p], n);
        int64_t at = where[p][n] - 1;
        if (at >= 0 && v.from <= at && at <= v.upto)
            fail_msg("step %u vouches for transaction %u at %lld", step, n, (long long)at);
        if (at >= 0)
            continue;
        where[p][n] = next[p] + 1;
        if (rand_r(&seed) % 50 != 0) /* else written by another host */
            note(f, names[p], next[p], n, 1);
        next[p]++;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(unknown_partition_is_not_vouched_for, setup, teardown),
        cmocka_unit_test_setup_teardown(noted_hashes_are_refused_and_others_vouched_for, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_known_hash_spoils_the_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(commits_told_of_out_of_order_join, setup, teardown),
        cmocka_unit_test_setup_teardown(a_gap_ends_the_range_below_it, setup, teardown),
        cmocka_unit_test_setup_teardown(another_incarnation_starts_over, setup, teardown),
        cmocka_unit_test_setup_teardown(dropped_generations_are_not_vouched_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_note_larger_than_the_memory_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(offsets_given_again_start_over, setup, teardown),
        cmocka_unit_test_setup_teardown(random_notes_never_vouch_for_what_is_there, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
