/* Why a key/value or timer call was refused: {"error":code,"reason":code,"detail":text} and its
 * status (control-plane detail, sections 9.1 and 10.1). */
#ifndef WORKER_REFUSAL_H
#define WORKER_REFUSAL_H

#include "fcgi/request.h"
#include "pg/lane.h"

struct refusal {
    int status;        /* HTTP */
    char error[48];    /* code */
    char reason[128];  /* stable text */
    struct err detail; /* for people; "" = none */
};

/* Fills it and returns false. */
bool refusal_set(struct refusal *out, int status, const char *error, const char *reason,
                 const char *detail, ...) PRINTF_LIKE(5, 6);

/* From a statement that did not get done. area: "kv" or "timers", the first word of the codes.
 * unsettled: it may have been applied. */
void refusal_from_outcome(struct refusal *out, const char *area, const struct pg_outcome *outcome,
                          bool unsettled);

/* 503 carries Retry-After: 1. */
void refusal_answer(struct request *r, const struct refusal *refusal);

#endif
