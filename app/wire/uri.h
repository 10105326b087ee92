/* Request targets: path segments and query parameters (RFC 3986). */
#ifndef WIRE_URI_H
#define WIRE_URI_H

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

#include <stdint.h>

/* Splits "/a/b%2Fc?x=1" at the first '?'. */
void uri_split(struct slice target, struct slice *path, struct slice *query);

/* Percent-decodes (path: '+' stays; query: '+' is a space when plus_is_space). Result points into
 * the input when nothing was encoded, else into the arena. False on a malformed escape. */
MUST_CHECK bool uri_decode(struct slice in, bool plus_is_space, struct arena *arena,
                           struct slice *out);

/* Splits a path into its still encoded segments: "/api/v1/pop" gives 3. Returns their number, at
 * most max + 1 (which means: too many; max of them are written). Empty segments count. */
size_t uri_segments(struct slice path, struct slice *segments, size_t max);

/* Finds a query parameter; name and value are decoded. The last of several wins. False with err
 * when an escape in the query is malformed. *found is false when the parameter is not there. */
MUST_CHECK bool uri_param(struct slice query, const char *name, struct arena *arena,
                          struct slice *value, bool *found, struct err *err);

/* Typed readers: leave *out alone when the parameter is absent; false with an err that names the
 * parameter and the value found when it does not parse. Booleans: true, false, 1, 0. */
MUST_CHECK bool uri_param_bool(struct slice query, const char *name, bool *out, struct err *err);
MUST_CHECK bool uri_param_int(struct slice query, const char *name, int64_t *out, struct err *err);
MUST_CHECK bool uri_param_text(struct slice query, const char *name, struct arena *arena,
                               struct slice *out, struct err *err);

#endif
