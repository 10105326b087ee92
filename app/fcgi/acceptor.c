/* Accepting. The listening socket is non-blocking and polled first, so that the only thing that can
 * hold this thread up in FCGX_Accept_r is a peer that connects and stays silent: after a while it
 * is interrupted by a signal, and libfcgi drops that peer. */
#include "fcgi/acceptor.h"

#include "base/clock.h"
#include "base/logger.h"
#include "fcgi/parts.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    ACCEPTOR_SILENCE_MS = 5000,     /* a peer may be silent so long */
    ACCEPTOR_SILENCE_STOP_MS = 200, /* the same while stopping */
    ACCEPTOR_WATCH_MS = 1000,
    ACCEPTOR_WATCH_STOP_MS = 50,
    ACCEPTOR_PAUSE_MS = 100,    /* after an error, so that it cannot spin */
    ACCEPTOR_REPORT_MS = 10000, /* errors of accept are logged once in so long */
};

static int acceptor_signal(void)
{
    return SIGRTMIN;
}

static void acceptor_interrupted(int signal_number)
{
    (void)signal_number; /* its only effect is EINTR */
}

/* Waits until the listening socket is readable; not while the connection limit is reached. */
static bool acceptor_wait(struct acceptor *a, int timeout_ms, bool listening)
{
    struct pollfd fds[2] = {{.fd = a->wake_fd, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    if (listening && atomic_load(&a->connections) < a->max)
        fds[1].fd = a->server->config.listen_fd;
    if (poll(fds, 2, timeout_ms) <= 0)
        return false;
    if (fds[0].revents != 0) {
        eventfd_t rings;
        (void)eventfd_read(a->wake_fd, &rings);
    }
    return fds[1].revents != 0 && !atomic_load(&a->stopping);
}

static void acceptor_failed(struct acceptor *a, int error, uint64_t *reported_ms)
{
    /* Another worker took it, the peer left, or we were interrupted. */
    if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ECONNABORTED)
        return;
    uint64_t now = clock_mono_ms();
    if (*reported_ms == 0 || now - *reported_ms >= ACCEPTOR_REPORT_MS) {
        *reported_ms = now;
        logger_error("fcgi", "cannot accept connections: %s", strerror(error));
    }
    (void)acceptor_wait(a, ACCEPTOR_PAUSE_MS, false);
}

static void *acceptor_run(void *arg)
{
    struct acceptor *a = arg;
    struct channel *c = NULL;
    uint64_t reported_ms = 0;
    sigset_t interrupt;
    (void)sigemptyset(&interrupt);
    (void)sigaddset(&interrupt, acceptor_signal());
    (void)pthread_sigmask(SIG_UNBLOCK, &interrupt, NULL);
    while (!atomic_load(&a->stopping)) {
        if (!acceptor_wait(a, -1, true))
            continue;
        if (c == NULL)
            c = channel_new(a->server);
        atomic_store(&a->busy_since_ms, clock_mono_ms());
        int error = channel_accept(c);
        atomic_store(&a->busy_since_ms, 0);
        if (error != 0) {
            acceptor_failed(a, error, &reported_ms);
            continue;
        }
        channel_set_timeouts(c);
        (void)atomic_fetch_add(&a->connections, 1);
        handover_put(&a->server->handover, c);
        c = NULL;
    }
    free(c); /* libfcgi holds nothing of a request whose accept failed */
    atomic_store(&a->ended, true);
    handover_ring(&a->server->handover);
    return NULL;
}

static void acceptor_watch(struct loop_timer *timer)
{
    struct acceptor *a = (struct acceptor *)((char *)timer - offsetof(struct acceptor, watch));
    bool stopping = atomic_load(&a->stopping);
    uint64_t since = atomic_load(&a->busy_since_ms), now = clock_mono_ms();
    uint64_t limit = stopping ? ACCEPTOR_SILENCE_STOP_MS : ACCEPTOR_SILENCE_MS;
    if (!a->running)
        return;
    if (since != 0 && now > since && now - since >= limit)
        (void)pthread_kill(a->thread, acceptor_signal());
    loop_timer_set(a->server->loop, timer,
                   now + (stopping ? ACCEPTOR_WATCH_STOP_MS : ACCEPTOR_WATCH_MS));
}

bool acceptor_start(struct acceptor *a, struct fcgi_server *server, size_t max, struct err *err)
{
    struct sigaction act = {.sa_handler = acceptor_interrupted}; /* no SA_RESTART */
    a->server = server;
    a->max = max;
    a->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (a->wake_fd < 0)
        return err_set(err, "eventfd: %s", strerror(errno));
    (void)sigemptyset(&act.sa_mask);
    (void)sigaction(acceptor_signal(), &act, NULL);
    int rc = pthread_create(&a->thread, NULL, acceptor_run, a);
    if (rc != 0)
        return err_set(err, "cannot start the acceptor thread: %s", strerror(rc));
    a->running = true;
    a->watch.fire = acceptor_watch;
    acceptor_watch(&a->watch);
    return true;
}

void acceptor_stop(struct acceptor *a)
{
    atomic_store(&a->stopping, true);
    if (!a->running)
        return;
    (void)eventfd_write(a->wake_fd, 1);
    acceptor_watch(&a->watch);
}

bool acceptor_stopped(struct acceptor *a)
{
    if (a->running && atomic_load(&a->ended)) {
        (void)pthread_join(a->thread, NULL);
        a->running = false;
        loop_timer_cancel(a->server->loop, &a->watch);
    }
    return !a->running;
}

void acceptor_close(struct acceptor *a)
{
    const struct timespec nap = {.tv_nsec = ACCEPTOR_WATCH_STOP_MS * 1000000L};
    acceptor_stop(a);
    while (!acceptor_stopped(a)) {
        (void)nanosleep(&nap, NULL);
        acceptor_watch(&a->watch);
    }
    if (a->wake_fd >= 0)
        (void)close(a->wake_fd);
    a->wake_fd = -1;
}

void acceptor_closed_one(struct acceptor *a)
{
    if (atomic_fetch_sub(&a->connections, 1) >= a->max && a->running)
        (void)eventfd_write(a->wake_fd, 1);
}
