/* Latencies in a log-linear histogram. */
#include "histogram.h"

/* Values below 2 * SUB have a bucket each; above, every power of two has SUB buckets. */
static size_t histogram_index(uint64_t us)
{
    if (us < 2 * HISTOGRAM_SUB)
        return (size_t)us;
    unsigned shift = 63u - (unsigned)__builtin_clzll(us) - 8u;
    size_t i = (size_t)(shift + 1) * HISTOGRAM_SUB + (size_t)(us >> shift) - HISTOGRAM_SUB;
    size_t last = HISTOGRAM_GROUPS * HISTOGRAM_SUB - 1;
    return i > last ? last : i;
}

static uint64_t histogram_upper(size_t i)
{
    if (i < 2 * HISTOGRAM_SUB)
        return i;
    size_t shift = i / HISTOGRAM_SUB - 1;
    return ((uint64_t)(i % HISTOGRAM_SUB + HISTOGRAM_SUB + 1) << shift) - 1;
}

void histogram_add(struct histogram *h, uint64_t us)
{
    h->buckets[histogram_index(us)]++;
    h->count++;
    h->sum_us += us;
    if (us > h->max_us)
        h->max_us = us;
}

uint64_t histogram_quantile(const struct histogram *h, double q)
{
    if (h->count == 0)
        return 0;
    uint64_t want = (uint64_t)(q * (double)h->count), seen = 0;
    if (want >= h->count)
        want = h->count - 1;
    for (size_t i = 0; i < HISTOGRAM_GROUPS * HISTOGRAM_SUB; i++) {
        seen += h->buckets[i];
        if (seen > want)
            return histogram_upper(i) < h->max_us ? histogram_upper(i) : h->max_us;
    }
    return h->max_us;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    for (size_t i = 0; i < HISTOGRAM_GROUPS * HISTOGRAM_SUB; i++)
        into->buckets[i] += from->buckets[i];
    into->count += from->count;
    into->sum_us += from->sum_us;
    if (from->max_us > into->max_us)
        into->max_us = from->max_us;
}
