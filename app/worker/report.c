/* Calls that PostgreSQL answers. */
#include "worker/report.h"

#include "wire/uri.h"

static void report_build(struct pg_job *job, struct pg_params *params)
{
    const struct admin_call *call = TABLE_OWNER(job, struct admin_call, job);
    size_t text = 0, number = 0;
    for (int i = 0; i < job->statement->param_count; i++) {
        if (job->statement->types[i] == PG_TEXT)
            pg_param_text(params, call->text[text++]);
        else
            pg_param_int4(params, (int32_t)call->number[number++]);
    }
}

static int report_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    if (!pg_is_null(r, 0, 0)) {
        buf_put_slice(body, pg_get_bytes(r, 0, 0));
        return 200;
    }
    buf_printf(body, "{\"error\":\"%s\"}", TABLE_OWNER(call, struct report, call)->not_found);
    return 404;
}

struct report *report_new(struct worker *w, struct request *r, const struct pg_statement *statement)
{
    struct report *report = arena_zarray(request_arena(r), 1, sizeof *report);
    admin_call_init(&report->call, w, r, w->report_lane, statement, report_build);
    report->call.render = report_render;
    for (size_t i = 0; i < sizeof report->call.text / sizeof *report->call.text; i++)
        report->call.text[i] = (struct slice){"", 0};
    return report;
}

static struct slice report_query_text(const struct report *report)
{
    struct slice path, query;
    uri_split(request_head(report->call.r)->target, &path, &query);
    return query;
}

bool report_query(struct report *report, const char *const *names, size_t count, size_t first)
{
    struct request *r = report->call.r;
    struct slice query = report_query_text(report);
    struct err err;
    for (size_t i = 0; i < count; i++) {
        struct slice *value = &report->call.text[first + i];
        bool ok = uri_param_text(query, names[i], request_arena(r), value, &err);
        int status = !ok ? 400 : value->n > 0 ? name_check(names[i], *value, &err) : 0;
        if (status != 0) {
            request_answer_error(r, status, "%s", err.text);
            return false;
        }
    }
    return true;
}

static int64_t report_bound(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

bool report_page(struct report *report, int64_t dflt, int64_t most, size_t first)
{
    struct slice query = report_query_text(report);
    int64_t limit = dflt, offset = 0;
    struct err err;
    if (!uri_param_int(query, "limit", &limit, &err) ||
        !uri_param_int(query, "offset", &offset, &err)) {
        request_answer_error(report->call.r, 400, "%s", err.text);
        return false;
    }
    report->call.number[first] = report_bound(limit, 1, most);
    report->call.number[first + 1] = report_bound(offset, 0, INT32_MAX);
    return true;
}

bool report_name(struct report *report, size_t at, const char *field, struct slice name)
{
    struct err err;
    int status = name_check(field, name, &err);
    if (status != 0) {
        request_answer_error(report->call.r, status, "%s", err.text);
        return false;
    }
    report->call.text[at] = name;
    return true;
}

bool report_queue(struct report *report, size_t at, struct slice queue)
{
    return queue.n == 0 || report_name(report, at, "queue", queue);
}

void report_start(struct report *report)
{
    admin_call_start(&report->call);
}
