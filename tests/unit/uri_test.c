/* Request targets: splitting, percent escapes, path segments, query parameters and their types.
 * Inputs are heap copies of their exact size, so that the address sanitizer sees a read outside. */
#include "wire/uri.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct arena arena;
static struct err err;

/* Freed with the arena of blocks below. */
static char *copies[4096];
static size_t copy_count;

static struct slice exact(struct slice s)
{
    char *p = malloc(s.n == 0 ? 1 : s.n);
    assert_non_null(p);
    if (s.n > 0)
        memcpy(p, s.p, s.n);
    assert_true(copy_count < COUNT(copies));
    copies[copy_count++] = p;
    return (struct slice){p, s.n};
}

static int tear_down(void **state)
{
    (void)state;
    while (copy_count > 0)
        free(copies[--copy_count]);
    arena_free(&arena);
    return 0;
}

static void splitting(void **state)
{
    struct slice path, query;
    (void)state;
    uri_split(exact(SLICE_LITERAL("/a/b%2Fc?x=1?y")), &path, &query);
    assert_true(slice_is(path, "/a/b%2Fc"));
    assert_true(slice_is(query, "x=1?y"));
    uri_split(exact(SLICE_LITERAL("/a?")), &path, &query);
    assert_true(slice_is(path, "/a") && query.n == 0);
    uri_split(exact(SLICE_LITERAL("/a%3F")), &path, &query);
    assert_true(slice_is(path, "/a%3F") && query.n == 0);
    uri_split((struct slice){NULL, 0}, &path, &query);
    assert_true(path.n == 0 && query.n == 0);
}

static void decoding(void **state)
{
    struct slice in = exact(SLICE_LITERAL("plain+text")), out;
    (void)state;
    assert_true(uri_decode(in, false, &arena, &out));
    assert_ptr_equal(out.p, in.p);
    assert_int_equal(out.n, in.n);
    assert_true(uri_decode(in, true, &arena, &out));
    assert_true(slice_is(out, "plain text"));
    assert_true(uri_decode(exact(SLICE_LITERAL("a%2Fb%2fc%25+%c3%A9%20")), false, &arena, &out));
    assert_true(slice_is(out, "a/b/c%+\xc3\xa9 "));
    assert_true(uri_decode(exact(SLICE_LITERAL("%2B+")), true, &arena, &out));
    assert_true(slice_is(out, "+ "));
    assert_true(uri_decode(exact(SLICE_LITERAL("%00")), false, &arena, &out));
    assert_true(slice_equal(out, (struct slice){"\0", 1}));
    assert_true(uri_decode(exact(SLICE_LITERAL("%2541")), false, &arena, &out)); /* once only */
    assert_true(slice_is(out, "%41"));
    assert_true(uri_decode((struct slice){NULL, 0}, true, &arena, &out));
    assert_int_equal(out.n, 0);
}

static void every_escape_decodes(void **state)
{
    static const char lower[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
    struct slice out;
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        char text[3] = {'%', lower[c >> 4], upper[c & 15]};
        assert_true(uri_decode(exact((struct slice){text, 3}), true, &arena, &out));
        assert_int_equal(out.n, 1);
        assert_int_equal((unsigned char)*out.p, c);
    }
}

static void malformed_escapes(void **state)
{
    static const char *const bad[] = {"%",   "%4",   "a%",  "a%4", "100%",      "%zz", "%4g",
                                      "%g4", "%%41", "%-1", "% 1", "%\xff\xff", "%+1", "ok%41%4"};
    struct slice out;
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(uri_decode(exact(slice_of(bad[i])), false, &arena, &out));
        assert_false(uri_decode(exact(slice_of(bad[i])), true, &arena, &out));
    }
    char text[3] = "%";
    for (unsigned c = 0; c < 256; c++) {
        bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        text[1] = (char)c;
        text[2] = '0';
        assert_int_equal(uri_decode(exact((struct slice){text, 3}), false, &arena, &out), hex);
        text[1] = '0';
        text[2] = (char)c;
        assert_int_equal(uri_decode(exact((struct slice){text, 3}), false, &arena, &out), hex);
    }
}

