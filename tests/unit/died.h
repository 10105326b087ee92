/* For tests of what must end the process: runs a function in a child and says whether it aborted.
 */
#ifndef TESTS_DIED_H
#define TESTS_DIED_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static inline bool died_in(void (*run)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)close(STDERR_FILENO);
        (void)signal(SIGABRT, SIG_DFL);
        run();
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
           WTERMSIG(status) == SIGABRT;
}

#endif
