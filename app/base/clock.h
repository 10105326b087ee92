/* Clocks and the one text form of a point in time. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Monotonic, for deadlines and durations; comparable between processes of one host. */
uint64_t clock_mono_us(void);
uint64_t clock_mono_ms(void);

/* Wall clock, microseconds since 1970-01-01 UTC. */
int64_t clock_wall_us(void);

/* "2026-12-01T03:40:00.123456Z" and its NUL. */
#define CLOCK_ISO_SIZE 28

/* Contract 1, section 0: UTC, ISO 8601, microseconds, literal Z. Years outside
 * 0..9999 are clamped to that range. */
void clock_iso_utc(int64_t wall_us, char out[CLOCK_ISO_SIZE]);

/* PostgreSQL sends timestamptz in binary as microseconds since 2000-01-01 UTC
 * (manual: 8.5 Date/Time Types). Add this to get microseconds since 1970. */
#define CLOCK_PG_EPOCH_US INT64_C(946684800000000)

#endif