static void segments(void **state)
{
    struct slice s[4];
    (void)state;
    assert_int_equal(uri_segments(exact(SLICE_LITERAL("/api/v1/pop")), s, 3), 3);
    assert_true(slice_is(s[0], "api") && slice_is(s[1], "v1") && slice_is(s[2], "pop"));
    assert_int_equal(uri_segments(exact(SLICE_LITERAL("/a%2Fb/")), s, 3), 2);
    assert_true(slice_is(s[0], "a%2Fb") && s[1].n == 0);
    assert_int_equal(uri_segments(exact(SLICE_LITERAL("//a")), s, 3), 2);
    assert_true(s[0].n == 0 && slice_is(s[1], "a"));
    assert_int_equal(uri_segments(exact(SLICE_LITERAL("/")), s, 3), 1);
    assert_int_equal(s[0].n, 0);
    assert_int_equal(uri_segments(exact(SLICE_LITERAL("a/b")), s, 3), 2);
}

static void too_many_segments_write_no_more_than_max(void **state)
{
    struct slice *s = malloc(3 * sizeof *s);
    (void)state;
    assert_non_null(s);
    assert_int_equal(uri_segments(exact(SLICE_LITERAL("/a/b/c/d")), s, 3), 4);
    assert_int_equal(uri_segments(exact(SLICE_LITERAL("/a/b/c/d/e/f/g/h")), s, 3), 4);
    assert_int_equal(uri_segments(exact(SLICE_LITERAL("/a/b/c/")), s, 3), 4);
    assert_int_equal(uri_segments(exact(SLICE_LITERAL("/a/b/c")), s, 3), 3);
    free(s);
}

static void parameters(void **state)
{
    struct slice query =
        exact(SLICE_LITERAL("a=1&b=x%20y+z&a=2&flag&=empty&c%6Fde=7&e=&a&b2=3&&last==&"));
    static const struct {
        const char *name, *value;
    } found_ones[] = {{"a", ""}, {"b", "x y z"}, {"flag", ""}, {"code", "7"},
                      {"e", ""}, {"last", "="},  {"b2", "3"},  {"", ""}};
    static const char *const absent[] = {"c", "c%6Fde", "fla", "flags", "B", "2", "x y z"};
    struct slice value;
    bool found;
    (void)state;
    for (size_t i = 0; i < COUNT(found_ones); i++) {
        value = (struct slice){"?", 1};
        assert_true(uri_param(query, found_ones[i].name, &arena, &value, &found, &err));
        assert_true(found);
        if (!slice_is(value, found_ones[i].value))
            fail_msg("%s is %.*s", found_ones[i].name, SLICE_ARGS(value));
    }
    for (size_t i = 0; i < COUNT(absent); i++) {
        assert_true(uri_param(query, absent[i], &arena, &value, &found, &err));
        assert_false(found);
    }
    assert_true(uri_param((struct slice){NULL, 0}, "a", &arena, &value, &found, &err));
    assert_false(found);
}

static void the_last_of_several_wins(void **state)
{
    struct slice value;
    bool found;
    (void)state;
    assert_true(uri_param(exact(SLICE_LITERAL("q=1&x=5&q=2")), "q", &arena, &value, &found, &err));
    assert_true(found && slice_is(value, "2"));
}

static void a_malformed_escape_anywhere_is_named(void **state)
{
    static const struct {
        const char *query, *error;
    } cases[] = {{"a=%4", "query parameter a: malformed percent escape"},
                 {"a=1&b=100%", "query parameter b: malformed percent escape"},
                 {"a=1&b%=1", "query parameter b%: malformed percent escape"},
                 {"a=%zz&a=1", "query parameter a: malformed percent escape"}};
    struct slice value;
    int64_t n = 7;
    bool found;
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_false(uri_param(exact(slice_of(cases[i].query)), "a", &arena, &value, &found, &err));
        assert_string_equal(err.text, cases[i].error);
        assert_false(uri_param_int(exact(slice_of(cases[i].query)), "a", &n, &err));
        assert_int_equal(n, 7);
    }
}

