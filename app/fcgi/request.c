/* One request from its parameters to its answer, and the connection's next request. Everything
 * here runs in the engine thread except request_io(). */
#include "fcgi/internal.h"

#include "base/logger.h"
#include "wire/json_write.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bodies and answers up to this size are read and written by the engine: nginx has the whole body
 * before it sends, and takes this much without being waited for. */
enum { ENGINE_IO_BYTES = 65536 };

static struct slice request_param(struct request *r, const char *name)
{
    const char *v = FCGX_GetParam(name, r->fcgx.envp);
    return v == NULL ? (struct slice){"", 0} : slice_of(v);
}

/* RFC 9110, 8.6: digits only. */
static bool request_parse_length(struct slice text, uint64_t *length)
{
    *length = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9' || __builtin_mul_overflow(*length, 10, length) ||
            __builtin_add_overflow(*length, (uint64_t)(text.p[i] - '0'), length))
            return false;
    }
    return true;
}

/* The bytes of a body that is not read stay in the connection: it cannot be kept. */
static void request_refuse(struct request *r, int status, const char *text)
{
    r->phase = REQUEST_OPEN;
    r->fcgx.keepConnection = 0;
    request_answer_error(r, status, "%s", text);
}

static void request_read_body(struct request *r)
{
    size_t want = (size_t)r->head.content_length;
    buf_clear(&r->body);
    buf_reserve(&r->body, want);
    while (r->body.n < want) {
        size_t step = want - r->body.n > INT32_MAX ? INT32_MAX : want - r->body.n;
        int n = FCGX_GetStr(r->body.p + r->body.n, (int)step, r->fcgx.in);
        if (n <= 0)
            break;
        r->body.n += (size_t)n;
    }
    r->body_ok = r->body.n == want;
}

static void request_hand_to_application(struct request *r)
{
    if (!r->body_ok) {
        request_refuse(r, 400, "the body is shorter than its Content-Length");
        return;
    }
    r->phase = REQUEST_OPEN;
    r->server->config.handle(r, r->server->config.owner);
}

void request_body_read(struct request *r)
{
    request_hand_to_application(r);
}

static void request_start_body(struct request *r)
{
    struct fcgi_server *server = r->server;
    r->reserved = (size_t)r->head.content_length;
    server->body_bytes += r->reserved;
    if (r->reserved <= ENGINE_IO_BYTES) {
        request_read_body(r);
        request_hand_to_application(r);
        return;
    }
    r->phase = REQUEST_READING;
    handover_put(&server->io_work, r);
}

static bool request_fits(const struct fcgi_server *server, size_t bytes)
{
    return server->body_bytes == 0 || bytes <= server->config.max_body_memory - server->body_bytes;
}

void request_serve_waiting(struct fcgi_server *server)
{
    struct request *r;
    while ((r = TAILQ_FIRST(&server->waiting)) != NULL &&
           server->body_bytes < server->config.max_body_memory &&
           request_fits(server, (size_t)r->head.content_length)) {
        TAILQ_REMOVE(&server->waiting, r, link);
        request_start_body(r);
    }
}

void request_begin(struct request *r)
{
    struct fcgi_server *server = r->server;
    r->head.method = request_param(r, "REQUEST_METHOD");
    r->head.target = request_param(r, "REQUEST_URI");
    r->head.authorization = request_param(r, "HTTP_AUTHORIZATION");
    r->head_only = slice_is(r->head.method, "HEAD");
    if (!request_parse_length(request_param(r, "CONTENT_LENGTH"), &r->head.content_length)) {
        request_refuse(r, 400, "malformed Content-Length");
        return;
    }
    if (r->head.content_length > server->config.max_body_bytes) {
        char text[96];
        (void)snprintf(text, sizeof text, "the body has %llu bytes, the limit is %zu",
                       (unsigned long long)r->head.content_length, server->config.max_body_bytes);
        request_refuse(r, 413, text);
        return;
    }
    r->body_ok = true;
    if (r->head.content_length == 0) {
        request_hand_to_application(r);
    } else if (TAILQ_EMPTY(&server->waiting) &&
               server->body_bytes < server->config.max_body_memory &&
               request_fits(server, (size_t)r->head.content_length)) {
        request_start_body(r);
    } else {
        r->phase = REQUEST_WAITING;
        TAILQ_INSERT_TAIL(&server->waiting, r, link);
    }
}

const struct request_head *request_head(const struct request *r)
{
    return &r->head;
}

struct slice request_body(const struct request *r)
{
    return buf_slice(&r->body);
}

struct arena *request_arena(struct request *r)
{
    return &r->arena;
}

void request_set_state(struct request *r, void *state)
{
    r->state = state;
}

void *request_state(const struct request *r)
{
    return r->state;
}

static void request_client_left(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct request *r = (struct request *)((char *)io - offsetof(struct request, io));
    void (*gone)(struct request *) = r->gone;
    r->gone = NULL;
    gone(r);
    request_close(r);
}

