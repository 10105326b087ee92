/* queen-flusher: commits the acks of all workers of one host, many per transaction. One per
 * instance. Starts the parts, says every ten seconds what it did, stops in order. */
#include "base/logger.h"
#include "flusher/intake.h"
#include "flusher/shard.h"
#include "flusher/verdict.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    SHARDS_MAX = 64, /* as QUEEN_ACK_FUSION_SHARDS allows */
    SWEEP_MS = 5000, /* slots of processes that died */
    SUMMARY_MS = 10000,
    DRAIN_MS = 8000, /* a stopping flusher waits so long for PostgreSQL and slow workers */
    /* Acks without a verdict, at most: some 50 MB. Beyond, nothing is read until it is half. */
    PENDING_MAX = 200000,
};

struct flusher {
    struct settings settings;
    struct loop *loop;
    struct shm *shm;
    struct slot slot;
    struct intake *intake;
    struct shard_shared shared;
    struct shard shards[SHARDS_MAX];
    size_t shard_count;
    struct loop_task flush; /* at the end of a round: idle shards send what has gathered */
    struct loop_timer hold; /* liveness: the same, should anything have been forgotten */
    struct loop_timer heartbeat, summary, drain_limit;
    uint64_t swept_at_ms;
    struct loop_io signals;
    bool stopping;
};

static void flusher_flush(struct flusher *f)
{
    for (size_t i = 0; i < f->shard_count; i++)
        shard_flush(&f->shards[i]);
}

static void flusher_flush_task(struct loop_task *task)
{
    flusher_flush(TABLE_OWNER(task, struct flusher, flush));
}

static void flusher_hold_arm(struct flusher *f)
{
    if (f->shared.pending > 0 && !loop_timer_armed(&f->hold))
        loop_timer_set(f->loop, &f->hold,
                       loop_now_ms(f->loop) + (uint64_t)f->settings.ack_fusion_hold_ms);
}

static void flusher_hold(struct loop_timer *timer)
{
    struct flusher *f = TABLE_OWNER(timer, struct flusher, hold);
    flusher_flush(f);
    flusher_hold_arm(f);
}

static bool flusher_take(const struct ack_record *record, struct slice group, void *owner)
{
    struct flusher *f = owner;
    struct slice partition = {(const char *)record->partition_id.bytes, sizeof(struct uuid)};
    size_t shard = table_hash(partition, (struct slice){0}) % f->shard_count;
    slot_count(&f->slot.counters->flusher_requests, 1);
    shard_add(&f->shards[shard], record, group);
    loop_task_queue(f->loop, &f->flush);
    flusher_hold_arm(f);
    return f->shared.pending < PENDING_MAX;
}

static void flusher_stop_when_drained(void *owner)
{
    struct flusher *f = owner;
    if (f->stopping && f->shared.pending == 0 && verdict_box_empty(f->shared.verdicts))
        loop_stop(f->loop);
}

static void flusher_idle(void *owner)
{
    struct flusher *f = owner;
    loop_task_queue(f->loop, &f->flush);
    if (f->shared.pending <= PENDING_MAX / 2)
        intake_resume(f->intake);
    flusher_stop_when_drained(f);
}

static void flusher_heartbeat(struct loop_timer *timer)
{
    struct flusher *f = TABLE_OWNER(timer, struct flusher, heartbeat);
    uint64_t now = loop_now_ms(f->loop);
    slot_heartbeat(&f->slot);
    atomic_store_explicit(&f->slot.counters->database_reconnects, pg_lane_lost(f->shared.lane),
                          memory_order_relaxed);
    if (now >= f->swept_at_ms + SWEEP_MS) {
        f->swept_at_ms = now;
        size_t freed = slot_sweep(f->shm);
        if (freed > 0)
            logger_info("flusher", "freed %zu slots of processes that died", freed);
    }
    loop_timer_set(f->loop, timer, now + SLOT_HEARTBEAT_MS);
}

static void flusher_summarise(struct flusher *f)
{
    struct shard_shared *s = &f->shared;
    if (s->commits > 0)
        logger_info("ack-fusion",
                    "coalesce summary commits=%" PRIu64 " rows=%" PRIu64 " rows_per_commit=%.1f",
                    s->commits, s->rows, (double)s->rows / (double)s->commits);
    s->commits = s->rows = 0;
}

static void flusher_summary(struct loop_timer *timer)
{
    struct flusher *f = TABLE_OWNER(timer, struct flusher, summary);
    flusher_summarise(f);
    loop_timer_set(f->loop, timer, loop_now_ms(f->loop) + SUMMARY_MS);
}

