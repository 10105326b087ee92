/* A run of bytes that somebody else owns. Wire data is never NUL-terminated. */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct slice {
    const char *p; /* may be NULL when n is 0 */
    size_t n;      /* bytes */
};

#define SLICE_LITERAL(s) ((struct slice){(s), sizeof(s) - 1})

/* For strings of our own (settings, literals); never for wire data. */
static inline struct slice slice_of(const char *cstr)
{
    return (struct slice){cstr, strlen(cstr)};
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool slice_is(struct slice a, const char *cstr)
{
    return slice_equal(a, slice_of(cstr));
}

/* For printf("%.*s", SLICE_ARGS(s)); cuts at 512 bytes so that a log or error line stays a line. */
#define SLICE_ARGS(s) ((int)((s).n > 512 ? 512 : (s).n)), ((s).n > 0 ? (s).p : "")

#endif
