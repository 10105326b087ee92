/* Segments: frames compressed together with zstd. */
#include "log/segment.h"

#include <stdlib.h>
#include <zstd.h>

struct segment_packer {
    ZSTD_CCtx *context; /* keeps its memory, level and flags from one segment to the next */
};

struct segment_packer *segment_packer_new(int zstd_level)
{
    struct segment_packer *p = mem_zalloc(sizeof *p);
    p->context = ZSTD_createCCtx();
    if (p->context == NULL)
        die("out of memory: zstd compression context");
    /* zstd clamps the level itself. The checksum is what finds a flipped bit inside literals. */
    if (ZSTD_isError(ZSTD_CCtx_setParameter(p->context, ZSTD_c_compressionLevel, zstd_level)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(p->context, ZSTD_c_checksumFlag, 1)))
        die("zstd refuses compression level %d", zstd_level);
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
    size_t n = ZSTD_compress2(p->context, out->p + out->n, bound, frames.p, frames.n);
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

/* A blob of which some frame does not say its size grows the output step by step, to the limit. */
static bool segment_unpack_stream(struct segment_unpacker *u, struct slice blob, struct buf *out,
                                  struct err *err)
{
    ZSTD_inBuffer in = {blob.p, blob.n, 0};
    size_t left = 1;
    (void)ZSTD_DCtx_reset(u->context, ZSTD_reset_session_only);
    while (left != 0 || in.pos < in.size) {
        size_t room = SEGMENT_MAX_BYTES - out->n, step = ZSTD_DStreamOutSize();
        buf_reserve(out, room < step ? room : step);
        ZSTD_outBuffer to = {out->p, out->cap < SEGMENT_MAX_BYTES ? out->cap : SEGMENT_MAX_BYTES,
                             out->n};
        size_t consumed = in.pos;
        left = ZSTD_decompressStream(u->context, &to, &in);
        if (ZSTD_isError(left))
            return err_set(err, "segment is corrupt: %s", ZSTD_getErrorName(left));
        bool stuck = to.pos == out->n && in.pos == consumed;
        out->n = to.pos;
        if (stuck && room == 0)
            return err_set(err, "segment expands beyond %u bytes", SEGMENT_MAX_BYTES);
        if (stuck)
            return err_set(err, "segment is cut short");
    }
    return true;
}

/* One zstd frame at the start of the blob: its length, and the size that it claims. */
static bool segment_measure(struct slice blob, size_t *length, unsigned long long *content,
                            struct err *err)
{
    static const unsigned char magic[] = {0x28, 0xb5, 0x2f, 0xfd};
    /* zstd would read a skippable frame as no data. */
    if (blob.n < sizeof magic || memcmp(blob.p, magic, sizeof magic) != 0)
        return err_set(err, "segment is not a zstd frame");
    *length = ZSTD_findFrameCompressedSize(blob.p, blob.n);
    *content = ZSTD_getFrameContentSize(blob.p, blob.n);
    if (ZSTD_isError(*length))
        return err_set(err, "segment is corrupt: %s", ZSTD_getErrorName(*length));
    if (*content == ZSTD_CONTENTSIZE_ERROR)
        return err_set(err, "segment is not a zstd frame");
    /* A block has a header of three bytes and expands to at most ZSTD_BLOCKSIZE_MAX: a claim beyond
     * that is a lie, found before memory is reserved for it. */
    if (*content != ZSTD_CONTENTSIZE_UNKNOWN && *content / ZSTD_BLOCKSIZE_MAX > *length / 3)
        return err_set(err, "segment of %zu bytes claims to hold %llu", *length, *content);
    return true;
}

/* Adds up what the blob's zstd frames claim; *known is false when one of them does not say it. */
static bool segment_size(struct slice blob, size_t *size, bool *known, struct err *err)
{
    *size = 0;
    *known = true;
    do {
        size_t length = 0;
        unsigned long long content = 0;
        if (!segment_measure(blob, &length, &content, err))
            return false;
        if (content == ZSTD_CONTENTSIZE_UNKNOWN)
            *known = false;
        else if (content > SEGMENT_MAX_BYTES - *size)
            return err_set(err, "segment claims more than %u bytes", SEGMENT_MAX_BYTES);
        else
            *size += (size_t)content;
        blob = (struct slice){blob.p + length, blob.n - length};
    } while (blob.n > 0);
    return true;
}

bool segment_unpack(struct segment_unpacker *u, struct slice blob, struct buf *out, struct err *err)
{
    size_t size;
    bool known;
    buf_clear(out);
    if (!segment_size(blob, &size, &known, err))
        return false;
    if (!known)
        return segment_unpack_stream(u, blob, out, err);
    buf_reserve(out, size);
    size_t n = ZSTD_decompressDCtx(u->context, out->p, size, blob.p, blob.n);
    if (ZSTD_isError(n))
        return err_set(err, "segment is corrupt: %s", ZSTD_getErrorName(n));
    out->n = n;
    return true;
}

bool segment_read_frame(struct segment_unpacker *u, struct slice blob, int64_t index,
                        struct buf *scratch, struct frame *frame, struct err *err)
{
    size_t at = 0;
    if (!segment_unpack(u, blob, scratch, err))
        return false;
    for (int64_t i = 0; i <= index; i++)
        if (!frame_read(buf_slice(scratch), &at, frame))
            return err_set(err, "frame %lld of a segment cannot be read", (long long)i);
    return index >= 0 || err_set(err, "a segment has no frame %lld", (long long)index);
}
