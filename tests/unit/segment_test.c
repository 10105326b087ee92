/* Segments: round trips, foreign encoders, corruption, bombs. Blobs are read from heap copies of
 * their exact size, so that the address sanitizer sees a read outside. */
#include "log/segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { MIB = 1024 * 1024 };

static struct segment_packer *packer;
static struct segment_unpacker *unpacker;
static struct buf blob, back;
static struct err err;
static uint64_t random_state = 20261201;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32) % n;
}

static int set_up(void **state)
{
    (void)state;
    packer = segment_packer_new(1);
    unpacker = segment_unpacker_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    segment_packer_free(packer);
    segment_unpacker_free(unpacker);
    segment_packer_free(NULL);
    segment_unpacker_free(NULL);
    buf_free(&blob);
    buf_free(&back);
    return 0;
}

/* Half text, half noise. */
static void put_content(struct buf *out, size_t n)
{
    while (out->n < n) {
        char piece[32];
        int length = snprintf(piece, sizeof piece, "{\"id\":%u,\"x\":\"%08x\"}", random_below(100),
                              random_below(UINT32_MAX));
        buf_put(out, piece, (size_t)length);
    }
    out->n = n;
}

static bool unpack(struct slice in)
{
    char *copy = malloc(in.n == 0 ? 1 : in.n);
    assert_non_null(copy);
    if (in.n > 0)
        memcpy(copy, in.p, in.n);
    err.text[0] = '\0';
    bool ok = segment_unpack(unpacker, (struct slice){copy, in.n}, &back, &err);
    assert_int_equal(ok, err.text[0] == '\0');
    free(copy);
    return ok;
}

static void assert_unpacks_to(struct slice in, struct slice content)
{
    if (!unpack(in))
        fail_msg("%s", err.text);
    assert_true(slice_equal(buf_slice(&back), content));
}

static void round_trips(void **state)
{
    static const size_t sizes[] = {0,     1,      2,          100,    1000, 4096,
                                   65536, 131071, 128 * 1024, 131073, MIB,  5 * MIB + 17};
    struct buf frames = {0};
    (void)state;
    for (int level = 1; level <= 19; level += 6) {
        struct segment_packer *p = segment_packer_new(level);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            buf_clear(&frames);
            put_content(&frames, level > 10 && sizes[i] > MIB ? MIB : sizes[i]);
            buf_clear(&blob);
            segment_pack(p, buf_slice(&frames), &blob);
            assert_unpacks_to(buf_slice(&blob), buf_slice(&frames));
        }
        segment_packer_free(p);
    }
    buf_free(&frames);
}

static void one_packer_serves_many_sizes(void **state)
{
    struct buf frames = {0};
    (void)state;
    for (int i = 0; i < 500; i++) {
        buf_clear(&frames);
        put_content(&frames, random_below(random_below(20) == 0 ? 300000 : 2000));
        buf_clear(&blob);
        segment_pack(packer, buf_slice(&frames), &blob);
        assert_unpacks_to(buf_slice(&blob), buf_slice(&frames));
    }
    buf_free(&frames);
}

static void packing_appends_and_compresses(void **state)
{
    static char same[100000];
    (void)state;
    buf_clear(&blob);
    buf_putc(&blob, '!');
    segment_pack(packer, (struct slice){same, sizeof same}, &blob);
    assert_int_equal(blob.p[0], '!');
    assert_true(blob.n < 200);
    assert_unpacks_to((struct slice){blob.p + 1, blob.n - 1}, (struct slice){same, sizeof same});
    /* The size is in the blob: whoever reads it reserves once. */
    assert_int_equal(ZSTD_getFrameContentSize(blob.p + 1, blob.n - 1), sizeof same);
}

static void frames_survive(void **state)
{
    enum { FRAMES = 10000 };
    struct buf frames = {0};
    struct frame f;
    size_t at = 0;
    char id[16];
    (void)state;
    for (unsigned i = 0; i < FRAMES; i++) {
        f = (struct frame){.payload = SLICE_LITERAL("{\"a\":1.0}")};
        f.transaction_id = (struct slice){id, (size_t)sprintf(id, "id-%u", i)};
        frame_append(&frames, &f);
    }
    buf_clear(&blob);
    segment_pack(packer, buf_slice(&frames), &blob);
    assert_true(unpack(buf_slice(&blob)));
    for (unsigned i = 0; i < FRAMES; i++) {
        assert_true(frame_read(buf_slice(&back), &at, &f));
        (void)sprintf(id, "id-%u", i);
        assert_true(slice_is(f.transaction_id, id) && slice_is(f.payload, "{\"a\":1.0}"));
    }
    assert_int_equal(at, back.n);
    buf_free(&frames);
}

