/* A hash table of embedded nodes, chained, doubling. */
#include "base/table.h"

#include "base/err.h"

#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

void table_free(struct table *t)
{
    free(t->buckets);
    t->buckets = NULL;
    t->bucket_count = t->count = 0;
}

struct table_node *table_find(const struct table *t, uint64_t hash, const void *key)
{
    if (t->bucket_count == 0)
        return NULL;
    struct table_node *n = t->buckets[hash & (t->bucket_count - 1)];
    while (n != NULL && (n->hash != hash || !t->equal(n, key)))
        n = n->next;
    return n;
}

static void table_grow(struct table *t)
{
    size_t count = t->bucket_count == 0 ? 64 : t->bucket_count * 2;
    struct table_node **buckets = mem_zalloc(count * sizeof(struct table_node *));
    for (size_t i = 0; i < t->bucket_count; i++) {
        struct table_node *n = t->buckets[i];
        while (n != NULL) {
            struct table_node *next = n->next;
            n->next = buckets[n->hash & (count - 1)];
            buckets[n->hash & (count - 1)] = n;
            n = next;
        }
    }
    free(t->buckets);
    t->buckets = buckets;
    t->bucket_count = count;
}

void table_insert(struct table *t, struct table_node *node, uint64_t hash)
{
    if (t->count >= t->bucket_count)
        table_grow(t);
    struct table_node **head = &t->buckets[hash & (t->bucket_count - 1)];
    node->hash = hash;
    node->next = *head;
    *head = node;
    t->count++;
}

void table_remove(struct table *t, struct table_node *node)
{
    struct table_node **at = &t->buckets[node->hash & (t->bucket_count - 1)];
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    t->count--;
}

uint64_t table_hash(struct slice a, struct slice b)
{
    XXH64_hash_t first = XXH3_64bits_withSeed(a.p == NULL ? "" : a.p, a.n, a.n);
    return XXH3_64bits_withSeed(b.p == NULL ? "" : b.p, b.n, first);
}
