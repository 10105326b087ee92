/* Clocks, and the text form of a point in time. */
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

static void assert_iso(int64_t wall_us, const char *expected)
{
    char text[CLOCK_ISO_SIZE];
    memset(text, 'x', sizeof text);
    clock_iso_utc(wall_us, text);
    assert_string_equal(text, expected);
}

static void known_instants(void **state)
{
    (void)state;
    assert_iso(0, "1970-01-01T00:00:00.000000Z");
    assert_iso(1, "1970-01-01T00:00:00.000001Z");
    assert_iso(-1, "1969-12-31T23:59:59.999999Z");
    assert_iso(-1000000, "1969-12-31T23:59:59.000000Z");
    assert_iso(CLOCK_PG_EPOCH_US, "2000-01-01T00:00:00.000000Z");
    assert_iso(INT64_C(1796096400123456), "2026-12-01T03:40:00.123456Z");
    assert_iso(INT64_C(1709251199999999), "2024-02-29T23:59:59.999999Z");
    assert_iso(INT64_C(4107542400000000), "2100-03-01T00:00:00.000000Z"); /* no leap year */
}

static void years_are_clamped(void **state)
{
    (void)state;
    assert_iso(INT64_C(253402300799999999), "9999-12-31T23:59:59.999999Z");
    assert_iso(INT64_C(253402300800000000), "9999-12-31T23:59:59.999999Z");
    assert_iso(INT64_MAX, "9999-12-31T23:59:59.999999Z");
    assert_iso(-INT64_C(62167219200000000), "0000-01-01T00:00:00.000000Z");
    assert_iso(-INT64_C(62167219200000001), "0000-01-01T00:00:00.000000Z");
    assert_iso(INT64_MIN, "0000-01-01T00:00:00.000000Z");
}

/* Against the C library, every 40 days or so from 1900 to 2200. */
static void as_the_c_library_has_it(void **state)
{
    (void)state;
    for (int64_t s = -INT64_C(2208988800); s < INT64_C(7258118400); s += 3456789) {
        time_t t = (time_t)s;
        struct tm tm;
        char expected[64], micros[80];
        assert_non_null(gmtime_r(&t, &tm));
        assert_true(strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%S", &tm) > 0);
        (void)snprintf(micros, sizeof micros, "%s.000042Z", expected);
        assert_iso(s * 1000000 + 42, micros);
    }
}

static void clocks_agree_with_the_system(void **state)
{
    struct timespec ts;
    (void)state;
    uint64_t us = clock_mono_us(), ms = clock_mono_ms();
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &ts), 0);
    uint64_t later = (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
    assert_true(us / 1000 <= ms && ms <= later / 1000 && us <= later);
    for (int i = 0; i < 100000; i++) {
        uint64_t next = clock_mono_us();
        assert_true(next >= us);
        us = next;
    }
    time_t before = time(NULL);
    int64_t wall = clock_wall_us();
    assert_true(wall / 1000000 >= before && wall / 1000000 <= time(NULL) + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_instants),
        cmocka_unit_test(years_are_clamped),
        cmocka_unit_test(as_the_c_library_has_it),
        cmocka_unit_test(clocks_agree_with_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
