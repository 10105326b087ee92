/* Settings: read once at start from the environment, by the table in settings.def. */
#ifndef BASE_SETTINGS_H
#define BASE_SETTINGS_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

struct settings {
#define FLAG(field, name, dflt, help)                   bool field;
#define NUMBER(field, name, dflt, min, max, unit, help) int64_t field;
#define TEXT(field, name, dflt, help)                   const char *field; /* in the environment or a literal */
#define SECRET(field, name, dflt, help)                 const char *field;
#include "base/settings.def"
#undef FLAG
#undef NUMBER
#undef TEXT
#undef SECRET
};

/* Unset or empty means default. A value that does not parse or lies outside its range is an error
 * that names the variable, the value (never a secret) and what is allowed: the process must not
 * start with a setting that the operator did not mean. */
MUST_CHECK bool settings_load(struct settings *out, struct err *err);

/* Appends every setting with its effective value, as `queenctl config` shows it; with markdown
 * true, the reference table of docs/configuration.md (defaults only). */
void settings_describe(const struct settings *s, bool markdown, struct buf *out);

#endif
