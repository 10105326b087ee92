/* Taking ack records out of a run of bytes. Pure: no descriptor, no state. */
#ifndef FLUSHER_RECORD_H
#define FLUSHER_RECORD_H

#include "shm/fifo.h"

enum record_result {
    RECORD_OK,
    RECORD_SHORT,   /* the bytes end within a record: nothing taken */
    RECORD_INVALID, /* a record that no worker writes: taken and to be skipped */
    RECORD_LOST,    /* its length makes no sense: where the next one begins is not known */
};

/* Takes the record at the start of *bytes and moves *bytes behind it. `group` points into the
 * bytes. worker_slots bounds the slot number. */
MUST_CHECK enum record_result record_next(struct slice *bytes, uint32_t worker_slots,
                                          struct ack_record *out, struct slice *group);

#endif
