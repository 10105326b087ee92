/* Draining the push spool of this host into PostgreSQL. */
#ifndef KEEPER_SPOOL_H
#define KEEPER_SPOOL_H

#include "keeper/hints.h"
#include "keeper/maintenance.h"

struct spool;

/* Works from now on, except while push maintenance is on. NULL with err. */
MUST_CHECK struct spool *spool_new(struct keeper *keeper, struct hints *hints,
                                   const struct maintenance *maintenance, struct err *err);
/* While hints and maintenance still are. */
void spool_free(struct spool *spool);

#endif
