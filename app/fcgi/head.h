/* The parameters of a request. Private to app/fcgi. */
#ifndef FCGI_HEAD_H
#define FCGI_HEAD_H

#include "fcgi/request.h"

/* Fills head from the NULL-terminated "NAME=value" list; the slices point into it. Returns NULL, or
 * what is wrong, fit for an answer with status 400. */
MUST_CHECK const char *head_parse(char *const *params, struct request_head *head);

#endif
