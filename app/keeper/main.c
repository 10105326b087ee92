/* queen-keeper: what has to happen now and then, once per host: hints about writes of other hosts,
 * timers, draining the push spool, upkeep (hash rows, retention, expired keys), reclaiming slots of
 * dead processes. One per instance. */
#include "base/logger.h"
#include "base/table.h"
#include "keeper/hints.h"
#include "keeper/keeper.h"
#include "keeper/maintenance.h"
#include "keeper/metrics.h"
#include "keeper/spool.h"
#include "keeper/timers.h"
#include "keeper/upkeep.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    SWEEP_MS = 5000,
    CONNECTIONS = 3, /* neither a step of upkeep nor a look at the queues may hold up a hint */
};

static void keeper_heartbeat(struct loop_timer *timer)
{
    struct keeper *k = TABLE_OWNER(timer, struct keeper, heartbeat_timer);
    slot_heartbeat(&k->slot);
    atomic_store_explicit(&k->slot.counters->database_reconnects, pg_lane_lost(k->lane),
                          memory_order_relaxed);
    loop_timer_set(k->loop, timer, loop_now_ms(k->loop) + SLOT_HEARTBEAT_MS);
}

static void keeper_sweep(struct loop_timer *timer)
{
    struct keeper *k = TABLE_OWNER(timer, struct keeper, sweep_timer);
    size_t freed = slot_sweep(k->shm);
    if (freed > 0)
        logger_info("keeper", "freed %zu slots of processes that died", freed);
    loop_timer_set(k->loop, timer, loop_now_ms(k->loop) + SWEEP_MS);
}

static void keeper_signal(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct keeper *k = TABLE_OWNER(io, struct keeper, signals);
    struct signalfd_siginfo info;
    if (read(io->fd, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    logger_info("keeper", "stopping on signal %u", info.ssi_signo);
    k->stopping = true;
    loop_stop(k->loop);
}

static bool keeper_watch_signals(struct keeper *k, struct err *err)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* a worker that died is an error code of write(2) */
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd < 0)
        return err_set(err, "signalfd: %s", strerror(errno));
    return loop_watch(k->loop, &k->signals, fd, EPOLLIN, keeper_signal, err);
}

static bool keeper_start(struct keeper *k, struct err *err)
{
    if (!settings_load(&k->settings, err) || !logger_set_level(k->settings.log_level, err))
        return false;
    k->loop = loop_new();
    if (!keeper_watch_signals(k, err) || !shm_attach(&k->settings, &k->shm, err) ||
        !slot_claim(k->shm, SLOT_KEEPER, &k->slot, err))
        return false;
    struct pg_lane_config lane = {.name = "keeper",
                                  .conninfo = k->settings.database_url,
                                  .connections = CONNECTIONS,
                                  .statement_timeout_ms =
                                      (uint64_t)k->settings.statement_timeout_ms};
    k->lane = pg_lane_new(k->loop, &lane);
    k->heartbeat_timer.fire = keeper_heartbeat;
    k->sweep_timer.fire = keeper_sweep;
    keeper_heartbeat(&k->heartbeat_timer);
    keeper_sweep(&k->sweep_timer);
    return true;
}

int main(void)
{
    static struct keeper k;
    struct err err;
    logger_init("queen-keeper", LOGGER_INFO);
    if (!keeper_start(&k, &err)) {
        logger_error("keeper", "cannot start: %s", err.text);
        return EXIT_FAILURE;
    }
    struct hints *hints = hints_new(&k);
    struct upkeep *upkeep = upkeep_new(&k);
    struct metrics *metrics = metrics_new(&k);
    struct timers *timers = timers_new(&k, hints, &err);
    struct maintenance *maintenance = maintenance_new(&k, hints);
    struct spool *spool = timers == NULL ? NULL : spool_new(&k, hints, maintenance, &err);
    if (spool == NULL) {
        logger_error("keeper", "cannot start: %s", err.text);
        return EXIT_FAILURE;
    }
    logger_info("keeper", "ready");
    loop_run(k.loop);
    spool_free(spool);
    timers_free(timers);
    pg_lane_free(k.lane);
    maintenance_free(maintenance);
    metrics_free(metrics);
    upkeep_free(upkeep);
    hints_free(hints);
    slot_release(&k.slot);
    shm_detach(k.shm);
    loop_free(k.loop);
    return EXIT_SUCCESS;
}
