/* What listings of rows have in common: filters and paging of the query, columns as members. */
#ifndef WORKER_LISTING_H
#define WORKER_LISTING_H

#include "pg/result.h"
#include "worker/worker.h"

enum { LISTING_MAX_LIMIT = 1000 };

/* A filter, checked as names are; absent and empty are ''. False: refused and answered. */
MUST_CHECK bool listing_read_text(struct request *r, struct slice query, const char *name,
                                  struct slice *out);

/* limit, cut to 1 .. LISTING_MAX_LIMIT, and offset. False: refused and answered. */
MUST_CHECK bool listing_read_page(struct request *r, struct slice query, int64_t default_limit,
                                  int64_t *limit, int64_t *offset);

/* ,"key":"text" and ,"key":"time"; NULL becomes null. */
void listing_write_text(struct buf *body, const char *key, const PGresult *r, int row, int col);
void listing_write_time(struct buf *body, const char *key, const PGresult *r, int row, int col);

#endif
