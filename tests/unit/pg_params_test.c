/* Binary parameters, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pg/params.h"

static void check(const struct pg_params *p, int index, const void *bytes, size_t n)
{
    assert_true(index < p->count);
    assert_int_equal(p->length[index], (int)n);
    assert_memory_equal(p->bytes.p + p->offset[index], bytes, n);
}

#define CHECK(p, index, literal) check(p, index, literal, sizeof(literal) - 1)

static void scalars(void **state)
{
    (void)state;
    struct pg_params p = {0};
    struct uuid u = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255}};
    pg_param_bool(&p, true);
    pg_param_bool(&p, false);
    pg_param_int4(&p, -2);
    pg_param_int8(&p, INT64_MIN + 1);
    pg_param_text(&p, SLICE_LITERAL("h\xc3\xa9"));
    pg_param_text(&p, (struct slice){NULL, 0});
    pg_param_bytea(&p, SLICE_LITERAL("\0\xff"));
    pg_param_null(&p);
    pg_param_uuid(&p, &u);
    assert_int_equal(p.count, 9);
    CHECK(&p, 0, "\1");
    CHECK(&p, 1, "\0");
    CHECK(&p, 2, "\xff\xff\xff\xfe");
    CHECK(&p, 3, "\x80\0\0\0\0\0\0\1");
    CHECK(&p, 4, "h\xc3\xa9");
    assert_int_equal(p.length[5], 0);
    CHECK(&p, 6, "\0\xff");
    assert_int_equal(p.length[7], -1);
    CHECK(&p, 8, "\0\1\2\3\4\5\6\7\x8\x9\xa\xb\xc\xd\xe\xff");
    pg_params_clear(&p);
    assert_int_equal(p.count, 0);
    pg_param_int4(&p, 1);
    CHECK(&p, 0, "\0\0\0\1");
    pg_params_free(&p);
}

static void arrays(void **state)
{
    (void)state;
    struct pg_params p = {0};
    struct uuid u = {{0xaa, 0xbb}};
    pg_param_bool(&p, true); /* arrays need not start at the buffer's start */
    pg_array_begin(&p, PG_INT4);
    pg_array_int4(&p, 1);
    pg_array_int4(&p, -1);
    pg_array_end(&p);
    pg_array_begin(&p, PG_INT8);
    pg_array_int8(&p, 0x0102030405060708);
    pg_array_end(&p);
    pg_array_begin(&p, PG_TEXT);
    pg_array_bytes(&p, SLICE_LITERAL("ab"));
    pg_array_null(&p);
    pg_array_bytes(&p, SLICE_LITERAL(""));
    pg_array_end(&p);
    pg_array_begin(&p, PG_BOOL);
    pg_array_bool(&p, true);
    pg_array_end(&p);
    pg_array_begin(&p, PG_UUID);
    pg_array_uuid(&p, &u);
    pg_array_end(&p);
    CHECK(&p, 1,
          "\0\0\0\1\0\0\0\0\0\0\0\x17\0\0\0\2\0\0\0\1"
          "\0\0\0\4\0\0\0\1\0\0\0\4\xff\xff\xff\xff");
    CHECK(&p, 2,
          "\0\0\0\1\0\0\0\0\0\0\0\x14\0\0\0\1\0\0\0\1"
          "\0\0\0\x8\1\2\3\4\5\6\7\x8");
    CHECK(&p, 3,
          "\0\0\0\1\0\0\0\1\0\0\0\x19\0\0\0\3\0\0\0\1"
          "\0\0\0\2ab\xff\xff\xff\xff\0\0\0\0");
    CHECK(&p, 4, "\0\0\0\1\0\0\0\0\0\0\0\x10\0\0\0\1\0\0\0\1\0\0\0\1\1");
    CHECK(&p, 5,
          "\0\0\0\1\0\0\0\0\0\0\x0b\x86\0\0\0\1\0\0\0\1\0\0\0\x10"
          "\xaa\xbb\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    pg_params_free(&p);
}

static void empty_array(void **state)
{
    (void)state;
    struct pg_params p = {0};
    pg_array_begin(&p, PG_BYTEA);
    pg_array_end(&p);
    pg_param_int4(&p, 7);
    CHECK(&p, 0, "\0\0\0\0\0\0\0\0\0\0\0\x11");
    CHECK(&p, 1, "\0\0\0\7");
    pg_params_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars),
        cmocka_unit_test(arrays),
        cmocka_unit_test(empty_array),
    };
    return cmocka_run_group_tests_name("pg_params", tests, NULL, NULL);
}
