/* JSON: what is valid and what is not, where an error is, spans, picking, decoding, numbers. Every
 * text is validated from a heap copy of exactly its size, so that the address sanitizer sees a
 * read outside. */
#include "wire/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct err err;

static bool is_valid(struct slice text)
{
    char *copy = malloc(text.n == 0 ? 1 : text.n);
    struct json_value v;
    assert_non_null(copy);
    if (text.n > 0)
        memcpy(copy, text.p, text.n);
    err.text[0] = '\0';
    bool ok = json_validate((struct slice){copy, text.n}, &v, &err);
    if (ok)
        assert_true(v.raw.p >= copy && v.raw.p + v.raw.n <= copy + text.n && v.raw.n > 0);
    else
        assert_true(err.text[0] != '\0');
    free(copy);
    return ok;
}

static struct json_value parse(const char *text)
{
    struct json_value v;
    if (!json_validate(slice_of(text), &v, &err))
        fail_msg("%s: %s", text, err.text);
    return v;
}

static void assert_raw(struct json_value v, const char *expected)
{
    if (!slice_is(v.raw, expected))
        fail_msg("found %.*s, expected %s", SLICE_ARGS(v.raw), expected);
}

static void valid_texts(void **state)
{
    static const char *const texts[] = {
        "0", "-0", "1", "-1.5", "1e5", "1E+5", "1e-5", "0.0", "0e0", "1e400", "-1.25E-300",
        "12345678901234567890123456789012345678901234567890", "true", "false", "null", "\"\"", "[]",
        "{}", " [ ] ", "\t{\n}\r\n", "[1,2,3]", "[[],[[]],{}]", "{\"a\":{\"b\":[{}]}}",
        "{\"a\":1,\"a\":2}", "{\"\":0}", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\u0000\"",
        "\"\\uD83D\\uDE00\"", "\"\\ud800\"", "\"\\udc00\\ud800\"", "\"\\uABCD\\uabcd\"", "\"\x7f\"",
        /* the borders of every length of UTF-8 sequence */
        "\"\xc2\x80\xdf\xbf\"", "\"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\"",
        "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"", "\"plain run of bytes \xc3\xa9 and another one\""};
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++)
        if (!is_valid(slice_of(texts[i])))
            fail_msg("%s: %s", texts[i], err.text);
    assert_true(is_valid(SLICE_LITERAL("\"\\ud800\"")));
}

static void invalid_texts(void **state)
{
    static const char *const texts[] = {
        "", " ", "-", "+1", "01", "-01", "00", "1.", ".5", "-.5", "1.e5", "1e", "1e+", "1E-",
        "0x10", "1_000", "1 2", "--1", "Infinity", "NaN", "-Infinity", "tru", "truex", "True",
        "nul", "nulll", "fals", "'a'", "a", "\"", "\"a", "\"\\\"", "\"\\", "\"\\x41\"", "\"\\u\"",
        "\"\\u12\"", "\"\\u12g4\"", "\"\\U0041\"", "\"\\0\"", "\"a\nb\"", "\"a\tb\"", "\"\x1f\"",
        "\"a\" \"b\"", "[", "]", "{", "}", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1}", "{\"a\":1]",
        "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{,}", "{a:1}", "{1:1}", "{\"a\" 1}",
        "{\"a\":1 \"b\":2}", "{\"a\":1,,\"b\":2}", "{\"a\"::1}", "[]]", "{}}", "[]x", "{} {}",
        "null,", "[1]//c", "/**/1", "\xef\xbb\xbf{}", "\xc2\xa0", "\x0b[]", "\x0c[]",
        /* UTF-8: continuation first, overlong of 2, 3, 4, cut short, surrogates, above U+10FFFF */
        "\"\x80\"", "\"\xbf\"", "\"\xc0\x80\"", "\"\xc1\xbf\"", "\"\xe0\x9f\xbf\"",
        "\"\xf0\x8f\xbf\xbf\"", "\"\xc3\"", "\"\xe2\x82\"", "\"\xf0\x9f\x98\"", "\"\xed\xa0\x80\"",
        "\"\xed\xbf\xbf\"", "\"\xf4\x90\x80\x80\"", "\"\xf5\x80\x80\x80\"",
        "\"\xf8\x88\x80\x80\x80\"", "\"\xfe\"", "\"\xff\"", "\"\xc3\x28\"", "\"\xe2\x28\xa1\"",
        "\"\xe2\x82\x28\"", "\"\xf0\x28\x8c\xbc\"", "\"\xf0\x90\x28\xbc\"", "\"\xf0\x90\x8c\x28\"",
        "\"\xc3\xa9\xc3\"", "\xc3\xa9"};
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++)
        if (is_valid(slice_of(texts[i])))
            fail_msg("accepted: %s", texts[i]);
}

