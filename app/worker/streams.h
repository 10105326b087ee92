/* Stream processing (contract 2, section 7): queries, state, cycles. */
#ifndef WORKER_STREAMS_H
#define WORKER_STREAMS_H

#include "wire/json.h"
#include "worker/worker.h"

/* Most state operations, sink messages, or keys of one call; most rows that a state read answers.
 */
enum { STREAMS_MAX_ELEMENTS = 100000 };
/* Bytes of a state key: what fits into an index row. */
enum { STREAMS_KEY_BYTES = 2048 };

void streams_handle_register(struct worker *w, struct request *r);
void streams_handle_state_get(struct worker *w, struct request *r);
void streams_handle_cycle(struct worker *w, struct request *r);

/* A text of a body that must be a string; absent or null leaves *out as it was. */
MUST_CHECK bool streams_text(struct json_value v, const char *field, struct arena *arena,
                             struct slice *out, struct err *err);

/* A flag; absent or null leaves it. */
MUST_CHECK bool streams_flag(struct json_value v, const char *field, bool *out, struct err *err);

/* The key of a piece of state: a string without NUL, at most STREAMS_KEY_BYTES. */
MUST_CHECK bool streams_key(struct json_value v, struct arena *arena, struct slice *out,
                            struct err *err);

/* The JSON object that a request's body must be. False with err (answer 400). */
MUST_CHECK bool streams_body(struct request *r, struct json_value *out, struct err *err);

/* Number of elements. */
size_t streams_count(struct json_value array);

#endif
