/* JSON: what the bytes of a validated scalar mean: strings, whole numbers. */
#include "wire/json.h"

static unsigned json_hex4(const char *p)
{
    unsigned v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        v = v << 4 | (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return v;
}

static char *json_put_utf8(char *to, unsigned code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* p is behind "\u"; moves it behind the escape or the pair. */
static bool json_decode_unicode(const char **p, const char *end, char **to, struct err *err)
{
    unsigned code = json_hex4(*p);
    *p += 4;
    if (code >= 0xdc00 && code <= 0xdfff)
        return err_set(err, "escaped lone surrogate \\u%04x", code);
    if (code >= 0xd800 && code <= 0xdbff) {
        unsigned low = end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u' ? json_hex4(*p + 2) : 0;
        if (low < 0xdc00 || low > 0xdfff)
            return err_set(err, "escaped lone surrogate \\u%04x", code);
        *p += 6;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *to = json_put_utf8(*to, code);
    return true;
}

bool json_string(struct json_value v, struct arena *arena, struct slice *out, struct err *err)
{
    static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    if (v.type != JSON_STRING)
        return err_set(err, "expected a string, found %s", json_type_name(v.type));
    const char *p = v.raw.p + 1, *end = v.raw.p + v.raw.n - 1;
    const char *slash = memchr(p, '\\', (size_t)(end - p));
    if (slash == NULL) {
        *out = (struct slice){p, (size_t)(end - p)};
        return true;
    }
    char *start = arena_alloc(arena, (size_t)(end - p)), *to = start; /* an escape only shrinks */
    for (; slash != NULL; slash = memchr(p, '\\', (size_t)(end - p))) {
        memcpy(to, p, (size_t)(slash - p));
        to += slash - p;
        p = slash + 2;
        if (slash[1] != 'u')
            *to++ = bytes[strchr(names, slash[1]) - names];
        else if (!json_decode_unicode(&p, end, &to, err))
            return false;
    }
    memcpy(to, p, (size_t)(end - p));
    to += end - p;
    *out = (struct slice){start, (size_t)(to - start)};
    return true;
}

/* A number as n * 10^exponent, n without trailing zeros. */
struct json_decimal {
    uint64_t n;
    int64_t exponent;
};

/* The digits before an exponent part, from p; false when n does not fit. */
static bool json_mantissa(const char **p, const char *end, struct json_decimal *d)
{
    bool fraction = false;
    int64_t zeros = 0; /* passed, but not yet multiplied in */
    *d = (struct json_decimal){0};
    for (; *p < end && **p != 'e' && **p != 'E'; (*p)++) {
        if (**p == '.') {
            fraction = true;
            continue;
        }
        d->exponent -= fraction;
        if (**p == '0') {
            zeros++;
            continue;
        }
        for (; zeros > 0; zeros--)
            if (__builtin_mul_overflow(d->n, 10, &d->n))
                return false;
        if (__builtin_mul_overflow(d->n, 10, &d->n) ||
            __builtin_add_overflow(d->n, (uint64_t)(**p - '0'), &d->n))
            return false;
    }
    d->exponent += zeros;
    return true;
}

/* The exponent part at p, clamped: a text has no room for the digits that could undo more. */
static int64_t json_exponent(const char *p, const char *end)
{
    int64_t n = 0;
    if (p == end)
        return 0;
    bool negative = *++p == '-';
    for (p += *p == '-' || *p == '+'; p < end; p++)
        n = n > INT64_MAX / 16 ? n : n * 10 + (*p - '0');
    return negative ? -n : n;
}

/* Exactly, in whole numbers; no floating point in between. */
bool json_int64(struct json_value v, int64_t *out)
{
    struct json_decimal d;
    if (v.type != JSON_NUMBER)
        return false;
    const char *p = v.raw.p, *end = v.raw.p + v.raw.n;
    bool negative = *p == '-';
    p += negative;
    if (!json_mantissa(&p, end, &d))
        return false;
    if (d.n == 0) {
        *out = 0;
        return true;
    }
    d.exponent += json_exponent(p, end);
    if (d.exponent < 0)
        return false; /* a fraction is left: n does not end in 0 */
    for (; d.exponent > 0; d.exponent--)
        if (__builtin_mul_overflow(d.n, 10, &d.n))
            return false;
    if (d.n > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)(0 - d.n) : (int64_t)d.n;
    return true;
}

const char *json_type_name(enum json_type type)
{
    static const char *const names[] = {"nothing", "null",   "boolean", "boolean",
                                        "number",  "string", "array",   "object"};
    return names[type];
}
