/* Reading request bodies through libfcgi. Private to app/fcgi. */
#ifndef FCGI_BODY_H
#define FCGI_BODY_H

#include "fcgi/channel.h"

/* The value of CONTENT_LENGTH: empty is 0; anything but decimal digits that fit is an error. */
MUST_CHECK bool body_length_parse(struct slice text, uint64_t *out);

/* Reads the announced number of bytes into request.body, and the end of STDIN, which must not stay
 * in the socket: libfcgi would take it for a protocol error of the next request. Blocks unless
 * PREVIEW_WHOLE was seen. IO_DONE, IO_SHORT, IO_LONG (more is there, unread) or IO_DEAD. */
MUST_CHECK enum io_result body_read(struct channel *c);

/* Reads and throws away what is left of STDIN: IO_DONE, IO_DEAD, or IO_LONG when it was given up.
 */
MUST_CHECK enum io_result body_drain(struct channel *c);

#endif
