/* Ack records: framing and checks. */
#include "flusher/record.h"

enum record_result record_next(struct slice *bytes, uint32_t worker_slots, struct ack_record *out,
                               struct slice *group)
{
    static const uint8_t zero[sizeof out->reserved];
    uint32_t length;
    if (bytes->n < sizeof length)
        return RECORD_SHORT;
    memcpy(&length, bytes->p, sizeof length);
    if (length < sizeof *out || length > ACK_RECORD_MAX)
        return RECORD_LOST;
    if (bytes->n < length)
        return RECORD_SHORT;
    memcpy(out, bytes->p, sizeof *out);
    *group = (struct slice){bytes->p + sizeof *out, length - sizeof *out};
    *bytes = (struct slice){bytes->p + length, bytes->n - length};
    if (out->group_length != group->n || out->worker_slot >= worker_slots ||
        out->worker_generation == 0 || out->batch_end < 0 || out->message_count > INT32_MAX ||
        memcmp(out->reserved, zero, sizeof zero) != 0)
        return RECORD_INVALID;
    return RECORD_OK;
}
