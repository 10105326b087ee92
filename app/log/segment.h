/* Segments: many frames, zstd-compressed together. */
#ifndef LOG_SEGMENT_H
#define LOG_SEGMENT_H

#include "base/buf.h"
#include "log/frame.h"

/* Largest size of a segment's frames before compression. A push flush is split below it; a stored
 * blob that claims more is not read (a decompression bomb cannot exhaust memory). */
#define SEGMENT_MAX_BYTES (256u * 1024u * 1024u)

/* Compression contexts are expensive to make: one per thread that packs. Never NULL. */
struct segment_packer;
struct segment_packer *segment_packer_new(int zstd_level);
void segment_packer_free(struct segment_packer *p);

/* Compresses concatenated frames (at most SEGMENT_MAX_BYTES) and appends the blob, one zstd frame
 * with content size and checksum, to out. */
void segment_pack(struct segment_packer *p, struct slice frames, struct buf *out);

/* One per thread that unpacks. Never NULL. */
struct segment_unpacker;
struct segment_unpacker *segment_unpacker_new(void);
void segment_unpacker_free(struct segment_unpacker *u);

/* Decompresses a blob into out (cleared first). False with err on corrupt data, on anything beside
 * zstd frames, and on a size above SEGMENT_MAX_BYTES. Accepts zstd frames without content size or
 * checksum, and blobs put together of several (SQL makes one segment of the timers that fire
 * together). */
MUST_CHECK bool segment_unpack(struct segment_unpacker *u, struct slice blob, struct buf *out,
                               struct err *err);

/* Reads frame number `index` of a blob; its slices point into scratch. False with err when the blob
 * or the frame cannot be read. */
MUST_CHECK bool segment_read_frame(struct segment_unpacker *u, struct slice blob, int64_t index,
                                   struct buf *scratch, struct frame *frame, struct err *err);

#endif
