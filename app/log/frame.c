/* One message inside a segment: writing and reading its bytes. */
#include "log/frame.h"

enum { FRAME_KNOWN = FRAME_TRACE | FRAME_PRODUCER | FRAME_ENCRYPTED };

static void frame_put_le(struct buf *out, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        out->p[out->n++] = (char)(v >> (8 * i) & 0xff);
}

void frame_append(struct buf *out, const struct frame *f)
{
    size_t body = FRAME_MIN_BODY + f->transaction_id.n + f->payload.n;
    if (f->flags & FRAME_TRACE)
        body += sizeof f->trace_id.bytes;
    if (f->flags & FRAME_PRODUCER)
        body += 2 + f->producer_sub.n;
    if (body > UINT32_MAX || f->transaction_id.n > UINT16_MAX || f->producer_sub.n > UINT16_MAX)
        die("frame of %zu bytes", body);
    buf_reserve(out, 4 + body);
    frame_put_le(out, body, 4);
    frame_put_le(out, f->flags, 1);
    buf_put(out, f->message_id.bytes, sizeof f->message_id.bytes);
    if (f->flags & FRAME_TRACE)
        buf_put(out, f->trace_id.bytes, sizeof f->trace_id.bytes);
    frame_put_le(out, f->transaction_id.n, 2);
    buf_put_slice(out, f->transaction_id);
    if (f->flags & FRAME_PRODUCER) {
        frame_put_le(out, f->producer_sub.n, 2);
        buf_put_slice(out, f->producer_sub);
    }
    buf_put_slice(out, f->payload);
}

struct frame_reader {
    const unsigned char *p, *end;
};

static bool frame_take(struct frame_reader *r, size_t n, const unsigned char **out)
{
    if ((size_t)(r->end - r->p) < n)
        return false;
    *out = r->p;
    r->p += n;
    return true;
}

static bool frame_take_slice(struct frame_reader *r, struct slice *out)
{
    const unsigned char *length, *bytes;
    if (!frame_take(r, 2, &length))
        return false;
    size_t n = (size_t)length[0] | (size_t)length[1] << 8;
    if (!frame_take(r, n, &bytes))
        return false;
    *out = (struct slice){(const char *)bytes, n};
    return true;
}

bool frame_read(struct slice frames, size_t *at, struct frame *out)
{
    if (*at >= frames.n)
        return false;
    struct frame_reader r = {(const unsigned char *)frames.p + *at,
                             (const unsigned char *)frames.p + frames.n};
    const unsigned char *p;
    if (!frame_take(&r, 4, &p))
        return false;
    size_t body = (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
    if (body < FRAME_MIN_BODY || body > (size_t)(r.end - r.p))
        return false;
    r.end = r.p + body;
    *out = (struct frame){0};
    if (!frame_take(&r, 1, &p))
        return false;
    out->flags = *p;
    if (out->flags & ~FRAME_KNOWN || !frame_take(&r, sizeof out->message_id.bytes, &p))
        return false;
    memcpy(out->message_id.bytes, p, sizeof out->message_id.bytes);
    if (out->flags & FRAME_TRACE) {
        if (!frame_take(&r, sizeof out->trace_id.bytes, &p))
            return false;
        memcpy(out->trace_id.bytes, p, sizeof out->trace_id.bytes);
    }
    if (!frame_take_slice(&r, &out->transaction_id))
        return false;
    if (out->flags & FRAME_PRODUCER && !frame_take_slice(&r, &out->producer_sub))
        return false;
    out->payload = (struct slice){(const char *)r.p, (size_t)(r.end - r.p)};
    *at += 4 + body;
    return true;
}
