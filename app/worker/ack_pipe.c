/* The way to the flusher and back: records into the ack FIFO, verdicts from this worker's own. A
 * parked ack holds no connection and no thread. */
#include "worker/ack.h"

#include "base/logger.h"
#include "shm/fifo.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

enum { ACK_PIPE_REOPEN_MS = 100, VERDICTS_READ = 256 };

struct ack_pipe {
    struct worker *w;
    struct loop_io out; /* the ack FIFO's writing end, watched for the flusher's death only */
    int out_fd;         /* -1 = no flusher */
    uint64_t reopen_at_ms;
    struct loop_io in;    /* verdicts */
    struct table tickets; /* struct ack_group by ticket */
    uint64_t next_ticket;
};

static bool ack_ticket_equal(const struct table_node *node, const void *key)
{
    return TABLE_OWNER(node, const struct ack_group, ticket_node)->ticket == *(const uint64_t *)key;
}

static void ack_ticket_end(struct ack_pipe *pipe, struct ack_group *g)
{
    table_remove(&pipe->tickets, &g->ticket_node);
    loop_timer_cancel(pipe->w->loop, &g->timer);
}

/* The flusher is gone: what it had not answered may be committed or not. Advancing the cursor to
 * the same place again under the same lease is answered as the first time, so this worker asks for
 * every open ticket itself. */
static void ack_pipe_lost(struct ack_pipe *pipe)
{
    loop_unwatch(pipe->w->loop, &pipe->out);
    (void)close(pipe->out_fd);
    pipe->out_fd = -1;
    pipe->reopen_at_ms = loop_now_ms(pipe->w->loop) + ACK_PIPE_REOPEN_MS;
    size_t open = pipe->tickets.count;
    if (open > 0)
        logger_warn("ack-fusion", "flusher gone with %zu acks open: committing them here", open);
    for (size_t i = 0; i < pipe->tickets.bucket_count; i++) {
        while (pipe->tickets.buckets[i] != NULL) {
            struct ack_group *g =
                TABLE_OWNER(pipe->tickets.buckets[i], struct ack_group, ticket_node);
            ack_ticket_end(pipe, g);
            g->unsettled = true; /* the flusher may have committed it */
            ack_positional_start(g);
        }
    }
}

static void ack_pipe_error(struct loop_io *io, uint32_t events)
{
    if (events & (EPOLLERR | EPOLLHUP))
        ack_pipe_lost(TABLE_OWNER(io, struct ack_pipe, out));
}

static bool ack_pipe_open(struct ack_pipe *pipe)
{
    struct err err;
    char path[PATH_MAX];
    if (pipe->out_fd >= 0)
        return true;
    if (loop_now_ms(pipe->w->loop) < pipe->reopen_at_ms)
        return false;
    pipe->reopen_at_ms = loop_now_ms(pipe->w->loop) + ACK_PIPE_REOPEN_MS;
    fifo_path_ack(pipe->w->settings.run_dir, path, sizeof path);
    pipe->out_fd = fifo_open_writer(path);
    if (pipe->out_fd < 0)
        return false;
    if (!loop_watch(pipe->w->loop, &pipe->out, pipe->out_fd, 0, ack_pipe_error, &err)) {
        logger_error("ack-fusion", "%s", err.text);
        (void)close(pipe->out_fd);
        pipe->out_fd = -1;
        return false;
    }
    return true;
}

static void ack_ticket_late(struct loop_timer *timer)
{
    struct ack_group *g = TABLE_OWNER(timer, struct ack_group, timer);
    ack_ticket_end(g->request->w->ack, g);
    g->unsettled = true; /* the flusher may have committed it, or still be at it */
    ack_positional_start(g);
}

