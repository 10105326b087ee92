/* Settings: parsing and description, both from settings.def. */
#include "base/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *settings_env(const char *name)
{
    const char *v = getenv(name);
    return v == NULL || *v == '\0' ? NULL : v;
}

static bool settings_flag(const char *name, bool dflt, bool *out, struct err *err)
{
    static const char *const yes[] = {"true", "1", "yes", "on"};
    static const char *const no[] = {"false", "0", "no", "off"};
    const char *v = settings_env(name);
    *out = dflt;
    if (v == NULL)
        return true;
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (strcasecmp(v, yes[i]) == 0 || strcasecmp(v, no[i]) == 0) {
            *out = strcasecmp(v, yes[i]) == 0;
            return true;
        }
    }
    return err_set(err, "%s=\"%s\" is not a boolean (expected true/false, 1/0, yes/no, on/off)",
                   name, v);
}

struct settings_range {
    int64_t dflt, min, max;
};

static bool settings_number(const char *name, struct settings_range range, int64_t *out,
                            struct err *err)
{
    const char *v = settings_env(name);
    *out = range.dflt;
    if (v == NULL)
        return true;
    char *end;
    errno = 0;
    long long n = strtoll(v, &end, 10);
    if (errno != 0 || *end != '\0' || n < range.min || n > range.max)
        return err_set(err, "%s=\"%s\" is not a whole number from %" PRId64 " to %" PRId64, name, v,
                       range.min, range.max);
    *out = n;
    return true;
}

static const char *settings_text(const char *name, const char *dflt)
{
    const char *v = settings_env(name);
    return v == NULL ? dflt : v;
}

bool settings_load(struct settings *out, struct err *err)
{
#define FLAG(field, name, dflt, help)                                                              \
    if (!settings_flag(name, dflt, &out->field, err))                                              \
        return false;
#define NUMBER(field, name, dflt, min, max, unit, help)                                            \
    if (!settings_number(name, (struct settings_range){dflt, min, max}, &out->field, err))         \
        return false;
#define TEXT(field, name, dflt, help)   out->field = settings_text(name, dflt);
#define SECRET(field, name, dflt, help) out->field = settings_text(name, dflt);
#include "base/settings.def"
#undef FLAG
#undef NUMBER
#undef TEXT
#undef SECRET
    return true;
}

static void settings_row(struct buf *out, bool markdown, const char *name, const char *value,
                         const char *help)
{
    if (markdown)
        buf_printf(out, "| `%s` | %s | %s |\n", name, value, help);
    else
        buf_printf(out, "%s=%s\n", name, value);
}

void settings_describe(const struct settings *s, bool markdown, struct buf *out)
{
    char value[128];
    if (markdown)
        BUF_PUT_LITERAL(out, "| variable | default | meaning |\n|---|---|---|\n");
#define FLAG(field, name, dflt, help)                                                              \
    settings_row(out, markdown, name, (markdown ? (dflt) : s->field) ? "true" : "false", help);
#define NUMBER(field, name, dflt, min, max, unit, help)                                            \
    if (markdown)                                                                                  \
        (void)snprintf(value, sizeof value, "%lld%s (%lld to %lld)", (long long)(dflt),            \
                       *(unit) ? " " unit : "", (long long)(min), (long long)(max));               \
    else                                                                                           \
        (void)snprintf(value, sizeof value, "%" PRId64, s->field);                                 \
    settings_row(out, markdown, name, value, help);
#define TEXT(field, name, dflt, help)                                                              \
    settings_row(out, markdown, name, markdown ? "`" dflt "`" : s->field, help);
#define SECRET(field, name, dflt, help)                                                            \
    settings_row(out, markdown, name, markdown ? "" : *s->field ? "(set)" : "(not set)", help);
#include "base/settings.def"
#undef FLAG
#undef NUMBER
#undef TEXT
#undef SECRET
}
