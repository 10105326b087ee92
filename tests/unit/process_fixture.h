/* Running the product's programs from a test: those of the build directory that the test is in. */
#ifndef TESTS_PROCESS_FIXTURE_H
#define TESTS_PROCESS_FIXTURE_H

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Starts build/bin/<program> with up to two arguments (NULL = none); its output goes to the file
 * `output`. */
static inline pid_t process_start(const char *program, const char *arg1, const char *arg2,
                                  const char *output)
{
    char self[PATH_MAX] = {0}, path[PATH_MAX + 64];
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        exit(2);
    (void)snprintf(path, sizeof path, "%s/../bin/%s", dirname(self), program);
    (void)unlink(output); /* nobody may read an earlier run's */
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that aborts leaves nothing running */
    int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    (void)execl(path, program, arg1, arg1 == NULL ? NULL : arg2, (char *)NULL);
    perror(path);
    _exit(127);
}

/* The exit code, or 128 + the signal. */
static inline int process_wait(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) != pid)
        exit(2);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline bool file_has(const char *path, const char *text)
{
    static char content[65536];
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return false;
    size_t n = fread(content, 1, sizeof content - 1, f);
    (void)fclose(f);
    content[n] = '\0';
    return strstr(content, text) != NULL;
}

#endif
