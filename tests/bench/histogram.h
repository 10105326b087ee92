/* Latencies in a log-linear histogram (the HDR idea): 1 us resolution to 1 ms, then within 0.4%. */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_SUB = 256, HISTOGRAM_GROUPS = 32 };

struct histogram {
    uint64_t count, sum_us, max_us;
    uint64_t buckets[HISTOGRAM_GROUPS * HISTOGRAM_SUB];
};

void histogram_add(struct histogram *h, uint64_t us);
/* Upper bound of the bucket that holds the quantile (0..1); 0 when empty. */
uint64_t histogram_quantile(const struct histogram *h, double q);
void histogram_merge(struct histogram *into, const struct histogram *from);

#endif
