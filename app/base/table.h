/* A hash table of nodes embedded in their owners: the table owns no object, only its bucket array.
 * Keys are compared by the caller's function; hash with table_hash(). One thread only. */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include "base/slice.h"

#include <stdint.h>

struct table_node {
    struct table_node *next;
    uint64_t hash;
};

struct table {
    struct table_node **buckets;
    size_t bucket_count; /* power of two, 0 before the first insert */
    size_t count;
    bool (*equal)(const struct table_node *node, const void *key);
};

/* Zero-initialise and set `equal` to start. Frees the buckets only. */
void table_free(struct table *t);

struct table_node *table_find(const struct table *t, uint64_t hash, const void *key);
/* The caller has checked that the key is not there; node->hash is set from `hash`. */
void table_insert(struct table *t, struct table_node *node, uint64_t hash);
void table_remove(struct table *t, struct table_node *node);

/* XXH3-64 of a followed by b, with a's length mixed in, so that ("a","bc") differs from ("ab","c").
 * The same in every process of the product: hashes travel in shared memory and FIFOs. */
uint64_t table_hash(struct slice a, struct slice b);

#define TABLE_OWNER(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

#endif
