/* Reading binary result columns; a value that does not fit its type dies. */
#include "pg/result.h"

#include "base/clock.h"
#include "base/err.h"

#include <endian.h>

bool pg_is_null(const PGresult *r, int row, int col)
{
    return PQgetisnull(r, row, col) == 1;
}

static const char *value_of(const PGresult *r, int row, int col, size_t size)
{
    if (pg_is_null(r, row, col) || (size_t)PQgetlength(r, row, col) != size)
        die("result column %d (%s) has %d bytes, not the %zu of its type", col,
            PQfname(r, col) != NULL ? PQfname(r, col) : "none",
            pg_is_null(r, row, col) ? -1 : PQgetlength(r, row, col), size);
    return PQgetvalue(r, row, col);
}

static uint32_t read_be32(const char *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return be32toh(v);
}

static uint64_t read_be64(const char *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return be64toh(v);
}

bool pg_get_bool(const PGresult *r, int row, int col)
{
    return *value_of(r, row, col, 1) != 0;
}

int32_t pg_get_int4(const PGresult *r, int row, int col)
{
    return (int32_t)read_be32(value_of(r, row, col, 4));
}

int64_t pg_get_int8(const PGresult *r, int row, int col)
{
    return (int64_t)read_be64(value_of(r, row, col, 8));
}

int64_t pg_get_time_us(const PGresult *r, int row, int col)
{
    int64_t us = pg_get_int8(r, row, col);
    /* 'infinity' is the largest number. */
    return us > INT64_MAX - CLOCK_PG_EPOCH_US ? INT64_MAX : us + CLOCK_PG_EPOCH_US;
}

struct uuid pg_get_uuid(const PGresult *r, int row, int col)
{
    struct uuid u;
    memcpy(u.bytes, value_of(r, row, col, sizeof u.bytes), sizeof u.bytes);
    return u;
}

struct slice pg_get_bytes(const PGresult *r, int row, int col)
{
    if (pg_is_null(r, row, col) || col >= PQnfields(r))
        die("result column %d is null or missing where bytes were expected", col);
    return (struct slice){PQgetvalue(r, row, col), (size_t)PQgetlength(r, row, col)};
}

struct slice pg_get_jsonb(const PGresult *r, int row, int col)
{
    struct slice s = pg_get_bytes(r, row, col);
    if (s.n == 0 || *s.p != 1)
        die("result column %d (%s) is not jsonb of version 1", col, PQfname(r, col));
    return (struct slice){s.p + 1, s.n - 1};
}

enum { ARRAY_EMPTY_SIZE = 12, ARRAY_HEADER_SIZE = 20 };

/* Checks the whole shape once per call: it is a few compares. Returns the number of elements. */
static size_t array_shape(const PGresult *r, int row, int col, struct slice *bytes, size_t *width)
{
    struct slice s = pg_get_bytes(r, row, col);
    *bytes = s;
    *width = 0;
    if (s.n == ARRAY_EMPTY_SIZE && read_be32(s.p) == 0)
        return 0;
    if (s.n < ARRAY_HEADER_SIZE || read_be32(s.p) != 1 || read_be32(s.p + 4) != 0)
        die("result column %d (%s) is not a one-dimensional array without nulls", col,
            PQfname(r, col));
    size_t count = read_be32(s.p + 12);
    switch (read_be32(s.p + 8)) {
    case 23: /* int4 */
        *width = 4;
        break;
    case 20: /* int8 */
        *width = 8;
        break;
    default:
        die("result column %d (%s) is not an array of integers", col, PQfname(r, col));
    }
    if (s.n != ARRAY_HEADER_SIZE + count * (4 + *width))
        die("result column %d (%s) is a damaged array", col, PQfname(r, col));
    return count;
}

size_t pg_array_length(const PGresult *r, int row, int col)
{
    struct slice bytes;
    size_t width;
    return array_shape(r, row, col, &bytes, &width);
}

int64_t pg_array_int(const PGresult *r, int row, int col, size_t index)
{
    struct slice bytes;
    size_t width;
    size_t count = array_shape(r, row, col, &bytes, &width);
    if (index >= count)
        die("element %zu of an array of %zu (%s)", index, count, PQfname(r, col));
    const char *at = bytes.p + ARRAY_HEADER_SIZE + index * (4 + width) + 4;
    return width == 4 ? (int32_t)read_be32(at) : (int64_t)read_be64(at);
}
