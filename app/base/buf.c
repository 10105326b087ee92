/* A growable byte buffer. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void buf_free(struct buf *b)
{
    free(b->p);
    *b = (struct buf){0};
}

void buf_reserve(struct buf *b, size_t more)
{
    if (more <= b->cap - b->n)
        return;
    if (more > SIZE_MAX / 2 - b->n)
        die("buffer of %zu + %zu bytes", b->n, more);
    size_t need = b->n + more;
    size_t cap = b->cap < 256 ? 256 : b->cap;
    while (cap < need)
        cap *= 2;
    b->p = mem_realloc(b->p, cap);
    b->cap = cap;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n > 0) {
        buf_reserve(b, (size_t)n + 1);
        (void)vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
}

void buf_put_int(struct buf *b, int64_t value)
{
    char digits[20];
    size_t i = sizeof digits;
    uint64_t u = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[--i] = (char)('0' + u % 10);
        u /= 10;
    } while (u != 0);
    if (value < 0)
        buf_putc(b, '-');
    buf_put(b, digits + i, sizeof digits - i);
}
