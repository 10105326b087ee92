/* Metrics: once a minute what this instance counted goes to the time series, and the queues are
 * measured (one host at a time); a few times a minute the rates of the last seconds go to shared
 * memory. */
#ifndef KEEPER_METRICS_H
#define KEEPER_METRICS_H

#include "keeper/keeper.h"

struct metrics;

struct metrics *metrics_new(struct keeper *keeper);
/* After the lane is gone. */
void metrics_free(struct metrics *metrics);

#endif
