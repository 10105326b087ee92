/* One message inside a segment.
 *
 * Layout, little-endian (data-plane detail, section 8.1):
 *   u32 body length | u8 flags | 16 B message id | [16 B trace id, flags & 1]
 *   | u16 transaction id length | transaction id | [u16 length | producer sub, flags & 2] | payload
 * The body length counts from the flags byte. flags & 4: the payload is an encryption envelope. */
#ifndef LOG_FRAME_H
#define LOG_FRAME_H

#include "base/buf.h"
#include "base/uuid.h"

enum { FRAME_TRACE = 1, FRAME_PRODUCER = 2, FRAME_ENCRYPTED = 4 };

#define FRAME_MIN_BODY           19
#define FRAME_MAX_TRANSACTION_ID 65535

struct frame {
    struct uuid message_id;
    struct uuid trace_id; /* only with FRAME_TRACE */
    uint8_t flags;
    struct slice transaction_id; /* at most FRAME_MAX_TRANSACTION_ID bytes; checked at the edge */
    struct slice producer_sub;   /* only with FRAME_PRODUCER */
    struct slice payload;        /* JSON bytes as they were sent */
};

/* Appends the frame. Dies when a length does not fit its field: the edge checks first. */
void frame_append(struct buf *out, const struct frame *f);

/* Reads the frame at *at and moves *at behind it. The slices point into `frames`. False when the
 * bytes are not a frame: short body, overrun, unknown flag. */
MUST_CHECK bool frame_read(struct slice frames, size_t *at, struct frame *out);

#endif
