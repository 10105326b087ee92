/* Hexadecimal text: digits of both cases, what is refused. */
#include "wire/hex.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void decodes(void **state)
{
    uint8_t out[8] = {0};
    const uint8_t want[8] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};
    (void)state;
    assert_true(hex_decode(SLICE_LITERAL("0123456789abcdef"), out));
    assert_memory_equal(out, want, sizeof want);
    assert_true(hex_decode(SLICE_LITERAL("0123456789ABCDEF"), out));
    assert_memory_equal(out, want, sizeof want);
    assert_true(hex_decode((struct slice){NULL, 0}, out));
}

static void refuses(void **state)
{
    uint8_t out[8];
    (void)state;
    assert_false(hex_decode(SLICE_LITERAL("0"), out));
    assert_false(hex_decode(SLICE_LITERAL("012"), out));
    assert_false(hex_decode(SLICE_LITERAL("0g"), out));
    assert_false(hex_decode(SLICE_LITERAL("/0"), out));
    assert_false(hex_decode(SLICE_LITERAL(":@`G"), out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(decodes), cmocka_unit_test(refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
