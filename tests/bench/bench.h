/* The load generator: what its scenarios share. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "client.h"
#include "histogram.h"

enum bench_step { STEP_GET, STEP_PUSH, STEP_POP, STEP_ACK, STEP_DELIVERY, STEP_COUNT };

struct bench {
    struct loop *loop;
    struct sockaddr_in address;
    /* Options. */
    const char *scenario, *target;
    const char *prefix; /* of queue names: unique per run */
    int connections, batch, messages, payload_bytes, queues, partitions, seconds;
    double rate; /* messages a second over all producers; 0 = closed loop */
    bool quiet;
    /* Results. A step's operations are requests; its messages what they carried. */
    struct histogram latency[STEP_COUNT];
    uint64_t operations[STEP_COUNT], carried[STEP_COUNT], errors;
    uint64_t started_us, stop_us; /* the measured window */
    bool stopping;
    uint64_t next_id;
    struct buf payload; /* the payload's filler */
};

/* Counts one finished request. due_us: when it should have been sent. */
void bench_done(struct bench *b, enum bench_step step, uint64_t due_us, uint64_t carried);

/* Appends one payload, which starts with the time. */
void bench_payload(const struct bench *b, struct buf *out);
/* Appends a push body of `messages` items for one partition. */
void bench_push_body(struct bench *b, struct buf *out, int queue, int partition, int messages);
/* Appends the path of a pop. */
void bench_pop_target(struct bench *b, struct buf *out, int queue, bool wait);
/* From a pop's answer to the body of its ack; returns the number of messages, and counts the
 * delivery latency of each. */
int bench_ack_body(struct bench *b, struct slice answer, struct buf *out);

struct scenario {
    const char *name;
    const char *help;
    void (*start)(struct bench *b);
};
extern const struct scenario scenario_get, scenario_push, scenario_cycle, scenario_drain,
    scenario_park;

#endif