static void nul_bytes_are_refused_everywhere(void **state)
{
    static const char text[] = "[{\"ab\": 10, \"c\":true}, \"\\n\" ]";
    (void)state;
    for (size_t i = 0; i <= sizeof text - 1; i++) {
        char broken[sizeof text];
        memcpy(broken, text, i);
        broken[i] = '\0';
        memcpy(broken + i + 1, text + i, sizeof text - 1 - i);
        assert_false(is_valid((struct slice){broken, sizeof text}));
    }
}

/* Every control byte, at every distance from the 8 byte steps of the scanner. */
static void special_bytes_are_seen_at_every_position(void **state)
{
    char text[40];
    (void)state;
    for (size_t n = 1; n < 36; n++) {
        for (size_t at = 1; at <= n; at++) {
            for (unsigned c = 0; c < 256; c++) {
                memset(text, 'x', n + 1);
                text[0] = text[n + 1] = '"';
                text[at] = (char)c;
                bool plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
                /* A backslash before the last quote escapes it; before an x it is unknown. */
                assert_int_equal(is_valid((struct slice){text, n + 2}), plain);
            }
        }
    }
}

static void every_truncation_is_refused(void **state)
{
    static const char text[] =
        "{\"k\\u00e9y\":[1.5e+10,-0,true,false,null,\"\\ud83d\\ude00 \xf0\x9f\x98"
        "\x80 \xe2\x82\xac \xc3\xa9\",{\"a\":[[],{}]}],\"z\":\"plain text here\"}";
    (void)state;
    assert_true(is_valid(SLICE_LITERAL(text)));
    for (size_t n = 0; n < sizeof text - 1; n++)
        assert_false(is_valid((struct slice){text, n}));
}

static void errors_say_what_and_where(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "empty text, expected a JSON value"},
        {"  ", "expected a value, found the end of the text at line 1 column 3"},
        {"{\n  \"a\": 1,\n  b: 2}", "expected a member name, found 'b' at line 3 column 3"},
        {"[1 2]", "expected ',' or ']', found '2' at line 1 column 4"},
        {"{\"a\":1\n", "expected ',' or '}', found the end of the text at line 2 column 1"},
        {"{\"a\"\r\n;", "expected ':', found ';' at line 2 column 1"},
        {"[tru]", "expected true, found ']' at line 1 column 5"},
        {"[1.x]", "expected a digit, found 'x' at line 1 column 4"},
        {"01", "expected the end of the text, found '1' at line 1 column 2"},
        {"[\"a\\q\"]",
         "expected one of \"\\/bfnrtu after a backslash, found 'q' at line 1 column 5"},
        {"\"\\u12\"", "expected four hexadecimal digits after \\u, found '\"' at line 1 column 6"},
        {"\"ab", "unterminated string at line 1 column 4"},
        {"\"a\x01\"", "raw control character in a string at line 1 column 3"},
        {"\"\xc3\xa9\xff\"", "invalid UTF-8 at line 1 column 4"},
        {"\xef\xbb\xbf{}", "expected a value, found byte 0xef at line 1 column 1"},
        {"\n\n\n   [}", "expected a value, found '}' at line 4 column 5"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_false(is_valid(slice_of(cases[i].text)));
        assert_string_equal(err.text, cases[i].error);
    }
}

