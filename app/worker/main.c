/* queen-worker: one FastCGI worker process. Starts the parts, runs the engine, stops in order. */
#include "base/logger.h"
#include "worker/ack.h"
#include "worker/pop.h"
#include "worker/push.h"
#include "worker/push_fusion.h"
#include "worker/push_spool.h"
#include "worker/wake.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    DRAIN_MS = 8000,           /* a stopping worker waits so long for what is on its way */
    RESERVED_DESCRIPTORS = 256 /* beside client connections: database, FIFOs, logs */
};

struct worker_process {
    struct worker w;
    struct loop_io signals;
    struct loop_timer heartbeat, drain_limit;
};

static void worker_request(struct request *r, void *owner)
{
    routes_dispatch(owner, r);
}

static void worker_answered(int status, void *owner)
{
    struct worker *w = owner;
    WORKER_COUNT(w, requests, 1);
    if (status >= 500)
        WORKER_COUNT(w, responses_5xx, 1);
    else if (status >= 400)
        WORKER_COUNT(w, responses_4xx, 1);
}

static void worker_drained(void *owner)
{
    struct worker *w = owner;
    loop_stop(w->loop);
}

static void worker_drain_limit(struct loop_timer *timer)
{
    struct worker_process *p = TABLE_OWNER(timer, struct worker_process, drain_limit);
    logger_warn("worker", "requests still open after %d ms: exiting", DRAIN_MS);
    loop_stop(p->w.loop);
}

static void worker_signal(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct worker_process *p = TABLE_OWNER(io, struct worker_process, signals);
    struct signalfd_siginfo info;
    if (read(io->fd, &info, sizeof info) != (ssize_t)sizeof info || p->w.stopping)
        return;
    logger_info("worker", "stopping on signal %u", info.ssi_signo);
    p->w.stopping = true;
    loop_timer_set(p->w.loop, &p->drain_limit, loop_now_ms(p->w.loop) + DRAIN_MS);
    fcgi_server_stop(p->w.server);
    pop_answer_parked(&p->w);
}

static void worker_gauge_lanes(struct worker *w)
{
    const struct pg_lane *lanes[] = {w->push_lane,    w->pop_lane,   w->ack_lane,
                                     w->admin_lane,   w->kv_lane,    w->transaction_lane,
                                     w->streams_lane, w->report_lane};
    size_t up = 0, idle = 0, waiting = 0;
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++) {
        up += pg_lane_up(lanes[i]);
        idle += pg_lane_idle(lanes[i]);
        waiting += pg_lane_queued(lanes[i]);
    }
    atomic_store(&w->slot.counters->database_connections, up);
    atomic_store(&w->slot.counters->database_idle, idle);
    atomic_store(&w->slot.counters->database_waiting, waiting);
}

static void worker_heartbeat(struct loop_timer *timer)
{
    struct worker_process *p = TABLE_OWNER(timer, struct worker_process, heartbeat);
    struct worker *w = &p->w;
    slot_heartbeat(&w->slot);
    atomic_store(&w->slot.counters->connections, fcgi_server_connections(w->server));
    worker_gauge_lanes(w);
    loop_timer_set(w->loop, timer, loop_now_ms(w->loop) + SLOT_HEARTBEAT_MS);
}

static struct pg_lane *worker_lane(struct worker *w, const char *name, int64_t connections,
                                   void (*idle)(void *owner))
{
    struct pg_lane_config config = {.name = name,
                                    .conninfo = w->settings.database_url,
                                    .connections = (int)connections,
                                    .statement_timeout_ms =
                                        (uint64_t)w->settings.statement_timeout_ms,
                                    .idle = idle,
                                    .owner = w};
    return pg_lane_new(w->loop, &config);
}

