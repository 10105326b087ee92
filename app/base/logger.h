/* The operator's log: one line per event on stderr, collected by whatever started us.
 *
 * Line: 2026-12-01T03:40:00.123456Z LEVEL program[pid] target: text
 * Text is cut at 2,000 bytes; control characters in it are shown as '?'. Never log a
 * payload, a token, a password or a connection string. */
#ifndef BASE_LOGGER_H
#define BASE_LOGGER_H

#include "base/err.h"

enum logger_level { LOGGER_ERROR, LOGGER_WARN, LOGGER_INFO, LOGGER_DEBUG };

/* Call once at start; program must stay valid (a literal). */
void logger_init(const char *program, enum logger_level level);

/* Sets the level by its name: error, warn, info, debug. */
MUST_CHECK bool logger_set_level(const char *name, struct err *err);

void logger_error(const char *target, const char *fmt, ...) PRINTF_LIKE(2, 3);
void logger_warn(const char *target, const char *fmt, ...) PRINTF_LIKE(2, 3);
void logger_info(const char *target, const char *fmt, ...) PRINTF_LIKE(2, 3);
void logger_debug(const char *target, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
