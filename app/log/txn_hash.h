/* The hash of a transaction id: XXH3 128-bit, seed 0, over the decoded UTF-8 bytes, canonical
 * big-endian (contract 1, section 1.4; seed "Ack internals"). */
#ifndef LOG_TXN_HASH_H
#define LOG_TXN_HASH_H

#include "base/slice.h"

#include <stdint.h>

#define TXN_HASH_SIZE 16

struct txn_hash {
    uint8_t bytes[TXN_HASH_SIZE];
};

struct txn_hash txn_hash_of(struct slice transaction_id);

/* Order by bytes; for qsort and the fingerprint. */
int txn_hash_compare(const void *a, const void *b);

/* The fingerprint of a set of hashes: XXH3-128 over the sorted distinct hashes plus their count
 * (design, section 3). Sorts and deduplicates `hashes` in place; *distinct is the count. */
struct txn_hash txn_hash_fingerprint(struct txn_hash *hashes, size_t count, size_t *distinct);

#endif
