/* How much of a request has already arrived, told from bytes that were peeked at. This is what
 * lets the engine thread call libfcgi without ever blocking in it. Private to app/fcgi. */
#ifndef FCGI_PREVIEW_H
#define FCGI_PREVIEW_H

#include <stddef.h>

enum preview {
    PREVIEW_PARTIAL, /* the end of PARAMS is not there: FCGX_Accept_r would block */
    PREVIEW_HEAD,    /* PARAMS are complete, STDIN is not: reading the body would block */
    PREVIEW_WHOLE,   /* everything up to the empty STDIN record is there */
};

/* p: the first n bytes that wait in the socket of a connection without a request. Bytes that are
 * not FastCGI count as PREVIEW_PARTIAL; refusing them is libfcgi's work. */
enum preview preview_scan(const unsigned char *p, size_t n);

#endif
