/* The hash of a transaction id against values of xxhsum -H2 (Debian package xxhash, an independent
 * program), and the fingerprint of a set. */
#include "log/txn_hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void assert_hash(struct slice text, const char *expected)
{
    struct txn_hash h = txn_hash_of(text);
    char hex[2 * TXN_HASH_SIZE + 1];
    for (size_t i = 0; i < TXN_HASH_SIZE; i++)
        (void)sprintf(hex + 2 * i, "%02x", h.bytes[i]);
    assert_string_equal(hex, expected);
}

/* "abc...zabc...": the lengths are the borders between the branches of XXH3. */
static void known_values_by_length(void **state)
{
    static const struct {
        size_t n;
        const char *hash;
    } cases[] = {
        {0, "99aa06d3014798d86001c324468d497f"},       {1, "a96faf705af16834e6c632b61e964e1f"},
        {2, "89c65ebc828eebaca873719c24d5735c"},       {3, "06b05ab6733a618578af5f94892f3950"},
        {4, "8d6b60383dfa90c21be79eecd1b1353d"},       {8, "dac23237af37353342b702b313880f12"},
        {9, "b43ff5bc5ff2e0adc0646b2d7986db98"},       {16, "1f58fc809b1b8c4b3e8e153ff12f6330"},
        {17, "11078c38a5ca3a8dc3acc9940596efab"},      {32, "994adea69fcbdd34a23a960186bd9b0a"},
        {36, "a5f349ff3a7ed9771e579701de6b3d0c"},      {64, "86507989b442d8af536c5fe53823be9f"},
        {65, "3189d73dceeb08cdc64dc8aa0e698717"},      {128, "a87f157ac617df254c5499b1fc6dae1e"},
        {129, "8ebb4a9854af5bc41ac468f67a442b6a"},     {192, "bf9a99e8cf626efb97ae9d8ea178b295"},
        {240, "ee81fc0343b09d3079750202eaee16bc"},     {241, "4c1a7e587365bd1ebb0a906af5b5c211"},
        {512, "d9820b18686c22e6169887a206a45c62"},     {1024, "a0e8f48f4e7973c45e6a406e127165a8"},
        {1025, "3cfd5791794dbdf7c180534771fac3f5"},    {65535, "76a629da54244b3dc9ece5ac456d0173"},
        {1000000, "76238a5511d6dbb5c117d8051e77a70d"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = malloc(cases[i].n == 0 ? 1 : cases[i].n);
        assert_non_null(text);
        for (size_t k = 0; k < cases[i].n; k++)
            text[k] = (char)('a' + k % 26);
        assert_hash((struct slice){text, cases[i].n}, cases[i].hash);
        free(text);
    }
}

static void known_values_by_content(void **state)
{
    (void)state;
    assert_hash((struct slice){NULL, 0}, "99aa06d3014798d86001c324468d497f");
    assert_hash(SLICE_LITERAL("a\0b"), "39797789ed4c7ea0d5a06cd078125351");
    assert_hash(SLICE_LITERAL("\xc3\xa9t\xc3\xa9"), "0c9de9dcd5d4f1fc12691c6f699fafe8");
    assert_hash(SLICE_LITERAL("0195f3c2-7b1a-7e50-9f4e-00deadbeef01"),
                "0b6087b8f7e6aa6f85a6a987296aea90");
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    assert_hash((struct slice){all, sizeof all}, "f1f8a93f50849ac39408a4433b952d71");
}

static void order_is_by_bytes(void **state)
{
    struct txn_hash a = {{0}}, b = {{0}};
    (void)state;
    assert_int_equal(txn_hash_compare(&a, &b), 0);
    b.bytes[15] = 1;
    assert_true(txn_hash_compare(&a, &b) < 0);
    a.bytes[0] = 0x80; /* unsigned */
    assert_true(txn_hash_compare(&a, &b) > 0);
}

enum { SET_MAX = 300 };

static struct txn_hash print_of(const char *const *ids, size_t count, size_t *distinct)
{
    struct txn_hash hashes[SET_MAX];
    for (size_t i = 0; i < count; i++)
        hashes[i] = txn_hash_of(slice_of(ids[i]));
    return txn_hash_fingerprint(hashes, count, distinct);
}

static void assert_same(struct txn_hash a, struct txn_hash b, bool same)
{
    assert_int_equal(memcmp(&a, &b, sizeof a) == 0, same);
}

static void the_fingerprint_is_of_the_set(void **state)
{
    static const char *const abc[] = {"a", "b", "c"}, *const cab[] = {"c", "a", "b"},
                             *const doubled[] = {"b", "c", "a", "b", "b", "c"},
                             *const abd[] = {"a", "b", "d"};
    size_t n;
    (void)state;
    struct txn_hash whole = print_of(abc, 3, &n);
    assert_int_equal(n, 3);
    assert_same(whole, print_of(cab, 3, &n), true);
    assert_same(whole, print_of(doubled, 6, &n), true);
    assert_int_equal(n, 3);
    assert_same(whole, print_of(abd, 3, &n), false);
    assert_same(whole, print_of(abc, 2, &n), false); /* a subset */
    assert_int_equal(n, 2);
    struct txn_hash none = print_of(abc, 0, &n);
    assert_int_equal(n, 0);
    assert_same(none, print_of(abc, 1, &n), false);
    assert_int_equal(n, 1);
    assert_same(none, txn_hash_fingerprint(NULL, 0, &n), true);
}

/* The count takes part: the fingerprint is not just the hash of the sorted hashes. */
static void the_fingerprint_holds_the_count(void **state)
{
    struct txn_hash hashes[2] = {{{0}}, {{1}}};
    size_t n;
    (void)state;
    struct txn_hash plain = txn_hash_of((struct slice){(char *)hashes, sizeof hashes});
    assert_same(txn_hash_fingerprint(hashes, 2, &n), plain, false);
}

static void the_hashes_end_up_sorted_and_distinct(void **state)
{
    struct txn_hash hashes[SET_MAX], first[SET_MAX];
    uint32_t seed = 1;
    size_t n, again;
    (void)state;
    for (size_t i = 0; i < SET_MAX; i++) {
        char id[16];
        seed = seed * 1664525u + 1013904223u;
        (void)sprintf(id, "id-%u", seed >> 16 & 127);
        hashes[i] = txn_hash_of(slice_of(id));
    }
    struct txn_hash print = txn_hash_fingerprint(hashes, SET_MAX, &n);
    assert_true(n > 64 && n <= 128);
    for (size_t i = 1; i < n; i++)
        assert_true(txn_hash_compare(&hashes[i - 1], &hashes[i]) < 0);
    /* Backwards and with every one twice it is the same set. */
    for (size_t i = 0; i < n; i++)
        first[i] = first[2 * n - 1 - i] = hashes[n - 1 - i];
    assert_same(txn_hash_fingerprint(first, 2 * n, &again), print, true);
    assert_int_equal(again, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values_by_length),
        cmocka_unit_test(known_values_by_content),
        cmocka_unit_test(order_is_by_bytes),
        cmocka_unit_test(the_fingerprint_is_of_the_set),
        cmocka_unit_test(the_fingerprint_holds_the_count),
        cmocka_unit_test(the_hashes_end_up_sorted_and_distinct),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
