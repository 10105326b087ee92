/* Starting a connection from the operator's connection string, without blocking. */
#ifndef PG_CONNINFO_H
#define PG_CONNINFO_H

#include "base/err.h"

#include <libpq-fe.h>

/* Begins connecting (PQconnectPoll continues). `first_host` rotates a list of several hosts: libpq
 * tries them in order and leaves time limits to its caller, so an attempt that hangs on a machine
 * which is switched off is abandoned and the next one has to begin behind it. Any number is fine.
 * Returns NULL with err, which never quotes the string (it may hold a password).
 *
 * Host names are resolved by libpq, synchronously: use addresses (hostaddr) or a local resolver. */
MUST_CHECK PGconn *pg_connect_start(const char *conninfo, const char *application_name,
                                    unsigned first_host, struct err *err);

#endif
