/* Segments: frames compressed together with zstd. */
#include "log/segment.h"

#include <stdlib.h>
#include <zstd.h>

struct segment_packer {
    ZSTD_CCtx *context;
    int level;
};

struct segment_packer *segment_packer_new(int zstd_level)
{
    struct segment_packer *p = mem_zalloc(sizeof *p);
    p->context = ZSTD_createCCtx();
    if (p->context == NULL)
        die("out of memory: zstd compression context");
    p->level = zstd_level;
    return p;
}

void segment_packer_free(struct segment_packer *p)
{
    if (p == NULL)
        return;
    (void)ZSTD_freeCCtx(p->context);
    free(p);
}

void segment_pack(struct segment_packer *p, struct slice frames, struct buf *out)
{
    size_t bound = ZSTD_compressBound(frames.n);
    buf_reserve(out, bound);
    size_t n = ZSTD_compressCCtx(p->context, out->p + out->n, bound, frames.p, frames.n, p->level);
    if (ZSTD_isError(n))
        die("zstd cannot compress %zu bytes: %s", frames.n, ZSTD_getErrorName(n));
    out->n += n;
}

struct segment_unpacker {
    ZSTD_DCtx *context;
};

struct segment_unpacker *segment_unpacker_new(void)
{
    struct segment_unpacker *u = mem_zalloc(sizeof *u);
    u->context = ZSTD_createDCtx();
    if (u->context == NULL)
        die("out of memory: zstd decompression context");
    return u;
}

void segment_unpacker_free(struct segment_unpacker *u)
{
    if (u == NULL)
        return;
    (void)ZSTD_freeDCtx(u->context);
    free(u);
}

/* A blob that does not say its size grows the output step by step, up to the limit. */
static bool segment_unpack_stream(struct segment_unpacker *u, struct slice blob, struct buf *out,
                                  struct err *err)
{
    ZSTD_inBuffer in = {blob.p, blob.n, 0};
    size_t left = 1;
    (void)ZSTD_DCtx_reset(u->context, ZSTD_reset_session_only);
    while (left != 0) {
        buf_reserve(out, ZSTD_DStreamOutSize());
        ZSTD_outBuffer to = {out->p, out->cap, out->n};
        size_t before = out->n, consumed = in.pos;
        left = ZSTD_decompressStream(u->context, &to, &in);
        if (ZSTD_isError(left))
            return err_set(err, "segment is corrupt: %s", ZSTD_getErrorName(left));
        out->n = to.pos;
        if (out->n > SEGMENT_MAX_BYTES)
            return err_set(err, "segment expands beyond %u bytes", SEGMENT_MAX_BYTES);
        if (left != 0 && out->n == before && in.pos == consumed)
            return err_set(err, "segment is cut short");
    }
    return in.pos == in.size || err_set(err, "bytes after the end of the segment");
}

bool segment_unpack(struct segment_unpacker *u, struct slice blob, struct buf *out, struct err *err)
{
    buf_clear(out);
    unsigned long long size = ZSTD_getFrameContentSize(blob.p, blob.n);
    if (size == ZSTD_CONTENTSIZE_ERROR)
        return err_set(err, "segment is not a zstd frame");
    if (size == ZSTD_CONTENTSIZE_UNKNOWN)
        return segment_unpack_stream(u, blob, out, err);
    if (size > SEGMENT_MAX_BYTES)
        return err_set(err, "segment claims %llu bytes, the limit is %u", size, SEGMENT_MAX_BYTES);
    buf_reserve(out, (size_t)size);
    size_t n = ZSTD_decompressDCtx(u->context, out->p, (size_t)size, blob.p, blob.n);
    if (ZSTD_isError(n))
        return err_set(err, "segment is corrupt: %s", ZSTD_getErrorName(n));
    out->n = n;
    return true;
}
