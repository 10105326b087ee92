/* Request targets: path segments and query parameters. */
#include "wire/uri.h"

void uri_split(struct slice target, struct slice *path, struct slice *query)
{
    const char *mark = target.n == 0 ? NULL : memchr(target.p, '?', target.n);
    *path = target;
    *query = (struct slice){"", 0};
    if (mark != NULL) {
        path->n = (size_t)(mark - target.p);
        *query = (struct slice){mark + 1, target.n - path->n - 1};
    }
}

static int uri_hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The first malformed escape at or behind p, or NULL. */
static const char *uri_malformed(const char *p, const char *end)
{
    while (p < end && (p = memchr(p, '%', (size_t)(end - p))) != NULL) {
        if (end - p < 3 || uri_hex(p[1]) < 0 || uri_hex(p[2]) < 0)
            return p;
        p += 3;
    }
    return NULL;
}

bool uri_decode(struct slice in, bool plus_is_space, struct arena *arena, struct slice *out)
{
    bool plain = true;
    for (size_t i = 0; plain && i < in.n; i++)
        plain = in.p[i] != '%' && !(plus_is_space && in.p[i] == '+');
    if (plain) {
        *out = in;
        return true;
    }
    if (uri_malformed(in.p, in.p + in.n) != NULL)
        return false;
    char *to = arena_alloc(arena, in.n);
    size_t n = 0;
    for (size_t i = 0; i < in.n; i++) {
        if (in.p[i] == '%') {
            to[n++] = (char)(uri_hex(in.p[i + 1]) << 4 | uri_hex(in.p[i + 2]));
            i += 2;
        } else {
            to[n++] = plus_is_space && in.p[i] == '+' ? ' ' : in.p[i];
        }
    }
    *out = (struct slice){to, n};
    return true;
}

size_t uri_segments(struct slice path, struct slice *segments, size_t max)
{
    const char *p = path.p, *end = path.p + path.n;
    size_t count = 0;
    if (p < end && *p == '/')
        p++;
    for (;;) {
        const char *slash = p < end ? memchr(p, '/', (size_t)(end - p)) : NULL;
        const char *stop = slash != NULL ? slash : end;
        if (count == max)
            return max + 1;
        segments[count++] = (struct slice){p, (size_t)(stop - p)};
        if (slash == NULL)
            return count;
        p = slash + 1;
    }
}

/* Takes the next name=value pair off the query; a pair without '=' has an empty value. */
static bool uri_pair(const char **p, const char *end, struct slice *name, struct slice *value)
{
    if (*p >= end)
        return false;
    const char *amp = memchr(*p, '&', (size_t)(end - *p));
    const char *stop = amp != NULL ? amp : end;
    const char *equals = memchr(*p, '=', (size_t)(stop - *p));
    *name = (struct slice){*p, (size_t)((equals != NULL ? equals : stop) - *p)};
    *value = equals == NULL ? (struct slice){"", 0}
                            : (struct slice){equals + 1, (size_t)(stop - equals - 1)};
    *p = amp != NULL ? amp + 1 : end;
    return true;
}

bool uri_param(struct slice query, const char *name, struct arena *arena, struct slice *value,
               bool *found, struct err *err)
{
    const char *p = query.p, *end = query.p + query.n;
    struct slice key, raw, last = {0};
    *found = false;
    while (uri_pair(&p, end, &key, &raw)) {
        struct slice decoded;
        /* A malformed escape anywhere is refused: what the client meant is not known. */
        if (!uri_decode(key, true, arena, &decoded) || uri_malformed(raw.p, raw.p + raw.n) != NULL)
            return err_set(err, "query parameter %.*s: malformed percent escape", SLICE_ARGS(key));
        if (slice_is(decoded, name)) {
            last = raw;
            *found = true;
        }
    }
    return !*found || uri_decode(last, true, arena, value);
}

/* Finds a short value without an arena of the caller's: it is copied out. */
static bool uri_param_short(struct slice query, const char *name, char out[32], bool *found,
                            struct err *err)
{
    struct arena scratch = {0};
    struct slice value = {0};
    bool ok = uri_param(query, name, &scratch, &value, found, err);
    if (ok && *found && value.n >= 32)
        ok = err_set(err, "query parameter %s: \"%.*s\" is too long", name, SLICE_ARGS(value));
    if (ok && *found) {
        if (value.n > 0)
            memcpy(out, value.p, value.n);
        out[value.n] = '\0';
        if (memchr(out, 0, value.n) != NULL)
            ok = err_set(err, "query parameter %s holds a NUL character", name);
    }
    arena_free(&scratch);
    return ok;
}

bool uri_param_bool(struct slice query, const char *name, bool *out, struct err *err)
{
    char text[32];
    bool found;
    if (!uri_param_short(query, name, text, &found, err))
        return false;
    if (!found)
        return true;
    *out = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    if (!*out && strcmp(text, "false") != 0 && strcmp(text, "0") != 0)
        return err_set(err, "query parameter %s: \"%s\" is not a boolean (true, false, 1 or 0)",
                       name, text);
    return true;
}

bool uri_param_int(struct slice query, const char *name, int64_t *out, struct err *err)
{
    char text[32];
    bool found;
    if (!uri_param_short(query, name, text, &found, err))
        return false;
    if (!found)
        return true;
    const char *p = text;
    bool negative = *p == '-';
    int64_t n = 0;
    p += negative;
    bool ok = *p != '\0';
    for (; ok && *p != '\0'; p++)
        ok = *p >= '0' && *p <= '9' && !__builtin_mul_overflow(n, 10, &n) &&
             !__builtin_sub_overflow(n, *p - '0', &n); /* negative: INT64_MIN has no positive */
    if (ok && !negative)
        ok = n != INT64_MIN;
    if (!ok)
        return err_set(err, "query parameter %s: \"%s\" is not a whole number", name, text);
    *out = negative ? n : -n;
    return true;
}

bool uri_param_text(struct slice query, const char *name, struct arena *arena, struct slice *out,
                    struct err *err)
{
    struct slice value;
    bool found;
    if (!uri_param(query, name, arena, &value, &found, err))
        return false;
    if (found)
        *out = value;
    return true;
}
