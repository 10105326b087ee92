/* Filters, paging and columns of listings. */
#include "worker/listing.h"

#include "wire/json_write.h"
#include "wire/uri.h"

bool listing_read_text(struct request *r, struct slice query, const char *name, struct slice *out)
{
    struct err err;
    *out = SLICE_LITERAL("");
    bool ok = uri_param_text(query, name, request_arena(r), out, &err);
    int status = !ok ? 400 : out->n == 0 ? 0 : name_check(name, *out, &err);
    if (status != 0)
        request_answer_error(r, status, "%s", err.text);
    return status == 0;
}

bool listing_read_page(struct request *r, struct slice query, int64_t default_limit, int64_t *limit,
                       int64_t *offset)
{
    struct err err;
    *limit = default_limit;
    *offset = 0;
    if (!uri_param_int(query, "limit", limit, &err) ||
        !uri_param_int(query, "offset", offset, &err)) {
        request_answer_error(r, 400, "%s", err.text);
        return false;
    }
    *limit = *limit < 1 ? 1 : *limit > LISTING_MAX_LIMIT ? LISTING_MAX_LIMIT : *limit;
    *offset = *offset < 0 ? 0 : *offset > INT32_MAX ? INT32_MAX : *offset;
    return true;
}

void listing_write_text(struct buf *body, const char *key, const PGresult *r, int row, int col)
{
    buf_printf(body, ",\"%s\":", key);
    if (pg_is_null(r, row, col))
        BUF_PUT_LITERAL(body, "null");
    else
        json_write_string(body, pg_get_bytes(r, row, col));
}

void listing_write_time(struct buf *body, const char *key, const PGresult *r, int row, int col)
{
    buf_printf(body, ",\"%s\":", key);
    if (pg_is_null(r, row, col))
        BUF_PUT_LITERAL(body, "null");
    else
        json_write_time(body, pg_get_time_us(r, row, col));
}
