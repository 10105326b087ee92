/* UUIDs: text form, parsing, minting. */
#include "base/clock.h"
#include "base/uuid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#define TEXT "0195f3c2-7b1a-7e50-9f4e-00deadbeef01"

static void text_form(void **state)
{
    static const uint8_t bytes[16] = {0x01, 0x95, 0xf3, 0xc2, 0x7b, 0x1a, 0x7e, 0x50,
                                      0x9f, 0x4e, 0x00, 0xde, 0xad, 0xbe, 0xef, 0x01};
    struct uuid u;
    char text[UUID_TEXT_SIZE];
    (void)state;
    assert_true(uuid_parse(SLICE_LITERAL(TEXT), &u));
    assert_memory_equal(u.bytes, bytes, 16);
    uuid_format(&u, text);
    assert_memory_equal(text, TEXT, UUID_TEXT_SIZE);
    assert_true(uuid_parse(SLICE_LITERAL("0195F3C2-7B1A-7E50-9F4E-00DEADBEEF01"), &u));
    assert_memory_equal(u.bytes, bytes, 16);
    uuid_format(&u, text); /* always lower case */
    assert_memory_equal(text, TEXT, UUID_TEXT_SIZE);
    assert_true(uuid_parse(SLICE_LITERAL("00000000-0000-0000-0000-000000000000"), &u));
}

static void every_byte_value_survives(void **state)
{
    (void)state;
    for (unsigned v = 0; v < 256; v++) {
        struct uuid u, back;
        char text[UUID_TEXT_SIZE];
        memset(u.bytes, (int)v, sizeof u.bytes);
        uuid_format(&u, text);
        assert_true(uuid_parse((struct slice){text, sizeof text}, &back));
        assert_true(uuid_equal(&u, &back));
        back.bytes[v % 16] ^= 1;
        assert_false(uuid_equal(&u, &back));
    }
}

static void other_forms_are_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "0195f3c27b1a7e509f4e00deadbeef01",
                                      "{0195f3c2-7b1a-7e50-9f4e-00deadbeef01}",
                                      "urn:uuid:" TEXT,
                                      TEXT " ",
                                      " " TEXT,
                                      "0195f3c2-7b1a-7e50-9f4e-00deadbeef0",
                                      "0195f3c27-b1a-7e50-9f4e-00deadbeef01",
                                      "0195f3c2_7b1a_7e50_9f4e_00deadbeef01",
                                      "0195f3c2-7b1a-7e50-9f4e00-deadbeef01"};
    struct uuid u;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(uuid_parse(slice_of(bad[i]), &u));
    assert_false(uuid_parse((struct slice){NULL, 0}, &u));
    /* Every wrong byte at every position, from a heap copy without a NUL behind it. */
    char *text = malloc(UUID_TEXT_SIZE);
    assert_non_null(text);
    for (size_t at = 0; at < UUID_TEXT_SIZE; at++) {
        for (unsigned c = 0; c < 256; c++) {
            memcpy(text, TEXT, UUID_TEXT_SIZE);
            bool dash = text[at] == '-';
            bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
            text[at] = (char)c;
            assert_int_equal(uuid_parse((struct slice){text, UUID_TEXT_SIZE}, &u),
                             dash ? c == '-' : hex);
        }
    }
    free(text);
}

static uint64_t uuid_ms(const struct uuid *u)
{
    uint64_t ms = 0;
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | u->bytes[i];
    return ms;
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct uuid));
}

static void minted_ids(void **state)
{
    enum { COUNT = 100000 };
    struct uuid *u = malloc(COUNT * sizeof *u);
    uint8_t ones[16], zeros[16];
    (void)state;
    assert_non_null(u);
    memset(ones, 0xff, sizeof ones); /* bits that were 1 in all ids */
    memset(zeros, 0xff, sizeof zeros);
    uint64_t before = (uint64_t)clock_wall_us() / 1000u;
    for (size_t i = 0; i < COUNT; i++)
        u[i] = uuid_v7();
    uint64_t after = (uint64_t)clock_wall_us() / 1000u;
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(u[i].bytes[6] >> 4, 7);
        assert_int_equal(u[i].bytes[8] >> 6, 2);
        assert_true(uuid_ms(&u[i]) >= before && uuid_ms(&u[i]) <= after);
        for (size_t k = 0; k < 16; k++) {
            ones[k] &= u[i].bytes[k];
            zeros[k] &= (uint8_t)~u[i].bytes[k];
        }
    }
    /* 74 bits vary; the rest is version and variant. */
    for (size_t k = 6; k < 16; k++) {
        assert_int_equal(ones[k], k == 6 ? 0x70 : k == 8 ? 0x80 : 0);
        assert_int_equal(zeros[k], k == 6 ? 0x80 : k == 8 ? 0x40 : 0);
    }
    qsort(u, COUNT, sizeof *u, by_bytes);
    for (size_t i = 1; i < COUNT; i++)
        assert_false(uuid_equal(&u[i - 1], &u[i]));
    free(u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_form),
        cmocka_unit_test(every_byte_value_survives),
        cmocka_unit_test(other_forms_are_refused),
        cmocka_unit_test(minted_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
