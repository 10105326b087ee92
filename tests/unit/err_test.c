/* Error texts: set, prefixed, cut. */
#include "base/err.h"
#include "died.h"
#include "wire/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static void texts_and_prefixes(void **state)
{
    struct err err;
    (void)state;
    assert_false(err_set(&err, "fd %d: %s", 7, "gone"));
    assert_string_equal(err.text, "fd 7: gone");
    assert_false(err_prefix(&err, "%s[%d]", "items", 3));
    assert_string_equal(err.text, "items[3]: fd 7: gone");
    assert_false(err_set(NULL, "nobody reads %d", 1));
    assert_false(err_prefix(NULL, "this"));
}

/* Texts of 1 to 4 byte characters, cut at every alignment, stay UTF-8 and as long as they can. */
static void a_cut_text_stays_utf8(void **state)
{
    static const char *const characters[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    struct err err;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        for (size_t shift = 0; shift < 8; shift++) {
            char text[1024] = "";
            size_t width = strlen(characters[i]), room = sizeof err.text - 1;
            memset(text, '.', shift);
            for (size_t n = shift; n + width < sizeof text; n += width)
                memcpy(text + n, characters[i], width);
            assert_false(err_set(&err, "%s", text));
            assert_int_equal(strlen(err.text), shift + (room - shift) / width * width);
            assert_true(utf8_valid(slice_of(err.text)));
            assert_false(err_prefix(&err, "p"));
            assert_true(utf8_valid(slice_of(err.text)));
            assert_int_equal(strlen(err.text), 3 + shift + (room - 3 - shift) / width * width);
        }
    }
}

static void what_fits_exactly_is_not_cut(void **state)
{
    struct err err;
    char text[sizeof err.text];
    (void)state;
    memset(text, 'x', sizeof text);
    memcpy(text + sizeof text - 4, "\xe2\x82\xac", 4);
    assert_false(err_set(&err, "%s", text));
    assert_string_equal(err.text, text);
}

static void call_die(void)
{
    die("broken: %d", 1);
}

static void allocate_too_much(void)
{
    void *p = mem_alloc(SIZE_MAX / 2);
    (void)p;
}

static void dying(void **state)
{
    (void)state;
    assert_true(died_in(call_die));
#ifndef __SANITIZE_ADDRESS__ /* which ends the process in its own way */
    assert_true(died_in(allocate_too_much));
#else
    (void)allocate_too_much;
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_and_prefixes),
        cmocka_unit_test(a_cut_text_stays_utf8),
        cmocka_unit_test(what_fits_exactly_is_not_cut),
        cmocka_unit_test(dying),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
