/* Reading binary result columns. A column whose length does not fit its type is a programming
 * error between sql/ and app/: it dies with the column's name. NULL is asked for first. */
#ifndef PG_RESULT_H
#define PG_RESULT_H

#include "base/slice.h"
#include "base/uuid.h"

#include <libpq-fe.h>

bool pg_is_null(const PGresult *r, int row, int col);
bool pg_get_bool(const PGresult *r, int row, int col);
int32_t pg_get_int4(const PGresult *r, int row, int col);
int64_t pg_get_int8(const PGresult *r, int row, int col);
int64_t pg_get_time_us(const PGresult *r, int row, int col); /* microseconds since 1970 */
struct uuid pg_get_uuid(const PGresult *r, int row, int col);
/* text, bytea, json: the bytes; valid as long as the result. */
struct slice pg_get_bytes(const PGresult *r, int row, int col);
/* jsonb in binary starts with a version byte; this skips it. */
struct slice pg_get_jsonb(const PGresult *r, int row, int col);

/* Elements of a one-dimensional int4[] or int8[] without nulls. */
size_t pg_array_length(const PGresult *r, int row, int col);
int64_t pg_array_int(const PGresult *r, int row, int col, size_t index);

#endif
