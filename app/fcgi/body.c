/* Request bodies: length, reading, throwing away. */
#include "fcgi/body.h"

enum {
    BODY_DRAIN_STEP = 16384,
    /* A peer that goes on beyond this is not nginx keeping to any sensible limit: hang up. */
    BODY_DRAIN_MAX = 256 << 20,
};

bool body_length_parse(struct slice text, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < text.n; i++) {
        unsigned digit = (unsigned char)text.p[i] - (unsigned)'0';
        if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *out = value;
    return true;
}

/* libfcgi counts in int. */
static size_t body_get(FCGX_Stream *in, char *p, size_t n)
{
    enum { STEP = 1 << 30 };
    size_t got = 0;
    while (got < n) {
        int want = n - got > STEP ? STEP : (int)(n - got);
        int m = FCGX_GetStr(p + got, want, in);
        got += (size_t)m;
        if (m < want)
            break;
    }
    return got;
}

enum io_result body_read(struct channel *c)
{
    struct buf *body = &c->request.body;
    size_t n = (size_t)c->request.head.content_length;
    char extra;
    if (n > 0) {
        *body = (struct buf){.p = mem_alloc(n), .cap = n};
        body->n = body_get(c->fcgi.in, body->p, n);
    }
    if (body->n == n && FCGX_GetStr(&extra, 1, c->fcgi.in) == 1)
        return IO_LONG;
    if (FCGX_GetError(c->fcgi.in) != 0)
        return IO_DEAD;
    return body->n == n ? IO_DONE : IO_SHORT;
}

enum io_result body_drain(struct channel *c)
{
    char bin[BODY_DRAIN_STEP];
    for (size_t drained = 0; drained < BODY_DRAIN_MAX; drained += sizeof bin)
        if (FCGX_GetStr(bin, sizeof bin, c->fcgi.in) < (int)sizeof bin)
            return FCGX_GetError(c->fcgi.in) == 0 ? IO_DONE : IO_DEAD;
    return IO_LONG;
}
