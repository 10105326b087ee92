/* The arena. */
#include "base/arena.h"
#include "died.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdalign.h>

static void allocations_are_aligned_and_apart(void **state)
{
    enum { COUNT = 3000 };
    static char *at[COUNT];
    static size_t sizes[COUNT];
    struct arena a = {0};
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        sizes[i] = i * 37 % 700 + (i % 500 == 0 ? 10000 : 0);
        at[i] = arena_alloc(&a, sizes[i]);
        assert_non_null(at[i]);
        assert_int_equal((uintptr_t)at[i] % alignof(max_align_t), 0);
        memset(at[i], (int)(i % 256), sizes[i]);
    }
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal((unsigned char)at[i][k], i % 256);
    arena_free(&a);
    assert_true(a.head == NULL && a.next == NULL && a.end == NULL);
}

static void it_can_be_used_again_after_free(void **state)
{
    struct arena a = {0};
    (void)state;
    arena_free(&a); /* of nothing */
    for (int i = 0; i < 3; i++) {
        memset(arena_alloc(&a, 100), 1, 100);
        arena_free(&a);
    }
}

static void arrays_are_zeroed(void **state)
{
    struct arena a = {0};
    (void)state;
    memset(arena_alloc(&a, 2000), 0xff, 2000);
    uint64_t *p = arena_zarray(&a, 1000, sizeof *p);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(p[i], 0);
    assert_non_null(arena_zarray(&a, 0, 8));
    arena_free(&a);
}

static void copies(void **state)
{
    struct arena a = {0};
    char text[] = "a\0b";
    (void)state;
    struct slice s = arena_copy(&a, (struct slice){text, 3});
    char *c = arena_cstr(&a, (struct slice){text, 1});
    text[0] = 'z';
    assert_true(slice_equal(s, SLICE_LITERAL("a\0b")));
    assert_string_equal(c, "a");
    assert_string_equal(arena_cstr(&a, (struct slice){NULL, 0}), "");
    assert_int_equal(arena_copy(&a, (struct slice){NULL, 0}).n, 0);
    /* Sixteen bytes and a NUL do not fit where sixteen did. */
    char many[40], *texts[sizeof many];
    memset(many, 'm', sizeof many);
    for (size_t n = 0; n < sizeof many; n++)
        texts[n] = arena_cstr(&a, (struct slice){many, n});
    for (size_t n = 0; n < sizeof many; n++)
        assert_int_equal(strlen(texts[n]), n);
    arena_free(&a);
}

static void array_that_overflows(void)
{
    struct arena a = {0};
    void *p = arena_zarray(&a, SIZE_MAX / 8 + 2, 8);
    (void)p;
}

static void size_that_overflows(void)
{
    struct arena a = {0};
    void *p = arena_alloc(&a, SIZE_MAX - 4);
    (void)p;
}

static void sizes_that_overflow_die(void **state)
{
    (void)state;
    assert_true(died_in(array_that_overflows));
    assert_true(died_in(size_that_overflows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_aligned_and_apart),
        cmocka_unit_test(it_can_be_used_again_after_free),
        cmocka_unit_test(arrays_are_zeroed),
        cmocka_unit_test(copies),
        cmocka_unit_test(sizes_that_overflow_die),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
