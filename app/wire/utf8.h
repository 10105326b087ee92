/* UTF-8 validity (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF). */
#ifndef WIRE_UTF8_H
#define WIRE_UTF8_H

#include "base/slice.h"

/* Bytes of the well-formed sequence at p (1 to 4), or 0 when there is none within n bytes. */
size_t utf8_sequence(const char *p, size_t n);

bool utf8_valid(struct slice text);

#endif
