/* UUIDs: version 7 minting, text form, parsing (RFC 9562). */
#ifndef BASE_UUID_H
#define BASE_UUID_H

#include "base/err.h"
#include "base/slice.h"

#include <stdint.h>

struct uuid {
    uint8_t bytes[16]; /* network order, as PostgreSQL's uuid in binary */
};

#define UUID_TEXT_SIZE 36 /* without NUL */

/* Mints a version 7 UUID: 48 bits of wall-clock milliseconds, then 74 random bits from a
 * per-process generator seeded with getrandom(2); lease ids are bearer tokens, so the random part
 * must not be guessable. Not for use by several threads at once. */
struct uuid uuid_v7(void);

/* Lower case, dashes, no NUL: exactly UUID_TEXT_SIZE bytes. */
void uuid_format(const struct uuid *u, char out[UUID_TEXT_SIZE]);

/* Accepts only the 36-character dashed form, either letter case. */
MUST_CHECK bool uuid_parse(struct slice text, struct uuid *out);

static inline bool uuid_equal(const struct uuid *a, const struct uuid *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

#endif
