/* A growable byte buffer: request bodies, responses, segments. Zero-initialise to start empty;
 * buf_free() releases. Growth dies on out of memory, so appending cannot fail: whoever appends
 * data from outside checks its length against a limit first. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/err.h"
#include "base/slice.h"

#include <stdint.h>

struct buf {
    char *p;    /* owned, from mem_alloc */
    size_t n;   /* bytes in use */
    size_t cap; /* bytes allocated */
};

void buf_free(struct buf *b);

/* Makes room for `more` further bytes; afterwards p[n .. n+more) may be written directly. */
void buf_reserve(struct buf *b, size_t more);

/* Forgets the content, keeps the memory. */
static inline void buf_clear(struct buf *b)
{
    b->n = 0;
}

static inline struct slice buf_slice(const struct buf *b)
{
    return (struct slice){b->p, b->n};
}

static inline void buf_put(struct buf *b, const void *data, size_t n)
{
    if (n == 0)
        return;
    buf_reserve(b, n);
    memcpy(b->p + b->n, data, n);
    b->n += n;
}

static inline void buf_put_slice(struct buf *b, struct slice s)
{
    buf_put(b, s.p, s.n);
}

static inline void buf_putc(struct buf *b, char c)
{
    buf_reserve(b, 1);
    b->p[b->n++] = c;
}

#define BUF_PUT_LITERAL(b, s) buf_put((b), (s), sizeof(s) - 1)

void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3) __attribute__((nonnull(2)));

/* Decimal digits, without printf. */
void buf_put_int(struct buf *b, int64_t value);

#endif
