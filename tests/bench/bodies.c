/* Request bodies and targets, and reading a pop's answer without a JSON library in the way. */
#include "bench.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

void bench_done(struct bench *b, enum bench_step step, uint64_t due_us, uint64_t carried)
{
    uint64_t now = clock_mono_us();
    if (now < b->started_us || now > b->stop_us)
        return;
    histogram_add(&b->latency[step], now > due_us ? now - due_us : 0);
    b->operations[step]++;
    b->carried[step] += carried;
}

void bench_payload(const struct bench *b, struct buf *out)
{
    buf_printf(out, "{\"t\":%llu,\"f\":\"", (unsigned long long)clock_mono_us());
    buf_put_slice(out, buf_slice(&b->payload));
    BUF_PUT_LITERAL(out, "\"}");
}

void bench_push_body(struct bench *b, struct buf *out, int queue, int partition, int messages)
{
    BUF_PUT_LITERAL(out, "{\"items\":[");
    for (int i = 0; i < messages; i++) {
        if (i > 0)
            buf_putc(out, ',');
        buf_printf(out,
                   "{\"queue\":\"%s-%d\",\"partition\":\"p%d\",\"transactionId\":\"%s-%llu\","
                   "\"payload\":",
                   b->prefix, queue, partition, b->prefix, (unsigned long long)b->next_id++);
        bench_payload(b, out);
        buf_putc(out, '}');
    }
    BUF_PUT_LITERAL(out, "]}");
}

void bench_pop_target(struct bench *b, struct buf *out, int queue, bool wait)
{
    buf_printf(out, "/api/v1/pop/queue/%s-%d?consumerGroup=bench&batch=%d%s", b->prefix, queue,
               b->batch, wait ? "&wait=true&timeout=30000" : "");
}

/* The value of "key": in [*at, end), which is a string; moves *at behind it. */
static bool bench_string(const char **at, const char *end, const char *key, struct slice *value)
{
    const char *p = memmem(*at, (size_t)(end - *at), key, strlen(key));
    if (p == NULL)
        return false;
    p += strlen(key);
    const char *q = memchr(p, '"', (size_t)(end - p));
    if (q == NULL)
        return false;
    *value = (struct slice){p, (size_t)(q - p)};
    *at = q;
    return true;
}

int bench_ack_body(struct bench *b, struct slice answer, struct buf *out)
{
    const char *at = answer.p, *end = answer.p + answer.n;
    struct slice id, stamp, partition, lease;
    int count = 0;
    BUF_PUT_LITERAL(out, "{\"consumerGroup\":\"bench\",\"acknowledgments\":[");
    while (bench_string(&at, end, "\"transactionId\":\"", &id)) {
        const char *t = memmem(at, (size_t)(end - at), "{\"t\":", 5);
        stamp = t == NULL ? (struct slice){0} : (struct slice){t + 5, 0};
        if (!bench_string(&at, end, "\"partitionId\":\"", &partition) ||
            !bench_string(&at, end, "\"leaseId\":\"", &lease))
            break;
        if (stamp.p != NULL)
            bench_done(b, STEP_DELIVERY, strtoull(stamp.p, NULL, 10), 1);
        if (count++ > 0)
            buf_putc(out, ',');
        buf_printf(out,
                   "{\"transactionId\":\"%.*s\",\"partitionId\":\"%.*s\",\"leaseId\":\"%.*s\","
                   "\"status\":\"completed\"}",
                   SLICE_ARGS(id), SLICE_ARGS(partition), SLICE_ARGS(lease));
    }
    BUF_PUT_LITERAL(out, "]}");
    return count;
}
