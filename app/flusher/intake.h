/* The reading end of the ack FIFO. */
#ifndef FLUSHER_INTAKE_H
#define FLUSHER_INTAKE_H

#include "base/loop.h"
#include "shm/fifo.h"

struct intake;

/* Makes and opens the FIFO. take() is called for each valid record; it returns false when it wants
 * no more for now: reading stops, writers find the FIFO full and go their own way, until
 * intake_resume(). NULL with err. */
struct intake *intake_new(struct loop *loop, const char *run_dir, uint32_t worker_slots,
                          bool (*take)(const struct ack_record *record, struct slice group,
                                       void *owner),
                          void *owner, struct err *err);
/* Closing tells every worker that the flusher is gone. */
void intake_free(struct intake *in);

void intake_resume(struct intake *in);
/* For good; what has been read was taken. The FIFO stays open, so that workers go on waiting for
 * verdicts. */
void intake_stop(struct intake *in);

#endif
