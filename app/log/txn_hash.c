/* The hash of a transaction id, and the fingerprint of a set of them. */
#include "log/txn_hash.h"

#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static struct txn_hash txn_hash_canonical(XXH128_hash_t h)
{
    struct txn_hash out;
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, h);
    memcpy(out.bytes, canonical.digest, sizeof out.bytes);
    return out;
}

struct txn_hash txn_hash_of(struct slice transaction_id)
{
    return txn_hash_canonical(
        XXH3_128bits(transaction_id.n > 0 ? transaction_id.p : "", transaction_id.n));
}

int txn_hash_compare(const void *a, const void *b)
{
    return memcmp(a, b, TXN_HASH_SIZE);
}

struct txn_hash txn_hash_fingerprint(struct txn_hash *hashes, size_t count, size_t *distinct)
{
    size_t n = 0;
    if (count > 1)
        qsort(hashes, count, sizeof *hashes, txn_hash_compare);
    for (size_t i = 0; i < count; i++)
        if (n == 0 || memcmp(&hashes[n - 1], &hashes[i], sizeof *hashes) != 0)
            hashes[n++] = hashes[i];
    *distinct = n;
    return txn_hash_canonical(
        XXH3_128bits_withSeed(n > 0 ? (const void *)hashes : "", n * sizeof *hashes, n));
}
