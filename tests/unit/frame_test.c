/* Frames: exact layout, round trips, and refusal of everything that is no frame. Bytes are read
 * from heap copies of their exact size, so that the address sanitizer sees a read outside. */
#include "died.h"
#include "log/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 20261201;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32) % n;
}

static struct uuid uuid_of(uint8_t fill)
{
    struct uuid u;
    memset(u.bytes, fill, sizeof u.bytes);
    return u;
}

static void assert_frame_equal(const struct frame *a, const struct frame *b)
{
    assert_int_equal(a->flags, b->flags);
    assert_true(uuid_equal(&a->message_id, &b->message_id));
    if (a->flags & FRAME_TRACE)
        assert_true(uuid_equal(&a->trace_id, &b->trace_id));
    if (a->flags & FRAME_PRODUCER)
        assert_true(slice_equal(a->producer_sub, b->producer_sub));
    assert_true(slice_equal(a->transaction_id, b->transaction_id));
    assert_true(slice_equal(a->payload, b->payload));
}

static char *exact_copy(struct slice s)
{
    char *p = malloc(s.n == 0 ? 1 : s.n);
    assert_non_null(p);
    if (s.n > 0)
        memcpy(p, s.p, s.n);
    return p;
}

static void the_layout_is_the_documented_one(void **state)
{
    static const char plain[] = "\x1b\0\0\0" /* body: 27 bytes */
                                "\0"
                                "\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11"
                                "\x03\0"
                                "txn"
                                "[1,2]";
    static const char full[] = "\x2e\0\0\0" /* body: 46 bytes */
                               "\x07"
                               "\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11"
                               "\x22\x22\x22\x22\x22\x22\x22\x22\x22\x22\x22\x22\x22\x22\x22\x22"
                               "\x02\0"
                               "id"
                               "\x03\0"
                               "sub"
                               "null";
    struct frame f = {.message_id = uuid_of(0x11),
                      .trace_id = uuid_of(0x22),
                      .producer_sub = SLICE_LITERAL("sub"),
                      .transaction_id = SLICE_LITERAL("txn"),
                      .payload = SLICE_LITERAL("[1,2]")};
    struct buf out = {0};
    (void)state;
    frame_append(&out, &f); /* without flags, trace and producer are not written */
    assert_true(slice_equal(buf_slice(&out), SLICE_LITERAL(plain)));
    buf_clear(&out);
    f.flags = FRAME_TRACE | FRAME_PRODUCER | FRAME_ENCRYPTED;
    f.transaction_id = SLICE_LITERAL("id");
    f.payload = SLICE_LITERAL("null");
    frame_append(&out, &f);
    assert_true(slice_equal(buf_slice(&out), SLICE_LITERAL(full)));
    buf_free(&out);
}

static void assert_round_trip(const struct frame *f)
{
    struct buf out = {0};
    struct frame back;
    size_t at = 0;
    frame_append(&out, f);
    char *copy = exact_copy(buf_slice(&out));
    assert_true(frame_read((struct slice){copy, out.n}, &at, &back));
    assert_int_equal(at, out.n);
    assert_frame_equal(f, &back);
    assert_false(frame_read((struct slice){copy, out.n}, &at, &back));
    assert_int_equal(at, out.n);
    free(copy);
    buf_free(&out);
}

static void round_trips(void **state)
{
    static char big[1 << 20], id[FRAME_MAX_TRANSACTION_ID];
    (void)state;
    memset(big, 'x', sizeof big);
    memset(id, 'i', sizeof id);
    for (uint8_t flags = 0; flags < 8; flags++) {
        struct frame f = {.flags = flags, .message_id = uuid_of(1), .trace_id = uuid_of(2)};
        assert_round_trip(&f); /* everything empty: the smallest body */
        f.transaction_id = (struct slice){id, sizeof id};
        f.producer_sub = (struct slice){id, sizeof id};
        f.payload = (struct slice){big, sizeof big};
        assert_round_trip(&f);
        f.transaction_id = SLICE_LITERAL("a\0b");
        f.payload = SLICE_LITERAL("{\"nul\":\"\\u0000\"}");
        assert_round_trip(&f);
    }
}

static void random_frame(struct frame *f, const char *noise)
{
    *f = (struct frame){.flags = (uint8_t)random_below(8),
                        .message_id = uuid_of((uint8_t)random_below(256)),
                        .trace_id = uuid_of((uint8_t)random_below(256)),
                        .transaction_id = {noise, random_below(40)},
                        .producer_sub = {noise, random_below(20)},
                        .payload = {noise + random_below(100), random_below(200)}};
}

enum { MANY = 10000, NOISE = 300 };

static void ten_thousand_frames_in_a_row(void **state)
{
    struct frame *frames = calloc(MANY, sizeof *frames);
    struct buf out = {0};
    struct frame back;
    char noise[NOISE];
    size_t at = 0;
    (void)state;
    assert_non_null(frames);
    for (size_t i = 0; i < NOISE; i++)
        noise[i] = (char)random_below(256);
    for (size_t i = 0; i < MANY; i++) {
        random_frame(&frames[i], noise);
        frame_append(&out, &frames[i]);
    }
    for (size_t i = 0; i < MANY; i++) {
        assert_true(frame_read(buf_slice(&out), &at, &back));
        assert_frame_equal(&frames[i], &back);
    }
    assert_int_equal(at, out.n);
    assert_false(frame_read(buf_slice(&out), &at, &back));
    buf_free(&out);
    free(frames);
}

