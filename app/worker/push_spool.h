/* Where pushed items go that PostgreSQL cannot take: the host's spool (app/log/spool.h). */
#ifndef WORKER_PUSH_SPOOL_H
#define WORKER_PUSH_SPOOL_H

#include "worker/push.h"

struct push_segment;

MUST_CHECK bool push_spool_start(struct worker *w, struct err *err);
/* After the loop has ended. What was not written yet was not answered either. */
void push_spool_stop(struct worker *w);

/* Settles the item as PUSH_BUFFERED once its record is durable, together with all others of this
 * round; as `otherwise` (PUSH_FAILED, PUSH_UNKNOWN) when it cannot be written. Never from within.
 */
void push_spool_add(struct worker *w, struct push_item *item, enum push_status otherwise);

/* All items of the segment, which is empty then. */
void push_spool_segment(struct worker *w, struct push_segment *s, enum push_status otherwise);

#endif
