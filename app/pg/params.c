/* Binary parameters: every value in network byte order, one after the other in one buffer. */
#include "pg/params.h"

#include <endian.h>
#include <limits.h>

/* An array starts with: dimensions, has-nulls flag, element type, then length and lower bound of
 * its dimension; each 4 bytes. An array without elements has no dimension and ends after the
 * element type. */
enum { ARRAY_FLAGS_AT = 4, ARRAY_COUNT_AT = 12, ARRAY_EMPTY_SIZE = 12 };

void pg_params_clear(struct pg_params *p)
{
    buf_clear(&p->bytes);
    p->count = 0;
}

void pg_params_free(struct pg_params *p)
{
    buf_free(&p->bytes);
    p->count = 0;
}

static void put_be32(struct buf *b, uint32_t v)
{
    v = htobe32(v);
    buf_put(b, &v, sizeof v);
}

static void put_be64(struct buf *b, uint64_t v)
{
    v = htobe64(v);
    buf_put(b, &v, sizeof v);
}

static void set_be32(struct buf *b, size_t at, uint32_t v)
{
    v = htobe32(v);
    memcpy(b->p + at, &v, sizeof v);
}

static uint32_t get_be32(const struct buf *b, size_t at)
{
    uint32_t v;
    memcpy(&v, b->p + at, sizeof v);
    return be32toh(v);
}

static void put_length(struct buf *b, size_t n)
{
    if (n > INT_MAX)
        die("a database parameter of %zu bytes", n);
    put_be32(b, (uint32_t)n);
}

static void param_begin(struct pg_params *p)
{
    if (p->count == PG_MAX_PARAMS)
        die("more than %d database parameters", PG_MAX_PARAMS);
    p->offset[p->count] = p->bytes.n;
}

static void param_end(struct pg_params *p)
{
    size_t n = p->bytes.n - p->offset[p->count];
    if (n > INT_MAX)
        die("a database parameter of %zu bytes", n);
    p->length[p->count++] = (int)n;
}

void pg_param_null(struct pg_params *p)
{
    param_begin(p);
    p->length[p->count++] = -1;
}

void pg_param_bool(struct pg_params *p, bool v)
{
    param_begin(p);
    buf_putc(&p->bytes, v ? 1 : 0);
    param_end(p);
}

void pg_param_int4(struct pg_params *p, int32_t v)
{
    param_begin(p);
    put_be32(&p->bytes, (uint32_t)v);
    param_end(p);
}

void pg_param_int8(struct pg_params *p, int64_t v)
{
    param_begin(p);
    put_be64(&p->bytes, (uint64_t)v);
    param_end(p);
}

void pg_param_text(struct pg_params *p, struct slice v)
{
    param_begin(p);
    buf_put_slice(&p->bytes, v);
    param_end(p);
}

void pg_param_bytea(struct pg_params *p, struct slice v)
{
    pg_param_text(p, v);
}

void pg_param_uuid(struct pg_params *p, const struct uuid *v)
{
    param_begin(p);
    buf_put(&p->bytes, v->bytes, sizeof v->bytes);
    param_end(p);
}

void pg_array_begin(struct pg_params *p, enum pg_oid element)
{
    param_begin(p);
    p->array_at = p->bytes.n;
    put_be32(&p->bytes, 1);
    put_be32(&p->bytes, 0);
    put_be32(&p->bytes, (uint32_t)element);
    put_be32(&p->bytes, 0);
    put_be32(&p->bytes, 1);
}

static void array_count(struct pg_params *p)
{
    size_t at = p->array_at + ARRAY_COUNT_AT;
    set_be32(&p->bytes, at, get_be32(&p->bytes, at) + 1);
}

void pg_array_null(struct pg_params *p)
{
    array_count(p);
    set_be32(&p->bytes, p->array_at + ARRAY_FLAGS_AT, 1);
    put_be32(&p->bytes, UINT32_MAX);
}

void pg_array_bool(struct pg_params *p, bool v)
{
    array_count(p);
    put_be32(&p->bytes, 1);
    buf_putc(&p->bytes, v ? 1 : 0);
}

void pg_array_int4(struct pg_params *p, int32_t v)
{
    array_count(p);
    put_be32(&p->bytes, sizeof v);
    put_be32(&p->bytes, (uint32_t)v);
}

void pg_array_int8(struct pg_params *p, int64_t v)
{
    array_count(p);
    put_be32(&p->bytes, sizeof v);
    put_be64(&p->bytes, (uint64_t)v);
}

void pg_array_bytes(struct pg_params *p, struct slice v)
{
    array_count(p);
    put_length(&p->bytes, v.n);
    buf_put_slice(&p->bytes, v);
}

void pg_array_uuid(struct pg_params *p, const struct uuid *v)
{
    array_count(p);
    put_be32(&p->bytes, sizeof v->bytes);
    buf_put(&p->bytes, v->bytes, sizeof v->bytes);
}

void pg_array_end(struct pg_params *p)
{
    if (get_be32(&p->bytes, p->array_at + ARRAY_COUNT_AT) == 0) {
        set_be32(&p->bytes, p->array_at, 0);
        p->bytes.n = p->array_at + ARRAY_EMPTY_SIZE;
    }
    param_end(p);
}
