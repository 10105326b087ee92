/* The FastCGI server of a worker: threads, acceptance, orderly stop. */
#include "fcgi/internal.h"

#include "base/logger.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ACCEPT_PAUSE_US = 20000, /* after an error of accept(), e.g. no descriptors left */
    IO_TIMEOUT_S = 10,       /* one read or write on a connection that nginx does not serve */
    STOP_SIGNAL = SIGUSR2,   /* takes the acceptor out of accept() */
};

static void server_interrupt(int signal)
{
    (void)signal; /* its only effect is EINTR */
}

static void server_tell_engine(struct fcgi_server *server)
{
    uint64_t one = 1;
    ssize_t ignored = write(server->wake_fd, &one, sizeof one);
    (void)ignored; /* a full counter wakes the engine as well */
}

/* False: stopping. */
static bool server_may_accept(struct fcgi_server *server)
{
    (void)pthread_mutex_lock(&server->gate_lock);
    while (!server->stopping && server->connections >= server->config.max_connections)
        (void)pthread_cond_wait(&server->gate, &server->gate_lock);
    bool go = !server->stopping;
    (void)pthread_mutex_unlock(&server->gate_lock);
    return go;
}

/* One connection with a first request, or NULL. */
static struct request *server_accept(struct fcgi_server *server)
{
    struct request *r = mem_zalloc(sizeof *r);
    r->server = server;
    r->io.slot = -1;
    if (FCGX_InitRequest(&r->fcgx, server->config.listen_fd, FCGI_FAIL_ACCEPT_ON_INTR) != 0 ||
        FCGX_Accept_r(&r->fcgx) < 0) {
        FCGX_Free(&r->fcgx, 1);
        free(r);
        return NULL;
    }
    const struct timeval timeout = {.tv_sec = IO_TIMEOUT_S};
    (void)setsockopt(r->fcgx.ipcFd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    (void)setsockopt(r->fcgx.ipcFd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    /* From now on FCGX_Accept_r() on this object must never reach the listening socket. */
    r->fcgx.listen_sock = -1;
    return r;
}

static void *server_acceptor(void *argument)
{
    struct fcgi_server *server = argument;
    while (server_may_accept(server)) {
        struct request *r = server_accept(server);
        if (r == NULL) {
            (void)usleep(ACCEPT_PAUSE_US);
            continue;
        }
        (void)pthread_mutex_lock(&server->gate_lock);
        server->connections++;
        (void)pthread_mutex_unlock(&server->gate_lock);
        handover_put(&server->arrived, r);
        server_tell_engine(server);
    }
    (void)pthread_mutex_lock(&server->gate_lock);
    server->acceptor_done = true;
    (void)pthread_mutex_unlock(&server->gate_lock);
    server_tell_engine(server);
    return NULL;
}

static void *server_io_thread(void *argument)
{
    struct fcgi_server *server = argument;
    struct request *r;
    while ((r = handover_take(&server->io_work)) != NULL) {
        request_io(r);
        handover_put(&server->arrived, r);
        server_tell_engine(server);
    }
    return NULL;
}

static void server_wake(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct fcgi_server *server =
        (struct fcgi_server *)((char *)io - offsetof(struct fcgi_server, wake));
    uint64_t count;
    ssize_t ignored = read(io->fd, &count, sizeof count);
    (void)ignored;
    struct request_queue batch = TAILQ_HEAD_INITIALIZER(batch);
    handover_drain(&server->arrived, &batch);
    struct request *r;
    while ((r = TAILQ_FIRST(&batch)) != NULL) {
        TAILQ_REMOVE(&batch, r, link);
        switch (r->phase) {
        case REQUEST_ACCEPTED:
            TAILQ_INSERT_TAIL(&server->live, r, live_link);
            server->open++;
            request_begin(r);
            break;
        case REQUEST_READING:
            request_body_read(r);
            break;
        default:
            request_keep(r);
        }
    }
    server_check_drained(server);
}

bool fcgi_server_start(struct loop *loop, const struct fcgi_server_config *config,
                       struct fcgi_server **out, struct err *err)
{
    struct fcgi_server *server = mem_zalloc(sizeof *server);
    server->loop = loop;
    server->config = *config;
    (void)pthread_mutex_init(&server->gate_lock, NULL);
    (void)pthread_cond_init(&server->gate, NULL);
    handover_init(&server->arrived);
    handover_init(&server->io_work);
    TAILQ_INIT(&server->live);
    TAILQ_INIT(&server->waiting);
    if (FCGX_Init() != 0)
        return err_set(err, "FCGX_Init failed");
    /* libfcgi has installed handlers for SIGPIPE and SIGUSR1 now; SIGTERM it leaves alone when it
     * is blocked. Ours for the acceptor has no SA_RESTART, so accept() returns EINTR. */
    struct sigaction interrupt = {.sa_handler = server_interrupt};
    (void)sigaction(STOP_SIGNAL, &interrupt, NULL);
    server->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (server->wake_fd < 0)
        return err_set(err, "eventfd: %s", strerror(errno));
    if (!loop_watch(loop, &server->wake, server->wake_fd, EPOLLIN, server_wake, err))
        return false;
    server->io_threads = mem_zalloc((size_t)config->io_threads * sizeof *server->io_threads);
    for (int i = 0; i < config->io_threads; i++)
        if (pthread_create(&server->io_threads[i], NULL, server_io_thread, server) != 0)
            return err_set(err, "cannot start an I/O thread");
    if (pthread_create(&server->acceptor, NULL, server_acceptor, server) != 0)
        return err_set(err, "cannot start the acceptor thread");
    *out = server;
    return true;
}

void fcgi_server_stop(struct fcgi_server *server)
{
    (void)pthread_mutex_lock(&server->gate_lock);
    server->stopping = true;
    (void)pthread_cond_signal(&server->gate);
    (void)pthread_mutex_unlock(&server->gate_lock);
    /* The signal is lost when it comes just before accept(): repeat until the thread is out. */
    for (;;) {
        (void)pthread_mutex_lock(&server->gate_lock);
        bool done = server->acceptor_done;
        (void)pthread_mutex_unlock(&server->gate_lock);
        if (done)
            break;
        (void)pthread_kill(server->acceptor, STOP_SIGNAL);
        (void)usleep(1000);
    }
    (void)pthread_join(server->acceptor, NULL);
    struct request *r, *next;
    for (r = TAILQ_FIRST(&server->live); r != NULL; r = next) {
        next = TAILQ_NEXT(r, live_link);
        /* A request that nginx has already written is served first. */
        if (r->phase == REQUEST_KEPT &&
            recv(r->fcgx.ipcFd, &(char){0}, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)
            request_close(r);
    }
    server_tell_engine(server);
}

void server_check_drained(struct fcgi_server *server)
{
    (void)pthread_mutex_lock(&server->gate_lock);
    bool out = server->stopping && server->acceptor_done;
    (void)pthread_mutex_unlock(&server->gate_lock);
    if (!out || !TAILQ_EMPTY(&server->live) || server->drained_told)
        return;
    (void)pthread_mutex_lock(&server->arrived.lock);
    bool empty = TAILQ_EMPTY(&server->arrived.queue);
    (void)pthread_mutex_unlock(&server->arrived.lock);
    if (!empty)
        return;
    server->drained_told = true;
    if (server->config.drained != NULL)
        server->config.drained(server->config.owner);
}

void fcgi_server_free(struct fcgi_server *server)
{
    handover_close(&server->io_work);
    for (int i = 0; i < server->config.io_threads; i++)
        (void)pthread_join(server->io_threads[i], NULL);
    loop_unwatch(server->loop, &server->wake);
    (void)close(server->wake_fd);
    free(server->io_threads);
    free(server);
}

size_t fcgi_server_connections(const struct fcgi_server *server)
{
    struct fcgi_server *s = (struct fcgi_server *)server;
    (void)pthread_mutex_lock(&s->gate_lock);
    size_t n = s->connections;
    (void)pthread_mutex_unlock(&s->gate_lock);
    return n;
}
