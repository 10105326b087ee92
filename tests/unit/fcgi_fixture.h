/* What the tests of the FastCGI server share: the echo application in a process of its own behind
 * a socket in a directory of its own, and a FastCGI client that says exactly what it is told to. */
#ifndef TESTS_FCGI_FIXTURE_H
#define TESTS_FCGI_FIXTURE_H

#include "base/buf.h"
#include "fcgi_echo.h"
#include "process_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fastcgi.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { FIXTURE_PATIENCE_S = 60 }; /* a peer that is silent so long fails the test */

struct fixture {
    char dir[64];
    char socket[96];
    pid_t server, nginx;
};

static inline struct sockaddr_un fixture_address(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof a.sun_path);
    memcpy(a.sun_path, path, strlen(path));
    return a;
}

static inline int fixture_listen(const char *path)
{
    struct sockaddr_un a = fixture_address(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)unlink(path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || listen(fd, 4096) != 0 ||
        chmod(path, 0666) != 0) {
        perror(path);
        exit(2);
    }
    return fd;
}

static inline int fixture_connect(const char *path)
{
    struct sockaddr_un a = fixture_address(path);
    struct timeval patience = {.tv_sec = FIXTURE_PATIENCE_S};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

/* Starts the echo application; files: its open-file limit, 0 = ours. */
static inline void fixture_start(struct fixture *f, const struct echo_options *o, size_t files)
{
    *f = (struct fixture){0};
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/fcgi-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    assert_int_equal(chmod(f->dir, 0755), 0);
    (void)snprintf(f->socket, sizeof f->socket, "%s/app.sock", f->dir);
    int listener = fixture_listen(f->socket);
    (void)fflush(NULL);
    f->server = fork();
    assert_true(f->server >= 0);
    if (f->server == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing behind */
        struct rlimit limit = {.rlim_cur = files, .rlim_max = files};
        if (files != 0 && setrlimit(RLIMIT_NOFILE, &limit) != 0)
            _exit(3);
        exit(echo_serve(listener, o));
    }
    (void)close(listener);
}

/* SIGTERM; the exit code. */
static inline int fixture_end_server(struct fixture *f)
{
    assert_int_equal(kill(f->server, SIGTERM), 0);
    return process_wait(f->server);
}

static inline void fixture_remove(struct fixture *f)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
    assert_int_equal(system(command), 0);
}

static inline void fixture_stop(struct fixture *f)
{
    assert_int_equal(fixture_end_server(f), 0);
    fixture_remove(f);
}

/* ---- a FastCGI client ---- */

static inline void wire_record(struct buf *out, unsigned type, unsigned id, const void *data,
                               size_t n, unsigned padding)
{
    const unsigned char header[FCGI_HEADER_LEN] = {
        FCGI_VERSION_1,          (unsigned char)type, (unsigned char)(id >> 8), (unsigned char)id,
        (unsigned char)(n >> 8), (unsigned char)n,    (unsigned char)padding,   0};
    const char zeros[256] = {0};
    buf_put(out, header, sizeof header);
    buf_put(out, data, n);
    buf_put(out, zeros, padding);
}

static inline void wire_begin(struct buf *out, bool keep)
{
    const char body[8] = {0, FCGI_RESPONDER, keep ? FCGI_KEEP_CONN : 0};
    wire_record(out, FCGI_BEGIN_REQUEST, 1, body, sizeof body, 0);
}

static inline void wire_param(struct buf *out, const char *name, const char *value)
{
    size_t n = strlen(value);
    buf_putc(out, (char)strlen(name));
    const char length[4] = {(char)(0x80 | (n >> 24)), (char)(n >> 16), (char)(n >> 8), (char)n};
    if (n < 128)
        buf_putc(out, (char)n);
    else
        buf_put(out, length, sizeof length);
    buf_put(out, name, strlen(name));
    buf_put(out, value, n);
}

/* length: CONTENT_LENGTH, NULL = not sent. Everything up to the end of PARAMS. */
static inline void wire_head(struct buf *out, bool keep, const char *method, const char *target,
                             const char *length)
{
    struct buf params = {0};
    wire_param(&params, "REQUEST_METHOD", method);
    wire_param(&params, "SCRIPT_NAME", "/ignored");
    wire_param(&params, "REQUEST_URI", target);
    if (length != NULL)
        wire_param(&params, "CONTENT_LENGTH", length);
    wire_begin(out, keep);
    wire_record(out, FCGI_PARAMS, 1, params.p, params.n, 3);
    wire_record(out, FCGI_PARAMS, 1, NULL, 0, 0);
    buf_free(&params);
}

/* STDIN in records of at most `step` bytes; not its end. */
static inline void wire_stdin(struct buf *out, const char *data, size_t n, size_t step)
{
    for (size_t at = 0; at < n; at += step)
        wire_record(out, FCGI_STDIN, 1, data + at, n - at < step ? n - at : step, 0);
}

static inline void wire_end(struct buf *out)
{
    wire_record(out, FCGI_STDIN, 1, NULL, 0, 0);
}