static void nesting_has_a_limit(void **state)
{
    static char text[4 * (JSON_MAX_DEPTH + 1) * 5];
    (void)state;
    for (int object = 0; object < 2; object++) {
        for (size_t depth = JSON_MAX_DEPTH - 1; depth <= JSON_MAX_DEPTH + 1; depth++) {
            size_t n = 0;
            for (size_t i = 0; i < depth; i++)
                n += (size_t)sprintf(text + n, "%s", object ? "{\"a\":" : "[");
            text[n++] = '1';
            for (size_t i = 0; i < depth; i++)
                text[n++] = object ? '}' : ']';
            assert_int_equal(is_valid((struct slice){text, n}), depth <= JSON_MAX_DEPTH);
            text[n - 1] = object ? ']' : '}'; /* every level remembers what it is */
            assert_false(is_valid((struct slice){text, n}));
        }
    }
    /* Alternating, more levels than one word of the bitmap. */
    size_t n = 0;
    for (size_t i = 0; i < 100; i++)
        n += (size_t)sprintf(text + n, "[{\"a\":");
    text[n++] = '1';
    for (size_t i = 0; i < 100; i++)
        n += (size_t)sprintf(text + n, "}]");
    assert_true(is_valid((struct slice){text, n}));
    /* Far too deep costs no stack. */
    char *deep = malloc(1000000);
    assert_non_null(deep);
    memset(deep, '[', 1000000);
    assert_false(is_valid((struct slice){deep, 1000000}));
    assert_non_null(strstr(err.text, "nested too deep at line 1 column 513"));
    free(deep);
}

static void a_string_of_ten_mebibytes(void **state)
{
    size_t n = 10u << 20;
    char *text = malloc(n);
    struct json_value v;
    struct slice decoded;
    struct arena arena = {0};
    (void)state;
    assert_non_null(text);
    memset(text, 'a', n);
    text[0] = text[n - 1] = '"';
    assert_true(json_validate((struct slice){text, n}, &v, &err));
    assert_true(json_string(v, &arena, &decoded, &err));
    assert_ptr_equal(decoded.p, text + 1); /* no copy */
    assert_int_equal(decoded.n, n - 2);
    text[n / 2] = '\\';
    text[n / 2 + 1] = 'n';
    assert_true(json_validate((struct slice){text, n}, &v, &err));
    assert_true(json_string(v, &arena, &decoded, &err));
    assert_int_equal(decoded.n, n - 3);
    assert_int_equal(decoded.p[n / 2 - 1], '\n');
    assert_int_equal(decoded.p[n - 4], 'a');
    text[n - 1] = 'a';
    assert_false(json_validate((struct slice){text, n}, &v, &err));
    arena_free(&arena);
    free(text);
}

static void spans_are_the_bytes_as_sent(void **state)
{
    static const char *const expected[] = {
        "1.0",         "1e400", "\"\\u0041\"", "{\"b\" : 1, \"b\":2 }", "[ ]",
        "\"],}\\\"\"", "null",  "-0",          "[[1,{\"x\":\"]\"}]]"};
    struct json_value v =
        parse(" \n[ 1.0,1e400 ,\"\\u0041\",{\"b\" : 1, \"b\":2 }\t,[ ],\"],}\\\"\", null"
              ", -0 , [[1,{\"x\":\"]\"}]] ]\r\n ");
    struct json_iter it = json_iterate(v);
    struct json_value e;
    size_t n = 0;
    (void)state;
    assert_int_equal(v.type, JSON_ARRAY);
    assert_int_equal(v.raw.p[0], '[');
    assert_int_equal(v.raw.p[v.raw.n - 1], ']');
    for (; json_next(&it, &e); n++)
        assert_raw(e, expected[n]);
    assert_int_equal(n, COUNT(expected));
    assert_false(json_next(&it, &e));
}

