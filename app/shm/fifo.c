/* FIFOs: paths, both ends, atomic writes. */
#include "shm/fifo.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(ACK_RECORD_MAX <= PIPE_BUF, "an ack record is one atomic write");
_Static_assert(PIPE_BUF % sizeof(struct verdict_record) == 0, "a run of verdicts fills a write");

void fifo_path_timers(const char *run_dir, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/timers.fifo", run_dir);
}

void fifo_path_ack(const char *run_dir, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/ack.fifo", run_dir);
}

void fifo_path_verdict(const char *run_dir, uint32_t slot, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/verdict.%" PRIu32 ".fifo", run_dir, slot);
}

void fifo_path_wake(const char *run_dir, uint32_t slot, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/wake.%" PRIu32 ".fifo", run_dir, slot);
}

/* Only a FIFO of our own user: in a shared run directory somebody else's would be a way in. */
static int fifo_open(const char *path, int flags, struct err *err)
{
    int fd = open(path, flags | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        (void)err_set(err, "open %s: %s", path, strerror(errno));
        return -1;
    }
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && st.st_uid == geteuid())
        return fd;
    (void)err_set(err, "%s is not a FIFO of user %u", path, (unsigned)geteuid());
    (void)close(fd);
    return -1;
}

int fifo_open_reader(const char *path, struct err *err)
{
    if (mkfifo(path, 0600) != 0 && errno != EEXIST) {
        (void)err_set(err, "make FIFO %s: %s", path, strerror(errno));
        return -1;
    }
    return fifo_open(path, O_RDWR, err);
}

int fifo_open_writer(const char *path)
{
    return fifo_open(path, O_WRONLY, NULL);
}

enum fifo_result fifo_write(int fd, const void *record, size_t n)
{
    if (n > PIPE_BUF)
        die("write of %zu bytes to a FIFO would not be atomic", n);
    for (;;) {
        if (write(fd, record, n) >= 0)
            return FIFO_DONE;
        if (errno == EAGAIN)
            return FIFO_FULL;
        if (errno == EPIPE)
            return FIFO_GONE;
        if (errno != EINTR)
            die("write to a FIFO: %s", strerror(errno));
    }
}