static void one_frame_is_read(void **state)
{
    struct buf frames = {0};
    struct frame f = {.payload = SLICE_LITERAL("1")};
    (void)state;
    f.transaction_id = SLICE_LITERAL("a");
    frame_append(&frames, &f);
    f.transaction_id = SLICE_LITERAL("b");
    frame_append(&frames, &f);
    buf_clear(&blob);
    segment_pack(packer, buf_slice(&frames), &blob);
    assert_true(segment_read_frame(unpacker, buf_slice(&blob), 1, &back, &f, &err));
    assert_true(slice_is(f.transaction_id, "b"));
    assert_true(segment_read_frame(unpacker, buf_slice(&blob), 0, &back, &f, &err));
    assert_true(slice_is(f.transaction_id, "a"));
    assert_false(segment_read_frame(unpacker, buf_slice(&blob), 2, &back, &f, &err));
    assert_string_equal(err.text, "frame 2 of a segment cannot be read");
    assert_false(segment_read_frame(unpacker, buf_slice(&blob), -1, &back, &f, &err));
    assert_false(segment_read_frame(unpacker, SLICE_LITERAL("no blob"), 0, &back, &f, &err));
    buf_free(&frames);
}

/* What an encoder writes that is not told the size beforehand. */
static void put_streamed(struct buf *out, struct slice content, int level, bool checksum)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_inBuffer in = {content.p, content.n, 0};
    size_t left = 1;
    assert_non_null(c);
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level)));
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, checksum)));
    while (left != 0) {
        /* The frame must not be begun and ended in one call: that would tell the size. */
        ZSTD_EndDirective step = in.pos < in.size ? ZSTD_e_continue : ZSTD_e_end;
        buf_reserve(out, ZSTD_CStreamOutSize());
        ZSTD_outBuffer to = {out->p, out->cap, out->n};
        left = ZSTD_compressStream2(c, &to, &in, step);
        assert_false(ZSTD_isError(left));
        out->n = to.pos;
        if (step == ZSTD_e_continue)
            left = 1;
    }
    (void)ZSTD_freeCCtx(c);
}

static void blobs_without_size_are_read(void **state)
{
    static const size_t sizes[] = {1, 100, 131072, 131073, 3 * MIB + 5};
    struct buf frames = {0};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int checksum = 0; checksum < 2; checksum++) {
            buf_clear(&frames);
            buf_clear(&blob);
            put_content(&frames, sizes[i]);
            put_streamed(&blob, buf_slice(&frames), 3, checksum);
            assert_true(ZSTD_getFrameContentSize(blob.p, blob.n) == ZSTD_CONTENTSIZE_UNKNOWN);
            assert_unpacks_to(buf_slice(&blob), buf_slice(&frames));
            assert_false(unpack((struct slice){blob.p, blob.n - 1}));
            buf_putc(&blob, 'x');
            assert_false(unpack(buf_slice(&blob)));
        }
    }
    buf_free(&frames);
}

static void blobs_in_a_row_are_one_segment(void **state)
{
    static const char text[] = "first|second|third|";
    (void)state;
    for (int streamed = 0; streamed < 8; streamed++) { /* every mix of known and unknown sizes */
        static const size_t starts[] = {0, 6, 13, sizeof text - 1};
        buf_clear(&blob);
        for (int i = 0; i < 3; i++) {
            struct slice part = {text + starts[i], starts[i + 1] - starts[i]};
            if (streamed >> i & 1)
                put_streamed(&blob, part, 3, true);
            else
                segment_pack(packer, part, &blob);
        }
        assert_unpacks_to(buf_slice(&blob), SLICE_LITERAL(text));
        buf_putc(&blob, '\0');
        assert_false(unpack(buf_slice(&blob)));
    }
}

static void what_is_no_segment_is_refused(void **state)
{
    /* A skippable frame holds no data, but is no segment; the magic of zstd 0.7. */
    static const char skippable[] = "\x50\x2a\x4d\x18\x04\0\0\0abcd";
    static const char *const texts[] = {"x", "\x28\xb5\x2f", "\x28\xb5\x2f\xfd",
                                        "\x27\xb5\x2f\xfd\x20\x01",
                                        "plain text that was never compressed"};
    (void)state;
    assert_false(unpack((struct slice){NULL, 0}));
    assert_string_equal(err.text, "segment is not a zstd frame");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(unpack(slice_of(texts[i])));
    assert_false(unpack(SLICE_LITERAL(skippable)));
    buf_clear(&blob);
    segment_pack(packer, SLICE_LITERAL("data"), &blob);
    buf_put(&blob, skippable, sizeof skippable - 1);
    assert_false(unpack(buf_slice(&blob)));
}

static void every_truncation_is_refused(void **state)
{
    struct buf frames = {0};
    (void)state;
    put_content(&frames, 3000);
    for (int streamed = 0; streamed < 2; streamed++) {
        buf_clear(&blob);
        if (streamed)
            put_streamed(&blob, buf_slice(&frames), 3, false);
        else
            segment_pack(packer, buf_slice(&frames), &blob);
        for (size_t n = 0; n < blob.n; n++)
            assert_false(unpack((struct slice){blob.p, n}));
    }
    buf_free(&frames);
}