/* Client connections that the open-file limit leaves room for. */
static size_t worker_max_connections(const struct worker *w)
{
    struct rlimit limit = {0};
    size_t wanted = (size_t)w->settings.max_connections;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 512;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur == RLIM_INFINITY || wanted + RESERVED_DESCRIPTORS <= limit.rlim_cur)
        return wanted;
    return limit.rlim_cur > 2 * RESERVED_DESCRIPTORS ? limit.rlim_cur - RESERVED_DESCRIPTORS : 64;
}

static bool worker_start(struct worker_process *p, struct err *err)
{
    struct worker *w = &p->w;
    const struct settings *s = &w->settings;
    w->loop = loop_new();
    w->packer = segment_packer_new((int)s->zstd_level);
    w->unpacker = segment_unpacker_new();
    if (!shm_attach(s, &w->shm, err) || !slot_claim(w->shm, SLOT_WORKER, &w->slot, err))
        return false;
    pop_engine_start(w);
    push_fusion_start(w);
    if (!ack_pipe_start(w, err) || !wake_start(w, err) || !push_spool_start(w, err))
        return false;
    w->push_lane = worker_lane(w, "push", s->push_connections, push_fusion_lane_idle);
    w->pop_lane = worker_lane(w, "pop", s->pop_connections, pop_lane_idle);
    w->ack_lane = worker_lane(w, "ack", s->ack_connections, NULL);
    w->admin_lane = worker_lane(w, "admin", s->admin_connections, NULL);
    w->kv_lane = worker_lane(w, "kv", s->kv_connections, NULL);
    w->transaction_lane = worker_lane(w, "transaction", s->transaction_connections, NULL);
    w->streams_lane = worker_lane(w, "streams", s->streams_connections, NULL);
    w->report_lane = worker_lane(w, "report", s->report_connections, NULL);
    w->timers_fifo = -1;
    struct fcgi_server_config config = {
        .listen_fd = 0, /* spawn-fcgi and systemd hand the listening socket over as stdin */
        .io_threads = (int)s->io_threads,
        .max_body_bytes = (size_t)s->max_body_bytes,
        .max_connections = worker_max_connections(w),
        .max_body_memory = (size_t)s->max_memory_mb << 20,
        .handle = worker_request,
        .answered = worker_answered,
        .drained = worker_drained,
        .owner = w,
    };
    if (!fcgi_server_start(w->loop, &config, &w->server, err))
        return false;
    p->heartbeat.fire = worker_heartbeat;
    p->drain_limit.fire = worker_drain_limit;
    worker_heartbeat(&p->heartbeat);
    return true;
}

/* SIGTERM, SIGINT and SIGQUIT arrive through the loop; the last one because Debian 12's multiwatch
 * sends it when it is told to send TERM. They are blocked before any thread exists, so that
 * none of them takes one. */
static int worker_block_signals(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGQUIT);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

static void worker_stop(struct worker *w)
{
    pg_lane_free(w->push_lane);
    pg_lane_free(w->pop_lane);
    pg_lane_free(w->ack_lane);
    pg_lane_free(w->admin_lane);
    pg_lane_free(w->kv_lane);
    pg_lane_free(w->transaction_lane);
    pg_lane_free(w->streams_lane);
    pg_lane_free(w->report_lane);
    push_spool_stop(w);
    wake_stop(w);
    ack_pipe_stop(w);
    slot_release(&w->slot);
}

int main(void)
{
    struct worker_process p = {0};
    struct err err;
    logger_init("queen-worker", LOGGER_INFO);
    int signals = worker_block_signals();
    if (!settings_load(&p.w.settings, &err) || !logger_set_level(p.w.settings.log_level, &err) ||
        !worker_start(&p, &err) ||
        !loop_watch(p.w.loop, &p.signals, signals, EPOLLIN, worker_signal, &err)) {
        logger_error("worker", "cannot start: %s", err.text);
        return EXIT_FAILURE;
    }
    logger_info("worker", "serving in slot %u", p.w.slot.index);
    loop_run(p.w.loop);
    /* What is still open dies with the process; PostgreSQL and the leases are the truth. */
    worker_stop(&p.w);
    return EXIT_SUCCESS;
}