static void members_come_with_their_keys(void **state)
{
    struct json_value v = parse("{ \"a\" : 1 ,\"b\\\"\":{ },\"\":[\"x\"] , \"d\":false}"), key,
                      value;
    static const char *const keys[] = {"\"a\"", "\"b\\\"\"", "\"\"", "\"d\""};
    static const char *const values[] = {"1", "{ }", "[\"x\"]", "false"};
    static const enum json_type types[] = {JSON_NUMBER, JSON_OBJECT, JSON_ARRAY, JSON_FALSE};
    struct json_iter it = json_iterate(v);
    size_t n = 0;
    (void)state;
    for (; json_next_member(&it, &key, &value); n++) {
        assert_raw(key, keys[n]);
        assert_raw(value, values[n]);
        assert_int_equal(value.type, types[n]);
    }
    assert_int_equal(n, 4);
}

static void empty_containers_and_scalars_have_no_elements(void **state)
{
    static const char *const texts[] = {"[]", "[ \n ]",  "{}",   "{ }",
                                        "1",  "\"[1]\"", "null", "true"};
    struct json_value e, key;
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct json_iter it = json_iterate(parse(texts[i]));
        assert_false(json_next(&it, &e));
        assert_false(json_next_member(&it, &key, &e));
    }
}

static void picking(void **state)
{
    struct json_value a, b, missing;
    const struct json_field fields[] = {{"alpha", &a}, {"b", &b}, {"missing", &missing}};
    (void)state;
    assert_true(json_pick(parse("{\"x\":[1],\"b\":null,\"alpha\":{\"b\":1},\"al\":2,\"alphas\":3}"),
                          fields, 3, &err));
    assert_raw(a, "{\"b\":1}");
    assert_int_equal(b.type, JSON_NULL);
    assert_false(json_present(b));
    assert_int_equal(missing.type, JSON_ABSENT);
    assert_int_equal(missing.raw.n, 0);
    assert_true(json_present(a));

    /* Escaped keys are the same keys; keys without a UTF-8 form are nobody's. */
    assert_true(json_pick(parse("{\"\\u0061lph\\u0061\":1,\"\\ud800\":2,\"b\\u0000\":3}"), fields,
                          3, &err));
    assert_raw(a, "1");
    assert_int_equal(b.type, JSON_ABSENT);
    assert_true(json_pick(parse("{}"), fields, 3, &err));
    assert_int_equal(a.type, JSON_ABSENT);
}

static void picking_refuses_a_known_key_twice(void **state)
{
    static const char *const twice[] = {"{\"a\":1,\"a\":2}", "{\"a\":null,\"a\":null}",
                                        "{\"a\":1,\"b\":[],\"\\u0061\":1}"};
    struct json_value a;
    const struct json_field fields[] = {{"a", &a}};
    (void)state;
    for (size_t i = 0; i < COUNT(twice); i++) {
        assert_false(json_pick(parse(twice[i]), fields, 1, &err));
        assert_string_equal(err.text, "duplicate field a");
    }
    assert_true(json_pick(parse("{\"x\":1,\"x\":2,\"a\":{\"a\":1,\"a\":2}}"), fields, 1, &err));
    assert_false(json_pick(parse("[1]"), fields, 1, &err));
    assert_string_equal(err.text, "expected an object, found array");
    assert_int_equal(a.type, JSON_ABSENT);
}

