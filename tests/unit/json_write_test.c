/* Writing JSON: escapes, invalid UTF-8, uuids, times, booleans. */
#include "wire/json.h"
#include "wire/json_write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static struct buf out;

static void assert_written(struct slice in, const char *expected)
{
    char *exact = malloc(in.n == 0 ? 1 : in.n);
    assert_non_null(exact);
    if (in.n > 0)
        memcpy(exact, in.p, in.n);
    buf_clear(&out);
    json_write_string(&out, (struct slice){in.n == 0 ? NULL : exact, in.n});
    if (!slice_is(buf_slice(&out), expected))
        fail_msg("wrote %.*s, expected %s", SLICE_ARGS(buf_slice(&out)), expected);
    free(exact);
}

static void escapes(void **state)
{
    (void)state;
    assert_written(SLICE_LITERAL(""), "\"\"");
    assert_written(SLICE_LITERAL("plain"), "\"plain\"");
    assert_written(SLICE_LITERAL("a\"b\\c/d"), "\"a\\\"b\\\\c/d\"");
    assert_written(SLICE_LITERAL("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\"");
    assert_written(SLICE_LITERAL("a\0b\x01\x1f\x20\x7f"), "\"a\\u0000b\\u0001\\u001f \x7f\"");
    assert_written(SLICE_LITERAL("\x0b\x0e\x1a"), "\"\\u000b\\u000e\\u001a\"");
    assert_written(SLICE_LITERAL("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\n"),
                   "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\\n\"");
}

static void every_ascii_byte_reads_back(void **state)
{
    char all[128];
    struct json_value v;
    struct slice back;
    struct arena arena = {0};
    struct err err;
    (void)state;
    for (int i = 0; i < 128; i++)
        all[i] = (char)i;
    buf_clear(&out);
    json_write_string(&out, (struct slice){all, sizeof all});
    assert_true(json_validate(buf_slice(&out), &v, &err));
    assert_true(json_string(v, &arena, &back, &err));
    assert_true(slice_equal(back, (struct slice){all, sizeof all}));
    arena_free(&arena);
}

#define LOST "\xef\xbf\xbd"

static void invalid_utf8_is_replaced(void **state)
{
    (void)state;
    assert_written(SLICE_LITERAL("a\xff"
                                 "b"),
                   "\"a" LOST "b\"");
    assert_written(SLICE_LITERAL("\x80"), "\"" LOST "\"");
    assert_written(SLICE_LITERAL("\xc0\x80"), "\"" LOST LOST "\"");
    assert_written(SLICE_LITERAL("\xed\xa0\x80"), "\"" LOST LOST LOST "\"");
    assert_written(SLICE_LITERAL("\xf4\x90\x80\x80"), "\"" LOST LOST LOST LOST "\"");
    assert_written(SLICE_LITERAL("\xc3\xa9\xc3"), "\"\xc3\xa9" LOST "\"");
    assert_written(SLICE_LITERAL("\xe2\x82"), "\"" LOST LOST "\"");
    assert_written(SLICE_LITERAL("\xf0\x9f\x98\""), "\"" LOST LOST LOST "\\\"\"");
}

static void it_appends(void **state)
{
    (void)state;
    buf_clear(&out);
    buf_putc(&out, '[');
    json_write_string(&out, SLICE_LITERAL("a"));
    buf_putc(&out, ',');
    json_write_bool(&out, true);
    buf_putc(&out, ',');
    json_write_bool(&out, false);
    assert_true(slice_is(buf_slice(&out), "[\"a\",true,false"));
}

static void uuids_and_times(void **state)
{
    struct uuid u;
    (void)state;
    assert_true(uuid_parse(SLICE_LITERAL("0195f3c2-7b1a-7e50-9f4e-00deadbeef01"), &u));
    buf_free(&out); /* grows from nothing */
    json_write_uuid(&out, &u);
    json_write_time(&out, INT64_C(1796096400123456));
    assert_true(slice_is(buf_slice(&out), "\"0195f3c2-7b1a-7e50-9f4e-00deadbeef01\""
                                          "\"2026-12-01T03:40:00.123456Z\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes),
        cmocka_unit_test(every_ascii_byte_reads_back),
        cmocka_unit_test(invalid_utf8_is_replaced),
        cmocka_unit_test(it_appends),
        cmocka_unit_test(uuids_and_times),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    buf_free(&out);
    return failed;
}
