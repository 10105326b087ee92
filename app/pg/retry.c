/* Which failures of a statement are worth another try. */
#include "pg/retry.h"

#include <string.h>

bool pg_outcome_may_pass(const struct pg_outcome *outcome)
{
    static const char classes[][3] = {"40", "53", "55", "57", "08", "25"};
    if (outcome->status == PG_UNKNOWN)
        return true;
    for (size_t i = 0; outcome->status == PG_REFUSED && i < sizeof classes / sizeof *classes; i++)
        if (memcmp(outcome->sqlstate, classes[i], 2) == 0)
            return true;
    return false;
}