bool ack_pipe_send(struct ack_group *g)
{
    struct worker *w = g->request->w;
    struct ack_pipe *pipe = w->ack;
    struct slice group = g->request->consumer_group;
    struct {
        struct ack_record record;
        char group[NAME_MAX_BYTES];
    } message = {.record = {.length = (uint32_t)(sizeof(struct ack_record) + group.n),
                            .worker_slot = w->slot.index,
                            .worker_generation = w->slot.generation,
                            .message_count = g->message_count,
                            .ticket = ++pipe->next_ticket,
                            .batch_end = g->batch_end,
                            .partition_id = g->partition_id,
                            .lease_id = g->lease_id,
                            .group_length = (uint16_t)group.n}};
    memcpy(message.group, group.p, group.n);
    if (!ack_pipe_open(pipe))
        return false;
    switch (fifo_write(pipe->out_fd, &message, message.record.length)) {
    case FIFO_FULL:
        return false;
    case FIFO_GONE:
        ack_pipe_lost(pipe);
        return false;
    case FIFO_DONE:
        break;
    }
    g->ticket = pipe->next_ticket;
    table_insert(&pipe->tickets, &g->ticket_node, g->ticket);
    g->timer.fire = ack_ticket_late;
    loop_timer_set(w->loop, &g->timer,
                   loop_now_ms(w->loop) + (uint64_t)w->settings.ack_verdict_timeout_ms);
    WORKER_COUNT(w, ack_fused, 1);
    return true;
}

static void ack_verdict(struct ack_pipe *pipe, const struct verdict_record *v)
{
    struct table_node *node = v->worker_generation != pipe->w->slot.generation
                                  ? NULL
                                  : table_find(&pipe->tickets, v->ticket, &v->ticket);
    if (node == NULL) {
        WORKER_COUNT(pipe->w, ack_verdicts_late, 1);
        return;
    }
    struct ack_group *g = TABLE_OWNER(node, struct ack_group, ticket_node);
    ack_ticket_end(pipe, g);
    switch ((enum ack_verdict)v->verdict) {
    case ACK_COMMITTED:
        ack_group_committed(g);
        break;
    case ACK_REJECTED:
        WORKER_COUNT(pipe->w, ack_rejected, 1);
        ack_hash_start(g);
        break;
    case ACK_FLUSH_ERROR:
        ack_group_fail(g, ACK_FLUSH_FAILED);
        break;
    case ACK_UNKNOWN:
        g->unsettled = true;
        ack_positional_start(g);
        break;
    }
}

static void ack_pipe_read(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct ack_pipe *pipe = TABLE_OWNER(io, struct ack_pipe, in);
    struct verdict_record verdicts[VERDICTS_READ];
    ssize_t n = read(io->fd, verdicts, sizeof verdicts);
    for (ssize_t at = 0; at + (ssize_t)sizeof *verdicts <= n; at += (ssize_t)sizeof *verdicts)
        ack_verdict(pipe, &verdicts[(size_t)at / sizeof *verdicts]);
}

bool ack_pipe_start(struct worker *w, struct err *err)
{
    struct ack_pipe *pipe = mem_zalloc(sizeof *pipe);
    char path[PATH_MAX];
    pipe->w = w;
    pipe->out_fd = -1;
    pipe->tickets.equal = ack_ticket_equal;
    w->ack = pipe;
    fifo_path_verdict(w->settings.run_dir, w->slot.index, path, sizeof path);
    int fd = fifo_open_reader(path, err);
    return fd >= 0 && loop_watch(w->loop, &pipe->in, fd, EPOLLIN, ack_pipe_read, err);
}

void ack_pipe_stop(struct worker *w)
{
    struct ack_pipe *pipe = w->ack;
    if (pipe->out_fd >= 0) {
        loop_unwatch(w->loop, &pipe->out);
        (void)close(pipe->out_fd);
    }
    loop_unwatch(w->loop, &pipe->in);
    (void)close(pipe->in.fd);
    table_free(&pipe->tickets);
    free(pipe);
    w->ack = NULL;
}