static void every_truncation_is_refused(void **state)
{
    struct frame f = {.flags = FRAME_TRACE | FRAME_PRODUCER,
                      .transaction_id = SLICE_LITERAL("transaction"),
                      .producer_sub = SLICE_LITERAL("producer"),
                      .payload = SLICE_LITERAL("{}")};
    struct buf out = {0};
    struct frame back;
    (void)state;
    frame_append(&out, &f);
    for (size_t n = 0; n < out.n; n++) {
        char *copy = exact_copy((struct slice){out.p, n});
        size_t at = 0;
        assert_false(frame_read((struct slice){copy, n}, &at, &back));
        assert_int_equal(at, 0); /* a refused frame is not passed */
        free(copy);
    }
    buf_free(&out);
}

static bool reads(struct slice bytes)
{
    char *copy = exact_copy(bytes);
    struct frame back;
    size_t at = 0;
    bool ok = frame_read((struct slice){copy, bytes.n}, &at, &back);
    free(copy);
    return ok;
}

#define ID16 "0123456789abcdef"

static void lengths_that_lie_are_refused(void **state)
{
    (void)state;
    assert_true(reads(SLICE_LITERAL("\x13\0\0\0\0" ID16 "\0\0")));
    assert_false(reads(SLICE_LITERAL("\x12\0\0\0\0" ID16 "\0\0"))); /* body below 19 */
    assert_false(reads(SLICE_LITERAL("\0\0\0\0\0" ID16 "\0\0")));   /* body of nothing */
    assert_false(reads(SLICE_LITERAL("\x14\0\0\0\0" ID16 "\0\0"))); /* beyond the end */
    assert_false(reads(SLICE_LITERAL("\xff\xff\xff\xff\0" ID16 "\0\0")));
    assert_false(reads(SLICE_LITERAL("\x13\0\0\x80\0" ID16 "\0\0")));
    assert_false(reads(SLICE_LITERAL("\x13\0\x01\0\0" ID16 "\0\0")));
    assert_false(reads(SLICE_LITERAL("\x13\0\0\0\0" ID16 "\1\0z"))); /* id beyond the body */
    assert_false(reads(SLICE_LITERAL("\x14\0\0\0\0" ID16 "\2\0z")));
    assert_false(reads(SLICE_LITERAL("\x13\0\0\0\0" ID16 "\xff\xff")));
    assert_false(reads(SLICE_LITERAL("\x13\0\0\0\x01" ID16 "\0\0"))); /* no room for a trace */
    assert_false(reads(SLICE_LITERAL("\x13\0\0\0\x02" ID16 "\0\0"))); /* nor for a producer */
    assert_true(reads(SLICE_LITERAL("\x15\0\0\0\x02" ID16 "\0\0\0\0")));
    assert_false(reads(SLICE_LITERAL("\x15\0\0\0\x02" ID16 "\0\0\1\0")));
    for (unsigned bit = 3; bit < 8; bit++) {
        char unknown[] = "\x13\0\0\0\0" ID16 "\0\0";
        unknown[4] = (char)(1u << bit);
        assert_false(reads((struct slice){unknown, sizeof unknown - 1}));
    }
}

static void the_position_is_checked(void **state)
{
    struct frame back;
    size_t at = 5;
    (void)state;
    assert_false(frame_read(SLICE_LITERAL("abc"), &at, &back));
    assert_int_equal(at, 5);
    at = SIZE_MAX;
    assert_false(frame_read(SLICE_LITERAL("abc"), &at, &back));
    at = 0;
    assert_false(frame_read((struct slice){NULL, 0}, &at, &back));
}

/* Whatever the bytes are: no read outside, slices inside, always forward. */
static void random_bytes_never_lead_outside(void **state)
{
    char noise[NOISE];
    struct buf out = {0};
    (void)state;
    for (size_t i = 0; i < NOISE; i++)
        noise[i] = (char)random_below(256);
    for (int round = 0; round < 20000; round++) {
        struct frame f;
        buf_clear(&out);
        for (uint32_t k = 1 + random_below(3); k > 0; k--) {
            random_frame(&f, noise);
            frame_append(&out, &f);
        }
        for (uint32_t k = 1 + random_below(4); k > 0; k--)
            out.p[random_below((uint32_t)out.n)] = (char)random_below(256);
        size_t n = random_below(2) == 0 ? out.n : random_below((uint32_t)out.n + 1), at = 0,
               before = 0;
        char *copy = exact_copy((struct slice){out.p, n});
        while (frame_read((struct slice){copy, n}, &at, &f)) {
            assert_true(at > before && at <= n);
            assert_true(f.payload.p >= copy + before && f.payload.p + f.payload.n == copy + at);
            assert_true(f.transaction_id.p >= copy + before &&
                        f.transaction_id.p + f.transaction_id.n <= f.payload.p);
            before = at;
        }
        assert_int_equal(at, before);
        free(copy);
    }
    buf_free(&out);
}

static char long_id[FRAME_MAX_TRANSACTION_ID + 1];

static void append_long_transaction_id(void)
{
    struct buf out = {0};
    frame_append(&out, &(struct frame){.transaction_id = {long_id, sizeof long_id}});
}

static void append_long_producer(void)
{
    struct buf out = {0};
    frame_append(
        &out, &(struct frame){.flags = FRAME_PRODUCER, .producer_sub = {long_id, sizeof long_id}});
}

static void lengths_that_do_not_fit_die(void **state)
{
    (void)state;
    assert_true(died_in(append_long_transaction_id));
    assert_true(died_in(append_long_producer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_is_the_documented_one),
        cmocka_unit_test(round_trips),
        cmocka_unit_test(ten_thousand_frames_in_a_row),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(lengths_that_lie_are_refused),
        cmocka_unit_test(the_position_is_checked),
        cmocka_unit_test(random_bytes_never_lead_outside),
        cmocka_unit_test(lengths_that_do_not_fit_die),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
