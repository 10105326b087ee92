/* Clocks and the one text form of a point in time. */
#include "base/clock.h"

#include <string.h>
#include <time.h>

static uint64_t clock_read_us(clockid_t id)
{
    struct timespec ts;
    (void)clock_gettime(id, &ts); /* cannot fail for these ids */
    return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

uint64_t clock_mono_us(void)
{
    return clock_read_us(CLOCK_MONOTONIC);
}

uint64_t clock_mono_ms(void)
{
    return clock_mono_us() / 1000u;
}

int64_t clock_wall_us(void)
{
    return (int64_t)clock_read_us(CLOCK_REALTIME);
}

static char *clock_digits(char *p, int value, int width)
{
    for (int i = width - 1; i >= 0; i--) {
        p[i] = (char)('0' + value % 10);
        value /= 10;
    }
    return p + width;
}

void clock_iso_utc(int64_t wall_us, char out[CLOCK_ISO_SIZE])
{
    const int64_t min_s = -INT64_C(62167219200), max_s = INT64_C(253402300799);
    int64_t s = wall_us / 1000000, us = wall_us % 1000000;
    if (us < 0) {
        us += 1000000;
        s--;
    }
    if (s < min_s) {
        s = min_s;
        us = 0;
    } else if (s > max_s) {
        s = max_s;
        us = 999999;
    }
    time_t t = (time_t)s;
    struct tm tm;
    (void)gmtime_r(&t, &tm);
    char *p = out;
    p = clock_digits(p, tm.tm_year + 1900, 4);
    *p++ = '-';
    p = clock_digits(p, tm.tm_mon + 1, 2);
    *p++ = '-';
    p = clock_digits(p, tm.tm_mday, 2);
    *p++ = 'T';
    p = clock_digits(p, tm.tm_hour, 2);
    *p++ = ':';
    p = clock_digits(p, tm.tm_min, 2);
    *p++ = ':';
    p = clock_digits(p, tm.tm_sec, 2);
    *p++ = '.';
    p = clock_digits(p, (int)us, 6);
    *p++ = 'Z';
    *p = '\0';
}