static inline struct buf wire_request(bool keep, const char *method, const char *target,
                                      const char *data, size_t n)
{
    struct buf out = {0};
    char length[24];
    (void)snprintf(length, sizeof length, "%zu", n);
    wire_head(&out, keep, method, target, n > 0 ? length : "");
    wire_stdin(&out, data, n, 32768);
    wire_end(&out);
    return out;
}

/* False: the peer closed under it. */
static inline bool wire_send_part(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t m = send(fd, p, n, MSG_NOSIGNAL);
        if (m < 0 && (errno == EPIPE || errno == ECONNRESET))
            return false;
        assert_true(m > 0);
        p += m;
        n -= (size_t)m;
    }
    return true;
}

/* Sends and frees. */
static inline void wire_send(int fd, struct buf *b)
{
    assert_true(wire_send_part(fd, b->p, b->n));
    buf_free(b);
}

static inline bool wire_read_exactly(int fd, void *p, size_t n)
{
    for (size_t got = 0; got < n;) {
        ssize_t m = recv(fd, (char *)p + got, n - got, 0);
        if (m == 0 || (m < 0 && errno == ECONNRESET))
            return false;
        assert_true(m > 0);
        got += (size_t)m;
    }
    return true;
}

/* One record; its type, or 0 at the end of the connection. */
static inline unsigned wire_read_record(int fd, struct buf *content)
{
    unsigned char h[FCGI_HEADER_LEN];
    char padding[256];
    buf_clear(content);
    if (!wire_read_exactly(fd, h, sizeof h))
        return 0;
    size_t n = (size_t)h[4] << 8 | h[5];
    buf_reserve(content, n + 1);
    if (!wire_read_exactly(fd, content->p, n) || !wire_read_exactly(fd, padding, h[6]))
        return 0;
    content->n = n;
    return h[1];
}

struct answer {
    int status;      /* 0 = the connection ended first */
    struct buf head; /* with a NUL behind it */
    struct buf body; /* the same */
};

static inline void answer_free(struct answer *a)
{
    buf_free(&a->head);
    buf_free(&a->body);
}

/* Splits what came into a->body at the empty line. */
static inline void answer_split(struct answer *a, const char *status_prefix)
{
    buf_putc(&a->body, '\0');
    char *end = strstr(a->body.p, "\r\n\r\n");
    assert_non_null(end);
    size_t head_n = (size_t)(end - a->body.p) + 2;
    buf_put(&a->head, a->body.p, head_n);
    buf_putc(&a->head, '\0');
    memmove(a->body.p, a->body.p + head_n + 2, a->body.n - head_n - 2);
    a->body.n -= head_n + 2 + 1;
    assert_int_equal(strncmp(a->head.p, status_prefix, strlen(status_prefix)), 0);
    a->status = atoi(a->head.p + strlen(status_prefix));
}

static inline struct answer wire_answer(int fd)
{
    struct answer a = {0};
    struct buf content = {0};
    unsigned type;
    do {
        type = wire_read_record(fd, &content);
        if (type == FCGI_STDOUT)
            buf_put_slice(&a.body, buf_slice(&content));
    } while (type != 0 && type != FCGI_END_REQUEST);
    buf_free(&content);
    if (type != 0)
        answer_split(&a, "Status: ");
    return a;
}

static inline bool answer_is(const struct answer *a, int status, const char *body)
{
    if (a->status == status && slice_is(buf_slice(&a->body), body))
        return true;
    print_message("answer: %d %s\n", a->status, a->body.p != NULL ? a->body.p : "");
    return false;
}

/* One request on a connection of its own. */
static inline struct answer wire_ask(const struct fixture *f, const char *method,
                                     const char *target, const char *data, size_t n)
{
    int fd = fixture_connect(f->socket);
    struct buf out = wire_request(false, method, target, data, n);
    wire_send(fd, &out);
    struct answer a = wire_answer(fd);
    (void)close(fd);
    return a;
}

/* A number that /status tells. */
static inline unsigned fixture_status(const struct fixture *f, const char *name)
{
    struct answer a = wire_ask(f, "GET", "/status", NULL, 0);
    assert_int_equal(a.status, 200);
    char key[32];
    (void)snprintf(key, sizeof key, "%s=", name);
    const char *at = strstr(a.body.p, key);
    assert_non_null(at);
    unsigned value = (unsigned)strtoul(at + strlen(key), NULL, 10);
    answer_free(&a);
    return value;
}

/* Waits until /status tells this; fails after FIXTURE_PATIENCE_S. */
static inline void fixture_await(const struct fixture *f, const char *name, unsigned wanted)
{
    unsigned seen = 0;
    for (int i = 0; i < FIXTURE_PATIENCE_S * 100; i++) {
        seen = fixture_status(f, name);
        if (seen == wanted)
            return;
        (void)usleep(10000);
    }
    fail_msg("%s is %u, not %u", name, seen, wanted);
}

/* n bytes with no short period. */
static inline char *fixture_bytes(size_t n)
{
    char *p = mem_alloc(n + 1);
    uint32_t x = 12345;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525U + 1013904223U;
        p[i] = (char)(x >> 24);
    }
    return p;
}

#endif
