/* The commands of queenctl. Each prints to stdout, logs errors to stderr and returns the exit
 * code. Blocking: nothing here runs on an event loop. */
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include "base/err.h"
#include "base/settings.h"

#include <libpq-fe.h>

enum ctl_exit {
    CTL_OK = 0,
    CTL_FAILED = 1,
    CTL_USAGE = 2,
    CTL_DEGRADED = 3, /* status: the database cannot be reached */
};

/* Applies the SQL that was compiled in. allow_newer: a database that is ahead is left alone. */
int migrate_run(const struct settings *settings, bool allow_newer);

int status_run(const struct settings *settings, bool json);
int registry_run(const struct settings *settings);
int shm_remove_run(const struct settings *settings, bool force);

/* NULL with err, which holds no secret. */
MUST_CHECK PGconn *ctl_connect(const struct settings *settings, struct err *err);

#endif
