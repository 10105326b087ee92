/* One queen-keeper process: what its tasks share. One thread, one loop. */
#ifndef KEEPER_KEEPER_H
#define KEEPER_KEEPER_H

#include "base/loop.h"
#include "base/settings.h"
#include "pg/lane.h"
#include "shm/shm.h"
#include "shm/slots.h"

struct keeper {
    struct settings settings;
    struct loop *loop;
    struct shm *shm;
    struct slot slot;
    struct pg_lane *lane;
    struct loop_timer heartbeat_timer, sweep_timer;
    struct loop_io signals;
    bool stopping; /* outcomes of jobs that the exit cut short are no news */
};

#endif
