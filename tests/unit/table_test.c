/* The hash table of embedded nodes, and the hash that travels between processes. */
#include "base/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

struct item {
    int before; /* the node need not come first */
    struct table_node node;
    int key;
};

static bool item_equal(const struct table_node *node, const void *key)
{
    return TABLE_OWNER(node, const struct item, node)->key == *(const int *)key;
}

enum { COUNT = 20000 };

static struct item items[COUNT];

static struct item *find(const struct table *t, uint64_t hash, int key)
{
    struct table_node *n = table_find(t, hash, &key);
    return n == NULL ? NULL : TABLE_OWNER(n, struct item, node);
}

static uint64_t mixed(int key)
{
    return table_hash((struct slice){(const char *)&key, sizeof key}, SLICE_LITERAL(""));
}

/* Every third key shares a hash with its neighbours: chains of equal hashes. */
static uint64_t coarse(int key)
{
    return mixed(key / 3);
}

/* All in one chain. */
static uint64_t constant(int key)
{
    (void)key;
    return 42;
}

static void work_through(uint64_t (*hash)(int), int count)
{
    struct table t = {.equal = item_equal};
    assert_null(find(&t, hash(0), 0)); /* before the first insert */
    for (int i = 0; i < count; i++) {
        items[i].key = i;
        table_insert(&t, &items[i].node, hash(i));
        assert_ptr_equal(find(&t, hash(i), i), &items[i]);
    }
    assert_int_equal(t.count, count);
    for (int i = 0; i < count; i++)
        assert_ptr_equal(find(&t, hash(i), i), &items[i]);
    assert_null(find(&t, hash(count), count));
    for (int i = 0; i < count; i += 2)
        table_remove(&t, &items[i].node);
    assert_int_equal(t.count, count / 2);
    for (int i = 0; i < count; i++)
        assert_ptr_equal(find(&t, hash(i), i), i % 2 == 0 ? NULL : &items[i]);
    for (int i = count - 2; i >= 0; i -= 2)
        table_insert(&t, &items[i].node, hash(i));
    for (int i = 0; i < count; i++)
        table_remove(&t, &items[i].node);
    assert_int_equal(t.count, 0);
    assert_null(find(&t, hash(1), 1));
    table_free(&t);
    table_free(&t);
    table_insert(&t, &items[0].node, hash(0)); /* usable again */
    assert_ptr_equal(find(&t, hash(0), 0), &items[0]);
    table_free(&t);
}

static void inserting_finding_removing(void **state)
{
    (void)state;
    work_through(mixed, COUNT);
    work_through(coarse, COUNT);
    work_through(constant, 1000);
}

static uint64_t hash_of(const char *a, const char *b)
{
    return table_hash(slice_of(a), slice_of(b));
}

static void the_hash_keeps_its_parts_apart(void **state)
{
    (void)state;
    assert_true(hash_of("a", "bc") != hash_of("ab", "c"));
    assert_true(hash_of("abc", "") != hash_of("", "abc"));
    assert_true(hash_of("a", "b") != hash_of("b", "a"));
    assert_true(hash_of("", "") != hash_of("", "a"));
    assert_true(hash_of("a", "b") == hash_of("a", "b"));
    assert_true(table_hash((struct slice){NULL, 0}, (struct slice){NULL, 0}) == hash_of("", ""));
}

/* Hashes lie in shared memory and FIFOs: another value is another layout version. */
static void the_hash_is_the_same_in_every_build(void **state)
{
    (void)state;
    assert_true(hash_of("", "") == UINT64_C(0x412f1275e10017f3));
    assert_true(hash_of("queue", "partition") == UINT64_C(0xac7ed03c3d7cd29d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inserting_finding_removing),
        cmocka_unit_test(the_hash_keeps_its_parts_apart),
        cmocka_unit_test(the_hash_is_the_same_in_every_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
