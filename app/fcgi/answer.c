/* Answers: the header, small ones at once, large ones in steps. */
#include "fcgi/answer.h"

#include "fcgi/parts.h"
#include "wire/json_write.h"

#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>

/* A socket that poll() calls writable has three quarters of its send buffer free. */
enum { ANSWER_STEP = 32768 };

static const char *answer_reason(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 201:
        return "Created";
    case 202:
        return "Accepted";
    case 204:
        return "No Content";
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 409:
        return "Conflict";
    case 413:
        return "Content Too Large";
    case 429:
        return "Too Many Requests";
    case 500:
        return "Internal Server Error";
    case 503:
        return "Service Unavailable";
    case 507:
        return "Insufficient Storage";
    default:
        return "Status";
    }
}

/* Write errors are not looked at here: libfcgi's stream remembers them, and FCGX_Finish_r closes
 * the connection then. */
static void answer_put(struct channel *c, struct slice s)
{
    while (s.n > 0) {
        int n = s.n > INT_MAX ? INT_MAX : (int)s.n;
        if (FCGX_PutStr(s.p, n, c->fcgi.out) < 0)
            return;
        s.p += n;
        s.n -= (size_t)n;
    }
}

static void answer_put_head(struct channel *c, int status, const char *content_type,
                            struct slice headers, size_t body_n)
{
    char head[512];
    int n;
    if (status == 204)
        n = snprintf(head, sizeof head, "Status: 204 No Content\r\n");
    else
        n = snprintf(head, sizeof head,
                     "Status: %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n", status,
                     answer_reason(status),
                     content_type != NULL ? content_type : "application/json", body_n);
    if (n < 0 || (size_t)n >= sizeof head)
        die("content type of %zu bytes", content_type != NULL ? strlen(content_type) : 0);
    answer_put(c, (struct slice){head, (size_t)n});
    answer_put(c, headers);
    answer_put(c, SLICE_LITERAL("\r\n"));
}

void request_answer(struct request *r, int status, const char *content_type, struct slice headers,
                    struct buf *body)
{
    struct channel *c = channel_of(r);
    struct fcgi_server *s = c->server;
    if (c->stage != CHANNEL_OPEN && c->stage != CHANNEL_PARKED)
        die("answer to a request in stage %d", (int)c->stage);
    c->stage = CHANNEL_OPEN;
    r->answer = *body;
    *body = (struct buf){0};
    answer_put_head(c, status, content_type, headers, r->answer.n);
    if (status == 204 || slice_is(r->head.method, "HEAD"))
        buf_clear(&r->answer);
    /* The application is done with the body; a slow reader of the answer must not hold it. */
    buf_free(&r->body);
    body_memory_release(&s->memory, c);
    if (s->config.answered != NULL)
        s->config.answered(status, s->config.owner);
    if (r->answer.n > FCGI_SMALL_BYTES) {
        channel_submit(c, IO_WRITE);
        return;
    }
    answer_put(c, buf_slice(&r->answer));
    FCGX_Finish_r(&c->fcgi);
    channel_finished(c);
}

void request_answer_error(struct request *r, int status, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    struct buf body = {0};
    BUF_PUT_LITERAL(&body, "{\"error\":");
    json_write_string(&body, slice_of(text));
    buf_putc(&body, '}');
    request_answer(r, status, NULL, (struct slice){0}, &body);
}

enum io_result answer_write(struct channel *c)
{
    struct request *r = &c->request;
    struct pollfd room = {.fd = c->fcgi.ipcFd, .events = POLLOUT};
    while (r->answer_sent < r->answer.n) {
        size_t n = r->answer.n - r->answer_sent;
        if (poll(&room, 1, 0) == 0)
            return IO_BLOCKED;
        if (n > ANSWER_STEP)
            n = ANSWER_STEP;
        if (FCGX_PutStr(r->answer.p + r->answer_sent, (int)n, c->fcgi.out) < 0)
            break;
        r->answer_sent += n;
    }
    FCGX_Finish_r(&c->fcgi);
    return IO_DONE;
}