void request_park(struct request *r, void (*gone)(struct request *r))
{
    struct err err;
    r->gone = gone;
    if (!loop_watch(r->server->loop, &r->io, r->fcgx.ipcFd, EPOLLRDHUP, request_client_left, &err))
        logger_error("fcgi", "a parked request is not watched: %s", err.text);
}

void request_unpark(struct request *r)
{
    r->gone = NULL;
    loop_unwatch(r->server->loop, &r->io);
}

static const char *request_reason(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 201:
        return "Created";
    case 204:
        return "No Content";
    case 400:
        return "Bad Request";
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
    case 503:
        return "Service Unavailable";
    case 507:
        return "Insufficient Storage";
    default:
        return "Error";
    }
}

static void request_write(struct request *r)
{
    size_t at = 0;
    while (at < r->answer.n) {
        size_t step = r->answer.n - at > INT32_MAX ? INT32_MAX : r->answer.n - at;
        int n = FCGX_PutStr(r->answer.p + at, (int)step, r->fcgx.out);
        if (n <= 0)
            break; /* nginx is gone; Finish notices as well */
        at += (size_t)n;
    }
    if (!r->fcgx.keepConnection)
        FCGX_Detach(&r->fcgx); /* a plain close instead of a 2 s poll */
    FCGX_Finish_r(&r->fcgx);
}

void request_io(struct request *r)
{
    if (r->phase == REQUEST_READING)
        request_read_body(r);
    else
        request_write(r);
}

void request_answer(struct request *r, int status, const char *content_type, struct slice headers,
                    struct buf *body)
{
    struct fcgi_server *server = r->server;
    request_unpark(r);
    r->status = status;
    buf_clear(&r->answer);
    buf_reserve(&r->answer, 160 + headers.n + body->n);
    buf_printf(&r->answer, "Status: %d %s\r\n", status, request_reason(status));
    buf_put_slice(&r->answer, headers);
    if (status != 204)
        buf_printf(&r->answer, "Content-Type: %s\r\nContent-Length: %zu\r\n",
                   content_type == NULL ? "application/json" : content_type, body->n);
    BUF_PUT_LITERAL(&r->answer, "\r\n");
    if (status != 204 && !r->head_only)
        buf_put_slice(&r->answer, buf_slice(body));
    buf_free(body);
    if (server->config.answered != NULL)
        server->config.answered(status, server->config.owner);
    r->phase = REQUEST_WRITING;
    if (r->answer.n > ENGINE_IO_BYTES) {
        handover_put(&server->io_work, r);
        return;
    }
    request_write(r);
    request_keep(r);
}

void request_answer_error(struct request *r, int status, const char *fmt, ...)
{
    struct err text;
    struct buf body = {0};
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text.text, sizeof text.text, fmt, ap);
    va_end(ap);
    BUF_PUT_LITERAL(&body, "{\"error\":");
    json_write_string(&body, slice_of(text.text));
    buf_putc(&body, '}');
    request_answer(r, status, NULL, (struct slice){0}, &body);
}

/* The next request on a kept connection, or its end. Peeks first: at the end of the connection
 * FCGX_Accept_r() would go on to accept(). */
static void request_readable(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct request *r = (struct request *)((char *)io - offsetof(struct request, io));
    char byte;
    ssize_t n = recv(r->fcgx.ipcFd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    loop_unwatch(r->server->loop, &r->io);
    if (n <= 0 || FCGX_Accept_r(&r->fcgx) < 0) {
        request_close(r);
        return;
    }
    r->phase = REQUEST_ACCEPTED;
    r->server->open++;
    request_begin(r);
}

static void request_release(struct request *r)
{
    struct fcgi_server *server = r->server;
    server->body_bytes -= r->reserved;
    r->reserved = 0;
    arena_free(&r->arena);
    buf_free(&r->body);
    buf_free(&r->answer);
    r->state = NULL;
    r->gone = NULL;
    r->head = (struct request_head){0};
    if (!TAILQ_EMPTY(&server->waiting))
        request_serve_waiting(server);
}

void request_keep(struct request *r)
{
    struct fcgi_server *server = r->server;
    struct err err;
    server->open--;
    r->phase = REQUEST_KEPT;
    bool kept = r->fcgx.ipcFd >= 0 && !server->stopping &&
                loop_watch(server->loop, &r->io, r->fcgx.ipcFd, EPOLLIN | EPOLLRDHUP,
                           request_readable, &err);
    if (kept)
        request_release(r);
    else
        request_close(r);
}

void request_close(struct request *r)
{
    struct fcgi_server *server = r->server;
    loop_unwatch(server->loop, &r->io);
    if (r->phase != REQUEST_KEPT)
        server->open--;
    r->phase = REQUEST_KEPT;
    TAILQ_REMOVE(&server->live, r, live_link);
    if (r->fcgx.ipcFd >= 0) {
        FCGX_Detach(&r->fcgx);
        FCGX_Free(&r->fcgx, 1);
    }
    request_release(r);
    free(r);
    (void)pthread_mutex_lock(&server->gate_lock);
    server->connections--;
    (void)pthread_cond_signal(&server->gate);
    (void)pthread_mutex_unlock(&server->gate_lock);
    server_check_drained(server);
}
