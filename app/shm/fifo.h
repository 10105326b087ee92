/* FIFOs between the processes of one host, and the records on them. Every record is shorter than
 * PIPE_BUF, so a write is atomic (pipe(7)). Paths are under the run directory, mode 0600/0660. */
#ifndef SHM_FIFO_H
#define SHM_FIFO_H

#include "base/err.h"
#include "base/slice.h"
#include "base/uuid.h"

#include <stdint.h>

/* Worker to flusher: advance one cursor. Followed by group_length bytes of group name. */
struct ack_record {
    uint32_t length; /* of the whole record, this header included */
    uint32_t worker_slot;
    uint32_t worker_generation;
    uint32_t message_count;
    uint64_t ticket; /* the worker's; echoed in the verdict */
    int64_t batch_end;
    struct uuid partition_id;
    struct uuid lease_id;
    uint16_t group_length; /* 0..512 */
    uint8_t reserved[6];
};
#define ACK_RECORD_MAX (sizeof(struct ack_record) + 512)

enum ack_verdict {
    ACK_COMMITTED = 1, /* the cursor is durable, the lease released */
    ACK_REJECTED, /* PostgreSQL refused this row (stale lease, beyond batch): take the hash path */
    ACK_FLUSH_ERROR, /* the whole flush failed and nothing was committed */
    ACK_UNKNOWN, /* the connection broke after the commit was sent and it could not be settled */
};

/* Flusher to worker. */
struct verdict_record {
    uint64_t ticket;
    uint32_t worker_generation;
    uint32_t verdict; /* enum ack_verdict */
};

/* Any process to a worker: look again, there may be work. Hashes are table_hash(). */
struct wake_record {
    uint64_t queue;     /* table_hash(queue name, ""); 0 = every queue */
    uint64_t partition; /* table_hash(partition name, ""); 0 = any of the queue */
    uint64_t group;     /* table_hash(group, ""); 0 = every group */
};

/* Worker to keeper: a timer is due then. */
struct timer_record {
    uint64_t due_ms; /* clock_mono_ms() */
};

/* "<run_dir>/timers.fifo" */
void fifo_path_timers(const char *run_dir, char *out, size_t size);
/* "<run_dir>/ack.fifo", "<run_dir>/verdict.<slot>.fifo", "<run_dir>/wake.<slot>.fifo" */
void fifo_path_ack(const char *run_dir, char *out, size_t size);
void fifo_path_verdict(const char *run_dir, uint32_t slot, char *out, size_t size);
void fifo_path_wake(const char *run_dir, uint32_t slot, char *out, size_t size);

/* Makes the FIFO if needed (0600) and opens the reading end, non-blocking. The descriptor is
 * opened O_RDWR so that the last writer's close is no end of file; what an earlier reader left in
 * the FIFO is read by this one. -1 with err. */
MUST_CHECK int fifo_open_reader(const char *path, struct err *err);

/* Opens the writing end, O_WRONLY|O_NONBLOCK: -1 (no err text needed) when nobody reads. */
int fifo_open_writer(const char *path);

enum fifo_result { FIFO_DONE, FIFO_FULL, FIFO_GONE };
/* One atomic write of at most PIPE_BUF bytes; the process ignores SIGPIPE. FIFO_GONE: no reader any
 * more; close and reopen. */
MUST_CHECK enum fifo_result fifo_write(int fd, const void *record, size_t n);

#endif
