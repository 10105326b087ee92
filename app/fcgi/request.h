/* One HTTP request that came over FastCGI, from acceptance to answer. */
#ifndef FCGI_REQUEST_H
#define FCGI_REQUEST_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/loop.h"

struct request;

/* What the application may read. Slices live until the request is answered. */
struct request_head {
    struct slice method;        /* "GET" */
    struct slice target;        /* as the client sent it: path and query, percent-encoded */
    struct slice authorization; /* header value or empty */
    uint64_t content_length;
};

const struct request_head *request_head(const struct request *r);

/* The whole body, read before the application sees the request. */
struct slice request_body(const struct request *r);

/* Memory that lives as long as the request. */
struct arena *request_arena(struct request *r);

/* The application's own state for this request; NULL at first. Owned by the application. */
void request_set_state(struct request *r, void *state);
void *request_state(const struct request *r);

/* Waits for something (a statement, a wake-up). While parked, a client that leaves is noticed:
 * gone() is called once, from the loop, and the request is freed when it returns; the application
 * drops its state and must not touch the request again. To be un-parked by request_answer(). */
void request_park(struct request *r, void (*gone)(struct request *r));

/* After this a client that leaves is no longer reported (a claim is on its way: the outcome must
 * be awaited); the request stays open until it is answered. */
void request_unpark(struct request *r);

/* Ends the request. status is the HTTP code; body is sent as application/json unless content_type
 * says otherwise; 204 sends none. headers: further complete header lines, each ended by CRLF, or
 * empty. Takes the bytes out of body (which is empty afterwards). The request must not be touched
 * again. Large bodies are written by an I/O thread. */
void request_answer(struct request *r, int status, const char *content_type, struct slice headers,
                    struct buf *body);

/* {"error":"<text>"} with the text escaped. */
void request_answer_error(struct request *r, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);

#endif