static void decoding_strings(void **state)
{
    static const struct {
        const char *text;
        struct slice bytes;
    } cases[] = {
        {"\"\"", {"", 0}},
        {"\"abc\"", {"abc", 3}},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", {"\"\\/\b\f\n\r\t", 8}},
        {"\"a\\u0000b\"", {"a\0b", 3}},
        {"\"\\u0041\\u00e9\\u20AC\\ufffd\"", {"A\xc3\xa9\xe2\x82\xac\xef\xbf\xbd", 9}},
        {"\"\\uD83D\\uDE00\\udbff\\udfff\"", {"\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf", 8}},
        {"\"\\ud800\\udc00x\"", {"\xf0\x90\x80\x80x", 5}},
        {"\"x\\\\u0041\"", {"x\\u0041", 7}},
        {"\"\xc3\xa9\\n\xc3\xa9\"", {"\xc3\xa9\n\xc3\xa9", 5}},
    };
    struct arena arena = {0};
    struct slice out;
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (!json_string(parse(cases[i].text), &arena, &out, &err))
            fail_msg("%s: %s", cases[i].text, err.text);
        assert_true(slice_equal(out, cases[i].bytes));
    }
    static const char *const lone[] = {"\"\\ud800\"",        "\"\\udc00\"",
                                       "\"\\ud800x\"",       "\"\\ud800\\n\"",
                                       "\"\\ud800\\u0041\"", "\"\\ud83d\\ud83d\"",
                                       "\"\\udbff\\ue000\"", "\"\\ud83d\\ude00\\ude00\""};
    for (size_t i = 0; i < COUNT(lone); i++) {
        assert_false(json_string(parse(lone[i]), &arena, &out, &err));
        assert_non_null(strstr(err.text, "lone surrogate"));
    }
    assert_false(json_string(parse("12"), &arena, &out, &err));
    assert_string_equal(err.text, "expected a string, found number");
    arena_free(&arena);
}

static void whole_numbers(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"-0", 0},
                {"0.000", 0},
                {"0e99999999999999999999", 0},
                {"5.0", 5},
                {"1e3", 1000},
                {"1E+3", 1000},
                {"-12", -12},
                {"1.5e1", 15},
                {"150e-1", 15},
                {"1000000000000000000000000e-20", 10000},
                {"0.00001e5", 1},
                {"10.0e-1", 1},
                {"1e0000000000000000000000002", 100},
                {"100.00e-2", 1},
                {"1020.30e1", 10203},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN},
                {"922337203685477580.7e1", INT64_MAX},
                {"9223372036854775807.000", INT64_MAX}};
    static const char *const bad[] = {"0.5",
                                      "1e-1",
                                      "15e-2",
                                      "1.5",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "1e19",
                                      "18446744073709551616",
                                      "1e400",
                                      "1e99999999999999999999999",
                                      "1e-99999999999999999999999",
                                      "12345678901234567890123",
                                      "1.00000000000000000000000001",
                                      "\"5\"",
                                      "null",
                                      "true",
                                      "[5]"};
    int64_t n;
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        n = -77;
        if (!json_int64(parse(good[i].text), &n) || n != good[i].value)
            fail_msg("%s gave %lld", good[i].text, (long long)n);
    }
    for (size_t i = 0; i < COUNT(bad); i++)
        if (json_int64(parse(bad[i]), &n))
            fail_msg("%s was taken as %lld", bad[i], (long long)n);
}

static void types_have_names(void **state)
{
    (void)state;
    assert_string_equal(json_type_name(parse("null").type), "null");
    assert_string_equal(json_type_name(parse("true").type), "boolean");
    assert_string_equal(json_type_name(parse("false").type), "boolean");
    assert_string_equal(json_type_name(parse("-1").type), "number");
    assert_string_equal(json_type_name(parse("\"\"").type), "string");
    assert_string_equal(json_type_name(parse("[]").type), "array");
    assert_string_equal(json_type_name(parse("{}").type), "object");
    assert_string_equal(json_type_name(JSON_ABSENT), "nothing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_texts),
        cmocka_unit_test(invalid_texts),
        cmocka_unit_test(nul_bytes_are_refused_everywhere),
        cmocka_unit_test(special_bytes_are_seen_at_every_position),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(errors_say_what_and_where),
        cmocka_unit_test(nesting_has_a_limit),
        cmocka_unit_test(a_string_of_ten_mebibytes),
        cmocka_unit_test(spans_are_the_bytes_as_sent),
        cmocka_unit_test(members_come_with_their_keys),
        cmocka_unit_test(empty_containers_and_scalars_have_no_elements),
        cmocka_unit_test(picking),
        cmocka_unit_test(picking_refuses_a_known_key_twice),
        cmocka_unit_test(decoding_strings),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(types_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
