/* Hexadecimal text, as PostgreSQL's encode() writes it. */
#ifndef WIRE_HEX_H
#define WIRE_HEX_H

#include "base/err.h"
#include "base/slice.h"

#include <stdint.h>

/* Writes text.n / 2 bytes. Either letter case; false on an odd length or another character. */
MUST_CHECK bool hex_decode(struct slice text, uint8_t *out);

#endif
