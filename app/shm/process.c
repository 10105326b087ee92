/* Process identity from /proc/<pid>/stat. */
#include "shm/process.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum process_state { PROCESS_GONE, PROCESS_RUNS, PROCESS_UNKNOWN };

static enum process_state process_read(pid_t pid, uint64_t *start_time)
{
    char path[48], text[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? PROCESS_GONE : PROCESS_UNKNOWN;
    ssize_t n = read(fd, text, sizeof text - 1);
    int failed = errno;
    (void)close(fd);
    if (n < 0)
        return failed == ESRCH ? PROCESS_GONE : PROCESS_UNKNOWN;
    text[n] = '\0';
    /* The command name, in parentheses, may hold spaces and parentheses itself. */
    const char *rest = strrchr(text, ')');
    char state;
    if (rest == NULL ||
        sscanf(rest + 1,
               " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
               " %" SCNu64,
               &state, start_time) != 2)
        return PROCESS_UNKNOWN;
    return state == 'Z' || state == 'X' ? PROCESS_GONE : PROCESS_RUNS;
}

uint64_t process_start_time(void)
{
    uint64_t start_time;
    if (process_read(getpid(), &start_time) != PROCESS_RUNS)
        die("cannot read /proc/%d/stat", (int)getpid());
    return start_time;
}

uint64_t process_age_ms(uint64_t start_time)
{
    struct timespec now;
    uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
    if (clock_gettime(CLOCK_BOOTTIME, &now) != 0)
        return 0;
    uint64_t now_ms = (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
    uint64_t start_ms = start_time * 1000u / ticks;
    return now_ms > start_ms ? now_ms - start_ms : 0;
}

bool process_alive(pid_t pid, uint64_t start_time)
{
    uint64_t now;
    switch (process_read(pid, &now)) {
    case PROCESS_RUNS:
        return now == start_time;
    case PROCESS_UNKNOWN:
        return true;
    case PROCESS_GONE:
        break;
    }
    return false;
}
