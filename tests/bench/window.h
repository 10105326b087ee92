/* The measured window of a run, and its report. */
#ifndef BENCH_WINDOW_H
#define BENCH_WINDOW_H

#include "base/loop.h"

struct bench;

struct window {
    struct loop_timer timer;
    struct bench *b;
    double cpu; /* the generator's own processor seconds in the window */
    /* Called when the window closes; the loop is to be stopped sooner or later. */
    void (*closed)(struct bench *b);
};

/* The window opens after `warmup_s` and closes b->seconds later; then the loop stops, or closed()
 * is called if there is one. */
void window_start(struct window *w, struct bench *b, int warmup_s, void (*closed)(struct bench *b));
/* Closes it before its time: there is nothing left to measure. */
void window_close(struct window *w);

/* Prints one line for each step that happened, and one about the generator itself. */
void window_report(const struct window *w);

#endif
