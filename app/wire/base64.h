/* Base64 (RFC 4648, section 4: standard alphabet, padded, no line breaks). */
#ifndef WIRE_BASE64_H
#define WIRE_BASE64_H

#include "base/buf.h"

/* Appends the decoded bytes; false, with nothing appended, when the text is not base64. */
MUST_CHECK bool base64_decode(struct slice text, struct buf *out);

/* Appends the text. */
void base64_encode(struct slice bytes, struct buf *out);

#endif
