/* The measured window of a run, and its report. */
#include "window.h"

#include "base/clock.h"
#include "bench.h"

#include <stdio.h>
#include <sys/resource.h>

static const char *const steps[STEP_COUNT] = {"get", "push", "pop", "ack", "delivery"};

static double cpu_seconds(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

void window_close(struct window *w)
{
    uint64_t now = clock_mono_us();
    if (w->b->stopping)
        return;
    loop_timer_cancel(w->b->loop, &w->timer);
    if (now < w->b->stop_us)
        w->b->stop_us = now;
    w->b->stopping = true;
    w->cpu = cpu_seconds() - w->cpu;
    if (w->closed != NULL)
        w->closed(w->b);
    else
        loop_stop(w->b->loop);
}

static void window_ends(struct loop_timer *timer)
{
    window_close((struct window *)timer);
}

static void window_opens(struct loop_timer *timer)
{
    struct window *w = (struct window *)timer;
    w->cpu = cpu_seconds();
    timer->fire = window_ends;
    loop_timer_set(w->b->loop, timer, loop_now_ms(w->b->loop) + (uint64_t)w->b->seconds * 1000);
}

void window_start(struct window *w, struct bench *b, int warmup_s, void (*closed)(struct bench *b))
{
    b->started_us = clock_mono_us() + (uint64_t)warmup_s * 1000000u;
    b->stop_us = b->started_us + (uint64_t)b->seconds * 1000000u;
    *w = (struct window){.timer.fire = window_opens, .b = b, .closed = closed};
    loop_timer_set(b->loop, &w->timer, clock_mono_ms() + (uint64_t)warmup_s * 1000u);
}

void window_report(const struct window *w)
{
    const struct bench *b = w->b;
    double s = b->stop_us > b->started_us ? (double)(b->stop_us - b->started_us) / 1e6 : 1e-6;
    for (int i = 0; i < STEP_COUNT; i++) {
        const struct histogram *h = &b->latency[i];
        if (h->count == 0)
            continue;
        printf("%s ops_per_s=%.0f msgs_per_s=%.0f p50_ms=%.2f p99_ms=%.2f p999_ms=%.2f "
               "max_ms=%.2f\n",
               steps[i], (double)b->operations[i] / s, (double)b->carried[i] / s,
               (double)histogram_quantile(h, 0.5) / 1e3, (double)histogram_quantile(h, 0.99) / 1e3,
               (double)histogram_quantile(h, 0.999) / 1e3, (double)h->max_us / 1e3);
    }
    printf("loadgen errors=%llu cpu_share=%.2f\n", (unsigned long long)b->errors, w->cpu / s);
}
