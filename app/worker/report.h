/* Calls that PostgreSQL answers: one statement whose parameters are texts and 32-bit numbers and
 * whose only column is the answer, JSON as text; NULL is a 404. They run in a lane of their own,
 * because some of them read a row per partition. */
#ifndef WORKER_REPORT_H
#define WORKER_REPORT_H

#include "worker/admin.h"

enum { REPORT_ROWS = 10000 }; /* rows of a listing: the default where clients send no limit */

struct report {
    struct admin_call call;
    const char *not_found; /* error text of the 404 */
};

/* A report in the request's arena; call.text and call.number are bound in order, by the types of
 * the statement. Absent texts are ''. */
struct report *report_new(struct worker *w, struct request *r,
                          const struct pg_statement *statement);

/* Reads query parameters into call.text[first ..]; absent and empty are ''. Values are
 * checked as names are. False: refused and answered. */
MUST_CHECK bool report_query(struct report *report, const char *const *names, size_t count,
                             size_t first);

/* Reads limit (cut to 1 .. most) and offset into call.number[first] and [first + 1]. False: refused
 * and answered. */
MUST_CHECK bool report_page(struct report *report, int64_t dflt, int64_t most, size_t first);

/* A name from the path. False: refused and answered. */
MUST_CHECK bool report_name(struct report *report, size_t at, const char *field, struct slice name);

/* The same for a queue, whose name may be empty (contract 1, section 1.5). */
MUST_CHECK bool report_queue(struct report *report, size_t at, struct slice queue);

void report_start(struct report *report);

#endif