static void booleans(void **state)
{
    static const struct {
        const char *query;
        bool ok, value;
    } cases[] = {{"w=true", true, true},      {"w=1", true, true},      {"w=false", true, false},
                 {"w=0", true, false},        {"w=%74rue", true, true}, {"w=TRUE", false, false},
                 {"w=yes", false, false},     {"w=", false, false},     {"w", false, false},
                 {"w=true%00", false, false}, {"w=2", false, false},    {"w=true+", false, false}};
    bool b;
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        b = !cases[i].value;
        assert_int_equal(uri_param_bool(exact(slice_of(cases[i].query)), "w", &b, &err),
                         cases[i].ok);
        if (cases[i].ok)
            assert_int_equal(b, cases[i].value);
        else
            assert_non_null(strstr(err.text, "query parameter w"));
    }
    b = true;
    assert_true(uri_param_bool(exact(SLICE_LITERAL("x=0")), "w", &b, &err));
    assert_true(b);
    assert_false(uri_param_bool(exact(SLICE_LITERAL("w=yes")), "w", &b, &err));
    assert_string_equal(err.text,
                        "query parameter w: \"yes\" is not a boolean (true, false, 1 or 0)");
}

static void integers(void **state)
{
    static const struct {
        const char *query;
        int64_t value;
    } good[] = {{"n=0", 0},
                {"n=-0", 0},
                {"n=007", 7},
                {"n=-12", -12},
                {"n=%31%32", 12},
                {"n=9223372036854775807", INT64_MAX},
                {"n=-9223372036854775808", INT64_MIN},
                {"n=0000000000000000000000000000001", 1}};
    static const char *const bad[] = {"n=",
                                      "n",
                                      "n=-",
                                      "n=1.0",
                                      "n=1e3",
                                      "n=+1",
                                      "n=%2B1",
                                      "n=0x10",
                                      "n=1+",
                                      "n=--1",
                                      "n=9223372036854775808",
                                      "n=-9223372036854775809",
                                      "n=99999999999999999999",
                                      "n=1%00",
                                      "n=%00",
                                      "n=1_0",
                                      "n=\xd9\xa1",
                                      "n=00000000000000000000000000000001"};
    int64_t n;
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        n = 99;
        if (!uri_param_int(exact(slice_of(good[i].query)), "n", &n, &err) || n != good[i].value)
            fail_msg("%s gave %lld", good[i].query, (long long)n);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        n = 99;
        if (uri_param_int(exact(slice_of(bad[i])), "n", &n, &err))
            fail_msg("%s was taken as %lld", bad[i], (long long)n);
        assert_int_equal(n, 99);
        assert_non_null(strstr(err.text, "query parameter n"));
    }
    assert_true(uri_param_int(exact(SLICE_LITERAL("m=5")), "n", &n, &err));
    assert_int_equal(n, 99);
    assert_false(uri_param_int(exact(SLICE_LITERAL("n=ten")), "n", &n, &err));
    assert_string_equal(err.text, "query parameter n: \"ten\" is not a whole number");
}

static void texts(void **state)
{
    struct slice text = SLICE_LITERAL("default");
    (void)state;
    assert_true(uri_param_text(exact(SLICE_LITERAL("x=1")), "g", &arena, &text, &err));
    assert_true(slice_is(text, "default"));
    assert_true(
        uri_param_text(exact(SLICE_LITERAL("g=%C3%A9t%C3%A9%00")), "g", &arena, &text, &err));
    assert_true(slice_equal(text, SLICE_LITERAL("\xc3\xa9t\xc3\xa9\0")));
    assert_true(uri_param_text(exact(SLICE_LITERAL("g=")), "g", &arena, &text, &err));
    assert_int_equal(text.n, 0);
    assert_false(uri_param_text(exact(SLICE_LITERAL("g=%")), "g", &arena, &text, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(splitting, tear_down),
        cmocka_unit_test_teardown(decoding, tear_down),
        cmocka_unit_test_teardown(every_escape_decodes, tear_down),
        cmocka_unit_test_teardown(malformed_escapes, tear_down),
        cmocka_unit_test_teardown(segments, tear_down),
        cmocka_unit_test_teardown(too_many_segments_write_no_more_than_max, tear_down),
        cmocka_unit_test_teardown(parameters, tear_down),
        cmocka_unit_test_teardown(the_last_of_several_wins, tear_down),
        cmocka_unit_test_teardown(a_malformed_escape_anywhere_is_named, tear_down),
        cmocka_unit_test_teardown(booleans, tear_down),
        cmocka_unit_test_teardown(integers, tear_down),
        cmocka_unit_test_teardown(texts, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
