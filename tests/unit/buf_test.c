/* The growable buffer. */
#include "base/buf.h"
#include "died.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void it_grows_and_keeps_what_it_has(void **state)
{
    struct buf b = {0};
    (void)state;
    for (unsigned i = 0; i < 100000; i++)
        buf_putc(&b, (char)(i % 251));
    assert_int_equal(b.n, 100000);
    assert_true(b.cap >= b.n);
    for (unsigned i = 0; i < 100000; i++)
        assert_int_equal((unsigned char)b.p[i], i % 251);
    buf_free(&b);
    assert_true(b.p == NULL && b.n == 0 && b.cap == 0);
    buf_free(&b);
}

static void puts_of_every_kind(void **state)
{
    struct buf b = {0};
    (void)state;
    buf_put(&b, NULL, 0);
    buf_put_slice(&b, (struct slice){NULL, 0});
    assert_null(b.p); /* nothing costs nothing */
    buf_put(&b, "a\0b", 3);
    buf_put_slice(&b, SLICE_LITERAL("cd"));
    BUF_PUT_LITERAL(&b, "ef");
    assert_true(slice_equal(buf_slice(&b), SLICE_LITERAL("a\0bcdef")));
    buf_free(&b);
}

static void clearing_keeps_the_memory(void **state)
{
    struct buf b = {0};
    (void)state;
    buf_reserve(&b, 1000);
    char *p = b.p;
    size_t cap = b.cap;
    memset(b.p, 'x', 1000); /* reserved means writable */
    b.n = 1000;
    buf_clear(&b);
    assert_int_equal(b.n, 0);
    buf_reserve(&b, 1000);
    assert_ptr_equal(b.p, p);
    assert_int_equal(b.cap, cap);
    buf_free(&b);
}

static void reserving_exactly_what_is_left_does_not_grow(void **state)
{
    struct buf b = {0};
    (void)state;
    buf_putc(&b, 'x');
    size_t cap = b.cap;
    buf_reserve(&b, cap - 1);
    assert_int_equal(b.cap, cap);
    buf_reserve(&b, cap);
    assert_true(b.cap >= cap + 1);
    buf_free(&b);
}

static void printing(void **state)
{
    struct buf b = {0};
    char big[5001];
    (void)state;
    memset(big, 'y', sizeof big);
    big[5000] = '\0';
    buf_printf(&b, "%s", "");
    assert_int_equal(b.n, 0);
    buf_printf(&b, "%d-%s", 7, "x");
    buf_printf(&b, "%s|", big);
    buf_putc(&b, '.');
    assert_int_equal(b.n, 3 + 5000 + 2);
    assert_memory_equal(b.p, "7-xyyy", 6);
    assert_memory_equal(b.p + b.n - 3, "y|.", 3);
    buf_free(&b);
    /* To the last byte: the NUL of printf needs room too. */
    for (int n = 250; n < 520; n++) {
        buf_printf(&b, "%*d", n, 5);
        assert_int_equal(b.n, n);
        assert_int_equal(b.p[n - 1], '5');
        buf_free(&b);
    }
}

static void decimal_numbers(void **state)
{
    static const struct {
        int64_t value;
        const char *text;
    } cases[] = {{0, "0"},
                 {9, "9"},
                 {10, "10"},
                 {-1, "-1"},
                 {1234567890123, "1234567890123"},
                 {INT64_MAX, "9223372036854775807"},
                 {INT64_MIN, "-9223372036854775808"}};
    struct buf b = {0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buf_clear(&b);
        buf_put_int(&b, cases[i].value);
        assert_true(slice_is(buf_slice(&b), cases[i].text));
    }
    buf_free(&b);
}

static void reserve_everything(void)
{
    struct buf b = {0};
    buf_putc(&b, 'x');
    buf_reserve(&b, SIZE_MAX);
}

static void reserve_what_wraps(void)
{
    struct buf b = {0};
    buf_putc(&b, 'x');
    buf_reserve(&b, SIZE_MAX / 2);
}

static void sizes_that_overflow_die(void **state)
{
    (void)state;
    assert_true(died_in(reserve_everything));
    assert_true(died_in(reserve_what_wraps));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_grows_and_keeps_what_it_has),
        cmocka_unit_test(puts_of_every_kind),
        cmocka_unit_test(clearing_keeps_the_memory),
        cmocka_unit_test(reserving_exactly_what_is_left_does_not_grow),
        cmocka_unit_test(printing),
        cmocka_unit_test(decimal_numbers),
        cmocka_unit_test(sizes_that_overflow_die),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
