/* The operator's log on stderr. One write(2) a line, so lines of several processes never mix. */
#include "base/logger.h"

#include "base/clock.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *logger_program = "queen";
static enum logger_level logger_max = LOGGER_INFO;

void logger_init(const char *program, enum logger_level level)
{
    logger_program = program;
    logger_max = level;
}

bool logger_set_level(const char *name, struct err *err)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            logger_max = (enum logger_level)i;
            return true;
        }
    }
    return err_set(err, "QUEEN_LOG_LEVEL=\"%s\" is not one of error, warn, info, debug", name);
}

static void logger_write(enum logger_level level, const char *target, const char *fmt, va_list ap)
{
    static const char *const names[] = {"ERROR", "WARN", "INFO", "DEBUG"};
    if (level > logger_max)
        return;
    char text[2048];
    char when[CLOCK_ISO_SIZE];
    clock_iso_utc(clock_wall_us(), when);
    int head = snprintf(text, 128, "%s %s %s[%d] %.40s: ", when, names[level], logger_program,
                        (int)getpid(), target);
    size_t used = head > 127 ? 127 : (size_t)head;
    int body = vsnprintf(text + used, sizeof text - used - 1, fmt, ap);
    size_t end = used + (body < 0 ? 0 : (size_t)body);
    if (end > sizeof text - 2)
        end = sizeof text - 2;
    for (size_t i = used; i < end; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = '?';
    text[end] = '\n';
    int saved = errno;
    ssize_t ignored = write(STDERR_FILENO, text, end + 1);
    (void)ignored; /* nowhere left to report a log that cannot be written */
    errno = saved;
}

#define LOGGER_DEFINE(name, level)                                                                 \
    void name(const char *target, const char *fmt, ...)                                            \
    {                                                                                              \
        va_list ap;                                                                                \
        va_start(ap, fmt);                                                                         \
        logger_write(level, target, fmt, ap);                                                      \
        va_end(ap);                                                                                \
    }

LOGGER_DEFINE(logger_error, LOGGER_ERROR)
LOGGER_DEFINE(logger_warn, LOGGER_WARN)
LOGGER_DEFINE(logger_info, LOGGER_INFO)
LOGGER_DEFINE(logger_debug, LOGGER_DEBUG)
