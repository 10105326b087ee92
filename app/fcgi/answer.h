/* Writing answers through libfcgi. Private to app/fcgi. */
#ifndef FCGI_ANSWER_H
#define FCGI_ANSWER_H

#include "fcgi/channel.h"

/* I/O thread. Writes what is left of a large answer as far as the socket has room, and finishes
 * the request after the last byte: IO_DONE or IO_BLOCKED. */
MUST_CHECK enum io_result answer_write(struct channel *c);

#endif
