/* Reading ack records in bulk. */
#include "flusher/intake.h"

#include "base/logger.h"
#include "base/table.h"
#include "flusher/record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    INTAKE_BYTES = 256 * 1024,
    INTAKE_READS = 4, /* per round of the loop; then flushes and verdicts have their turn */
    /* Room for a burst: the kernel's default holds some 600 records. Not granted: no harm. */
    INTAKE_FIFO_BYTES = 1 << 20,
};

struct intake {
    struct loop *loop;
    struct loop_io io;
    int fd;
    uint32_t worker_slots;
    bool (*take)(const struct ack_record *record, struct slice group, void *owner);
    void *owner;
    bool paused, stopped;
    bool lost;       /* framing was lost: everything up to the next empty FIFO is thrown away */
    bool complained; /* about a record that no worker writes */
    size_t have;     /* bytes */
    char bytes[INTAKE_BYTES];
};

static void intake_complain(struct intake *in, const char *what)
{
    if (!in->complained)
        logger_error("ack-fusion", "%s in the ack FIFO: skipped (said once)", what);
    in->complained = true;
}

static void intake_pause(struct intake *in)
{
    if (in->paused)
        return;
    in->paused = true;
    logger_warn("ack-fusion", "too many acks wait for PostgreSQL: reading no more for now");
    loop_rewatch(in->loop, &in->io, 0);
}

static void intake_parse(struct intake *in)
{
    struct slice rest = {in->bytes, in->have};
    struct ack_record record;
    struct slice group;
    for (;;) {
        switch (record_next(&rest, in->worker_slots, &record, &group)) {
        case RECORD_OK:
            if (!in->take(&record, group, in->owner))
                intake_pause(in);
            continue;
        case RECORD_INVALID:
            intake_complain(in, "an invalid record");
            continue;
        case RECORD_LOST:
            intake_complain(in, "a record of impossible length");
            in->lost = true;
            in->have = 0;
            return;
        case RECORD_SHORT:
            memmove(in->bytes, rest.p, rest.n);
            in->have = rest.n;
            return;
        }
    }
}

static void intake_ready(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct intake *in = TABLE_OWNER(io, struct intake, io);
    for (int i = 0; i < INTAKE_READS && !in->paused; i++) {
        ssize_t n = read(in->fd, in->bytes + in->have, sizeof in->bytes - in->have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            die("read of the ack FIFO: %s", strerror(errno));
        if (n < 0) {
            /* Writes are atomic: where the FIFO is empty, a record ends. */
            if (in->have > 0)
                intake_complain(in, "a torn record");
            in->have = 0;
            in->lost = false;
            return;
        }
        if (in->lost)
            continue;
        in->have += (size_t)n;
        intake_parse(in);
    }
}

struct intake *intake_new(struct loop *loop, const char *run_dir, uint32_t worker_slots,
                          bool (*take)(const struct ack_record *record, struct slice group,
                                       void *owner),
                          void *owner, struct err *err)
{
    char path[PATH_MAX];
    fifo_path_ack(run_dir, path, sizeof path);
    int fd = fifo_open_reader(path, err);
    if (fd < 0)
        return NULL;
    (void)fcntl(fd, F_SETPIPE_SZ, INTAKE_FIFO_BYTES);
    struct intake *in = mem_alloc(sizeof *in);
    memset(in, 0, offsetof(struct intake, bytes));
    in->loop = loop;
    in->fd = fd;
    in->worker_slots = worker_slots;
    in->take = take;
    in->owner = owner;
    if (!loop_watch(loop, &in->io, fd, EPOLLIN, intake_ready, err)) {
        (void)close(fd);
        free(in);
        return NULL;
    }
    return in;
}

void intake_resume(struct intake *in)
{
    if (!in->paused || in->stopped)
        return;
    in->paused = false;
    loop_rewatch(in->loop, &in->io, EPOLLIN);
}

void intake_stop(struct intake *in)
{
    in->stopped = true;
    loop_unwatch(in->loop, &in->io);
}

void intake_free(struct intake *in)
{
    loop_unwatch(in->loop, &in->io);
    (void)close(in->fd);
    free(in);
}
