/* Taking ack records out of bytes: back to back, cut anywhere, damaged.
 * objects: flusher/record */
#include "flusher/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 64 };

static size_t put(char *at, uint64_t ticket, const char *group)
{
    size_t n = strlen(group);
    struct ack_record r = {.length = (uint32_t)(sizeof r + n),
                           .worker_slot = 3,
                           .worker_generation = 9,
                           .message_count = 5,
                           .ticket = ticket,
                           .batch_end = 77,
                           .group_length = (uint16_t)n};
    memcpy(at, &r, sizeof r);
    memcpy(at + sizeof r, group, n);
    return r.length;
}

static void test_back_to_back(void **state)
{
    (void)state;
    char bytes[1024];
    size_t n = put(bytes, 1, "billing");
    n += put(bytes + n, 2, "");
    n += put(bytes + n, 3, "audit");
    static const char *const groups[] = {"billing", "", "audit"};
    struct slice rest = {bytes, n};
    for (uint64_t i = 0; i < 3; i++) {
        struct ack_record r;
        struct slice group;
        assert_int_equal(record_next(&rest, SLOTS, &r, &group), RECORD_OK);
        assert_int_equal(r.ticket, i + 1);
        assert_int_equal(r.batch_end, 77);
        assert_true(slice_is(group, groups[i]));
    }
    struct ack_record r;
    struct slice group;
    assert_int_equal(record_next(&rest, SLOTS, &r, &group), RECORD_SHORT);
    assert_int_equal(rest.n, 0);
}

/* Every prefix of a record is short, and nothing of it is taken. Copied to a block of exactly its
 * size, so that the address sanitizer sees a read behind it. */
static void test_cut_anywhere(void **state)
{
    (void)state;
    char bytes[1024];
    size_t n = put(bytes, 1, "billing");
    for (size_t cut = 0; cut < n; cut++) {
        char *exact = malloc(cut + 1);
        assert_non_null(exact);
        memcpy(exact + 1, bytes, cut);
        struct slice rest = {exact + 1, cut};
        struct ack_record r;
        struct slice group;
        assert_int_equal(record_next(&rest, SLOTS, &r, &group), RECORD_SHORT);
        assert_int_equal(rest.n, cut);
        free(exact);
    }
}

/* One field damaged: that record is skipped, its neighbour is taken. */
static void damaged(void (*damage)(struct ack_record *r))
{
    char bytes[1024];
    size_t first = put(bytes, 1, "billing"), n = first + put(bytes + first, 2, "audit");
    struct ack_record r;
    struct slice group, rest = {bytes, n};
    memcpy(&r, bytes, sizeof r);
    damage(&r);
    memcpy(bytes, &r, sizeof r);
    assert_int_equal(record_next(&rest, SLOTS, &r, &group), RECORD_INVALID);
    assert_int_equal(record_next(&rest, SLOTS, &r, &group), RECORD_OK);
    assert_int_equal(r.ticket, 2);
}

static void damage_slot(struct ack_record *r)
{
    r->worker_slot = SLOTS;
}
static void damage_generation(struct ack_record *r)
{
    r->worker_generation = 0;
}
static void damage_end(struct ack_record *r)
{
    r->batch_end = -1;
}
static void damage_count(struct ack_record *r)
{
    r->message_count = UINT32_C(0x80000000);
}
static void damage_group(struct ack_record *r)
{
    r->group_length++;
}
static void damage_reserved(struct ack_record *r)
{
    r->reserved[5] = 1;
}

static void test_damaged_fields(void **state)
{
    (void)state;
    damaged(damage_slot);
    damaged(damage_generation);
    damaged(damage_end);
    damaged(damage_count);
    damaged(damage_group);
    damaged(damage_reserved);
}

static void test_impossible_lengths(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {0, 1, sizeof(struct ack_record) - 1, ACK_RECORD_MAX + 1,
                                       UINT32_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char bytes[1024] = {0};
        memcpy(bytes, &lengths[i], sizeof lengths[i]);
        struct ack_record r;
        struct slice group, rest = {bytes, sizeof bytes};
        assert_int_equal(record_next(&rest, SLOTS, &r, &group), RECORD_LOST);
        assert_int_equal(rest.n, sizeof bytes);
    }
}

static void test_noise(void **state)
{
    (void)state;
    srand(3);
    for (int round = 0; round < 20000; round++) {
        size_t n = (size_t)rand() % 700;
        char *bytes = malloc(n + 1);
        assert_non_null(bytes);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)(rand() % 4 == 0 ? rand() : 0);
        uint32_t length = (uint32_t)rand() % 700;
        if (n >= sizeof length)
            memcpy(bytes, &length, sizeof length);
        struct slice rest = {bytes, n};
        struct ack_record r;
        struct slice group;
        enum record_result result;
        do {
            size_t before = rest.n;
            result = record_next(&rest, SLOTS, &r, &group);
            if (result == RECORD_OK)
                assert_true(group.p >= bytes && group.p + group.n <= bytes + n);
            assert_true(rest.n <= before);
        } while (result == RECORD_OK || result == RECORD_INVALID);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_back_to_back),   cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_damaged_fields), cmocka_unit_test(test_impossible_lengths),
        cmocka_unit_test(test_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
