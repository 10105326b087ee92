/* Which failures of a statement are worth another try. */
#ifndef PG_RETRY_H
#define PG_RETRY_H

#include "pg/lane.h"

/* The outcome is unknown, or the server refused for a reason that passes: serialisation failure or
 * deadlock (class 40), resources (53), operator intervention and start-up (57), lock not available
 * (55), connection (08), a read-only session during a failover (25). PostgreSQL manual, appendix A.
 * Only for statements that may be repeated when the first try did commit. */
bool pg_outcome_may_pass(const struct pg_outcome *outcome);

/* Pause before the next try. */
enum { PG_RETRY_MS = 50 };

#endif