/* A changed blob is refused, or (a bit without meaning) gives the same content. */
static void corruption_is_found(void **state)
{
    struct buf frames = {0}, broken = {0};
    long refused = 0, rounds = 0;
    (void)state;
    for (int size = 0; size < 4; size++) {
        buf_clear(&frames);
        put_content(&frames, size == 0 ? 40 : (size_t)size * 1500);
        buf_clear(&blob);
        segment_pack(packer, buf_slice(&frames), &blob);
        for (size_t bit = 0; bit < 8 * blob.n; bit++, rounds++) {
            buf_clear(&broken);
            buf_put_slice(&broken, buf_slice(&blob));
            broken.p[bit / 8] = (char)(broken.p[bit / 8] ^ (1 << (bit % 8)));
            if (!unpack(buf_slice(&broken)))
                refused++;
            else
                assert_true(slice_equal(buf_slice(&back), buf_slice(&frames)));
        }
        for (int i = 0; i < 2000; i++, rounds++) {
            buf_clear(&broken);
            buf_put_slice(&broken, buf_slice(&blob));
            for (uint32_t k = 1 + random_below(5); k > 0; k--)
                broken.p[random_below((uint32_t)broken.n)] = (char)random_below(256);
            if (!unpack(buf_slice(&broken)))
                refused++;
            else
                assert_true(slice_equal(buf_slice(&back), buf_slice(&frames)));
        }
        /* The unpacker is as good as new afterwards. */
        assert_unpacks_to(buf_slice(&blob), buf_slice(&frames));
    }
    assert_true(refused > rounds * 9 / 10);
    buf_free(&frames);
    buf_free(&broken);
}

static void a_claim_is_checked_before_memory_is_reserved(void **state)
{
    /* zstd frame header: magic, descriptor (single segment, 8 byte size), size, last raw block of
     * 0. */
    static const uint64_t claims[] = {SEGMENT_MAX_BYTES, SEGMENT_MAX_BYTES + 1, UINT64_C(1) << 40,
                                      UINT64_MAX - 2};
    (void)state;
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        unsigned char bomb[] = {0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0};
        for (int k = 0; k < 8; k++)
            bomb[5 + k] = (unsigned char)(claims[i] >> (8 * k));
        buf_free(&back);
        assert_false(unpack((struct slice){(char *)bomb, sizeof bomb}));
        assert_non_null(strstr(err.text, "claim"));
        assert_int_equal(back.cap, 0);
    }
    /* A true frame of 200 MiB, twice in a row, is above the limit together. */
    size_t n = 200u * MIB;
    char *zeros = calloc(1, n);
    assert_non_null(zeros);
    buf_clear(&blob);
    segment_pack(packer, (struct slice){zeros, n}, &blob);
    segment_pack(packer, (struct slice){zeros, n}, &blob);
    free(zeros);
    assert_false(unpack(buf_slice(&blob)));
    assert_string_equal(err.text, "segment claims more than 268435456 bytes");
    assert_int_equal(back.cap, 0);
}

/* One run-length block of 128 KiB after another, without a size in front. */
static void put_zeros(struct buf *out, size_t bytes)
{
    static const unsigned char header[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x40 /* window 256 KiB */};
    const size_t block = 128 * 1024;
    buf_put(out, header, sizeof header);
    for (size_t done = 0; done < bytes; done += block) {
        size_t n = bytes - done < block ? bytes - done : block;
        size_t word = n << 3 | 1u << 1 | (done + n == bytes);
        const unsigned char rle[] = {(unsigned char)word, (unsigned char)(word >> 8),
                                     (unsigned char)(word >> 16), 0};
        buf_put(out, rle, sizeof rle);
    }
}

static void expansion_stops_at_the_limit(void **state)
{
    (void)state;
    buf_clear(&blob);
    put_zeros(&blob, SEGMENT_MAX_BYTES);
    assert_true(blob.n < 10000);
    assert_true(unpack(buf_slice(&blob)));
    assert_int_equal(back.n, SEGMENT_MAX_BYTES);
    assert_int_equal(back.p[SEGMENT_MAX_BYTES - 1], 0);
    buf_clear(&blob);
    put_zeros(&blob, SEGMENT_MAX_BYTES + 1);
    assert_false(unpack(buf_slice(&blob)));
    assert_string_equal(err.text, "segment expands beyond 268435456 bytes");
    assert_true(back.cap <= SEGMENT_MAX_BYTES);
    buf_clear(&blob);
    put_zeros(&blob, (size_t)4 * SEGMENT_MAX_BYTES);
    assert_false(unpack(buf_slice(&blob)));
    assert_true(back.cap <= SEGMENT_MAX_BYTES);
    buf_free(&back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(round_trips, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_packer_serves_many_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(packing_appends_and_compresses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(frames_survive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_frame_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blobs_without_size_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blobs_in_a_row_are_one_segment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_segment_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_truncation_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(corruption_is_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_claim_is_checked_before_memory_is_reserved, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(expansion_stops_at_the_limit, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
