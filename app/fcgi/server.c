/* Start, orderly stop and end of the FastCGI server. */
#include "fcgi/server.h"

#include "base/logger.h"
#include "fcgi/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* Descriptors that connections may not take: libfcgi answers a failing accept() badly, and the
 * process needs some for itself. */
enum { FCGI_RESERVED_DESCRIPTORS = 64, FCGI_LEAST_CONNECTIONS = 16 };

/* FCGX_Init installs handlers of its own for SIGTERM, SIGUSR1 (both make every later accept fail)
 * and SIGPIPE. Signals are the program's business: they are put back. */
static bool fcgi_library_start(struct err *err)
{
    struct sigaction term, usr1;
    /* libfcgi's wait, in milliseconds, for the peer's close when it closes itself. */
    (void)setenv("LIBFCGI_OS_CLOSE_POLL_TIMEOUT", "0", 0);
    (void)sigaction(SIGTERM, NULL, &term);
    (void)sigaction(SIGUSR1, NULL, &usr1);
    int rc = FCGX_Init();
    (void)sigaction(SIGTERM, &term, NULL);
    (void)sigaction(SIGUSR1, &usr1, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    return rc == 0 || err_set(err, "FCGX_Init: %d", rc);
}

static bool fcgi_listen_check(int fd, struct err *err)
{
    int listening = 0;
    socklen_t n = sizeof listening;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) != 0 || !listening)
        return err_set(err, "descriptor %d is not a listening socket", fd);
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return err_set(err, "cannot make descriptor %d non-blocking: %s", fd, strerror(errno));
    return true;
}

static bool fcgi_connection_limit(size_t wanted, size_t *out, struct err *err)
{
    struct rlimit files = {0};
    *out = wanted;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY)
        return true;
    if (files.rlim_cur < FCGI_RESERVED_DESCRIPTORS + FCGI_LEAST_CONNECTIONS)
        return err_set(err, "an open-file limit of %llu is too small: at least %d are needed",
                       (unsigned long long)files.rlim_cur,
                       FCGI_RESERVED_DESCRIPTORS + FCGI_LEAST_CONNECTIONS);
    size_t room = (size_t)files.rlim_cur - FCGI_RESERVED_DESCRIPTORS;
    if (wanted > room) {
        logger_warn("fcgi", "at most %zu connections instead of %zu: open-file limit", room,
                    wanted);
        *out = room;
    }
    return true;
}

static void fcgi_server_arrived(struct handover *h, struct channel *c)
{
    struct fcgi_server *s =
        (struct fcgi_server *)((char *)h - offsetof(struct fcgi_server, handover));
    if (c != NULL)
        channel_returned(c);
    else if (s->stopping)
        fcgi_server_check_drained(s);
}

static void fcgi_server_report_drained(struct loop_task *task)
{
    struct fcgi_server *s =
        (struct fcgi_server *)((char *)task - offsetof(struct fcgi_server, drained_task));
    s->config.drained(s->config.owner);
}

void fcgi_server_check_drained(struct fcgi_server *s)
{
    /* The acceptor counts a connection before it hands it over, so none can be on its way. */
    if (!s->stopping || s->drained || !acceptor_stopped(&s->acceptor) ||
        atomic_load(&s->acceptor.connections) != 0)
        return;
    s->drained = true;
    loop_task_queue(s->loop, &s->drained_task);
}

static bool fcgi_threads_start(struct fcgi_server *s, size_t max_connections, struct err *err)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = io_pool_start(&s->pool, s->config.io_threads, &s->handover, err) &&
                   acceptor_start(&s->acceptor, s, max_connections, err);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

bool fcgi_server_start(struct loop *loop, const struct fcgi_server_config *config,
                       struct fcgi_server **out, struct err *err)
{
    size_t max_connections;
    *out = NULL;
    if (!fcgi_listen_check(config->listen_fd, err) ||
        !fcgi_connection_limit(config->max_connections, &max_connections, err) ||
        !fcgi_library_start(err))
        return false;
    struct fcgi_server *s = mem_zalloc(sizeof *s);
    s->loop = loop;
    s->config = *config;
    s->drained_task.run = fcgi_server_report_drained;
    s->acceptor.wake_fd = -1;
    TAILQ_INIT(&s->connections);
    body_memory_open(&s->memory, loop, config->max_body_memory, channel_read_body);
    if (!handover_open(&s->handover, loop, fcgi_server_arrived, err)) {
        free(s);
        return false;
    }
    if (!fcgi_threads_start(s, max_connections, err)) {
        fcgi_server_free(s);
        return false;
    }
    *out = s;
    return true;
}

void fcgi_server_stop(struct fcgi_server *s)
{
    if (s->stopping)
        return;
    s->stopping = true;
    acceptor_stop(&s->acceptor);
    struct channel *c = TAILQ_FIRST(&s->connections);
    while (c != NULL) {
        struct channel *next = TAILQ_NEXT(c, link);
        channel_close_if_idle(c);
        c = next;
    }
    fcgi_server_check_drained(s);
}

void fcgi_server_free(struct fcgi_server *s)
{
    struct channel *c;
    if (s == NULL)
        return;
    s->stopping = true;
    acceptor_close(&s->acceptor);
    io_pool_stop(&s->pool);
    /* Nobody else has a connection now. Those not adopted yet join the others to be dropped. */
    while ((c = TAILQ_FIRST(&s->handover.queue)) != NULL) {
        TAILQ_REMOVE(&s->handover.queue, c, queue_link);
        if (c->job == IO_ADOPT)
            TAILQ_INSERT_TAIL(&s->connections, c, link);
    }
    while ((c = TAILQ_FIRST(&s->connections)) != NULL)
        channel_close(c);
    loop_task_cancel(s->loop, &s->drained_task);
    body_memory_close(&s->memory);
    handover_close(&s->handover);
    free(s);
}

size_t fcgi_server_connections(const struct fcgi_server *s)
{
    return atomic_load(&s->acceptor.connections);
}
