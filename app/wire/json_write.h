/* Writing JSON by hand into one buffer. */
#ifndef WIRE_JSON_WRITE_H
#define WIRE_JSON_WRITE_H

#include "base/buf.h"
#include "base/uuid.h"

/* A quoted, escaped JSON string. Invalid UTF-8 is written as U+FFFD, so that the answer is always
 * valid JSON. */
void json_write_string(struct buf *out, struct slice text);

/* "xxxxxxxx-xxxx-..." with quotes. */
void json_write_uuid(struct buf *out, const struct uuid *u);

/* Quoted ISO time with microseconds and Z. */
void json_write_time(struct buf *out, int64_t wall_us);

static inline void json_write_bool(struct buf *out, bool v)
{
    if (v)
        BUF_PUT_LITERAL(out, "true");
    else
        BUF_PUT_LITERAL(out, "false");
}

#endif