static void flusher_drain_limit(struct loop_timer *timer)
{
    struct flusher *f = TABLE_OWNER(timer, struct flusher, drain_limit);
    logger_warn("flusher", "%zu acks still open after %d ms: exiting", f->shared.pending, DRAIN_MS);
    loop_stop(f->loop);
}

static void flusher_signal(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct flusher *f = TABLE_OWNER(io, struct flusher, signals);
    struct signalfd_siginfo info;
    if (read(io->fd, &info, sizeof info) != (ssize_t)sizeof info || f->stopping)
        return;
    logger_info("flusher", "stopping on signal %u", info.ssi_signo);
    f->stopping = true;
    intake_stop(f->intake);
    loop_timer_set(f->loop, &f->drain_limit, loop_now_ms(f->loop) + DRAIN_MS);
    flusher_flush(f);
    flusher_stop_when_drained(f);
}

/* SIGTERM and SIGINT arrive through the loop; a dead reader of a FIFO is an error code. */
static int flusher_block_signals(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* One FIFO per worker is kept open. */
static void flusher_raise_open_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static uint64_t flusher_patience_ms(const struct settings *s)
{
    /* Behind the workers' own limit nobody waits any more. */
    return (uint64_t)(s->ack_verdict_timeout_ms < s->statement_timeout_ms
                          ? s->ack_verdict_timeout_ms
                          : s->statement_timeout_ms);
}

static bool flusher_start(struct flusher *f, struct err *err)
{
    const struct settings *s = &f->settings;
    uint32_t worker_slots = (uint32_t)s->worker_slots;
    if (!shm_attach(s, &f->shm, err) || !slot_claim(f->shm, SLOT_FLUSHER, &f->slot, err))
        return false;
    f->loop = loop_new();
    f->shared = (struct shard_shared){
        .loop = f->loop,
        .verdicts = verdict_box_new(f->loop, f->shm, s->run_dir, worker_slots,
                                    flusher_stop_when_drained, f),
        .counters = f->slot.counters,
        .patience_ms = flusher_patience_ms(s),
        .idle = flusher_idle,
        .owner = f,
    };
    struct pg_lane_config lane = {.name = "flusher",
                                  .conninfo = s->database_url,
                                  .connections = (int)s->flusher_connections,
                                  .statement_timeout_ms = (uint64_t)s->statement_timeout_ms};
    f->shared.lane = pg_lane_new(f->loop, &lane);
    f->shard_count = (size_t)s->ack_fusion_shards;
    for (size_t i = 0; i < f->shard_count; i++)
        shard_init(&f->shards[i], &f->shared);
    f->flush.run = flusher_flush_task;
    f->hold.fire = flusher_hold;
    f->heartbeat.fire = flusher_heartbeat;
    f->summary.fire = flusher_summary;
    f->drain_limit.fire = flusher_drain_limit;
    /* Last: from here on workers send. */
    f->intake = intake_new(f->loop, s->run_dir, worker_slots, flusher_take, f, err);
    if (f->intake == NULL)
        return false;
    flusher_heartbeat(&f->heartbeat);
    loop_timer_set(f->loop, &f->summary, loop_now_ms(f->loop) + SUMMARY_MS);
    return true;
}

static void flusher_stop(struct flusher *f)
{
    f->shared.closing = true;
    pg_lane_free(f->shared.lane);
    for (size_t i = 0; i < f->shard_count; i++)
        shard_close(&f->shards[i]);
    verdict_box_free(f->shared.verdicts);
    flusher_summarise(f);
    intake_free(f->intake);
    slot_release(&f->slot);
    shm_detach(f->shm);
    loop_free(f->loop);
}

int main(void)
{
    static struct flusher f;
    struct err err;
    logger_init("queen-flusher", LOGGER_INFO);
    int signals = flusher_block_signals();
    flusher_raise_open_files();
    if (!settings_load(&f.settings, &err) || !logger_set_level(f.settings.log_level, &err) ||
        !flusher_start(&f, &err) ||
        !loop_watch(f.loop, &f.signals, signals, EPOLLIN, flusher_signal, &err)) {
        logger_error("flusher", "cannot start: %s", err.text);
        return EXIT_FAILURE;
    }
    logger_info("flusher", "ready: %zu shards, %" PRId64 " connections", f.shard_count,
                f.settings.flusher_connections);
    loop_run(f.loop);
    flusher_stop(&f);
    return EXIT_SUCCESS;
}
