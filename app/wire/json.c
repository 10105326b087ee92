/* JSON: one validating pass without recursion, then walking the validated text. */
#include "wire/json.h"

#include "wire/utf8.h"

#include <stdlib.h>

/* What a byte is to the scanner. Bytes above 0x7f start UTF-8 sequences. */
static bool json_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static const char *json_skip_space(const char *p, const char *end)
{
    while (p < end && json_space(*p))
        p++;
    return p;
}

static bool json_digit(const char *p, const char *end)
{
    return p < end && *p >= '0' && *p <= '9';
}

static bool json_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* --- validation --- */

struct json_scan {
    const char *start, *p, *end;
    struct err *err;
};

static bool json_fail(struct json_scan *s, const char *what)
{
    size_t line = 1, column = 1;
    for (const char *c = s->start; c < s->p; c++) {
        column++;
        if (*c == '\n') {
            line++;
            column = 1;
        }
    }
    return err_set(s->err, "%s at line %zu column %zu", what, line, column);
}

/* Eight bytes at a time while none is a quote, a backslash, a control or non-ASCII. */
static const char *json_plain_run(const char *p, const char *end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    while (end - p >= 8) {
        uint64_t v;
        memcpy(&v, p, sizeof v);
        uint64_t quote = v ^ (ones * '"'), slash = v ^ (ones * '\\');
        uint64_t special =
            ((v - ones * 0x20) & ~v) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | v;
        if (special & high)
            break;
        p += 8;
    }
    return p;
}

static bool json_scan_escape(struct json_scan *s)
{
    s->p++;
    if (s->p == s->end)
        return json_fail(s, "unterminated string");
    if (*s->p == 'u') {
        for (int i = 1; i <= 4; i++) {
            if (s->end - s->p <= i || !json_hex(s->p[i]))
                return json_fail(s, "malformed \\u escape");
        }
        s->p += 5;
        return true;
    }
    if (memchr("\"\\/bfnrt", *s->p, 8) == NULL)
        return json_fail(s, "unknown escape");
    s->p++;
    return true;
}

static bool json_scan_string(struct json_scan *s)
{
    s->p++;
    for (;;) {
        s->p = json_plain_run(s->p, s->end);
        if (s->p == s->end)
            return json_fail(s, "unterminated string");
        unsigned char c = (unsigned char)*s->p;
        if (c == '"') {
            s->p++;
            return true;
        }
        if (c == '\\') {
            if (!json_scan_escape(s))
                return false;
        } else if (c < 0x20) {
            return json_fail(s, "raw control character in a string");
        } else if (c < 0x80) {
            s->p++;
        } else {
            size_t n = utf8_sequence(s->p, (size_t)(s->end - s->p));
            if (n == 0)
                return json_fail(s, "invalid UTF-8");
            s->p += n;
        }
    }
}

static bool json_scan_digits(struct json_scan *s)
{
    if (!json_digit(s->p, s->end))
        return json_fail(s, "expected a digit");
    while (json_digit(s->p, s->end))
        s->p++;
    return true;
}

static bool json_scan_number(struct json_scan *s)
{
    if (*s->p == '-')
        s->p++;
    if (s->p < s->end && *s->p == '0')
        s->p++;
    else if (!json_scan_digits(s))
        return false;
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        if (!json_scan_digits(s))
            return false;
    }
    if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-'))
            s->p++;
        if (!json_scan_digits(s))
            return false;
    }
    return true;
}

static bool json_scan_word(struct json_scan *s, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
        return json_fail(s, "unexpected character");
    s->p += n;
    return true;
}

static bool json_scan_scalar(struct json_scan *s)
{
    switch (*s->p) {
    case '"':
        return json_scan_string(s);
    case 't':
        return json_scan_word(s, "true");
    case 'f':
        return json_scan_word(s, "false");
    case 'n':
        return json_scan_word(s, "null");
    default:
        if (*s->p == '-' || json_digit(s->p, s->end))
            return json_scan_number(s);
        return json_fail(s, "unexpected character");
    }
}

/* Which of the open containers are objects; one bit a level. */
struct json_nesting {
    uint64_t bits[JSON_MAX_DEPTH / 64];
    size_t depth;
};

static bool json_open(struct json_scan *s, struct json_nesting *n, bool object)
{
    if (n->depth == JSON_MAX_DEPTH)
        return json_fail(s, "nested too deep");
    uint64_t bit = UINT64_C(1) << (n->depth % 64);
    if (object)
        n->bits[n->depth / 64] |= bit;
    else
        n->bits[n->depth / 64] &= ~bit;
    n->depth++;
    s->p++;
    return true;
}

static bool json_in_object(const struct json_nesting *n)
{
    return n->bits[(n->depth - 1) / 64] >> ((n->depth - 1) % 64) & 1;
}

static bool json_scan_key(struct json_scan *s)
{
    s->p = json_skip_space(s->p, s->end);
    if (s->p == s->end || *s->p != '"')
        return json_fail(s, "expected a member name");
    if (!json_scan_string(s))
        return false;
    s->p = json_skip_space(s->p, s->end);
    if (s->p == s->end || *s->p != ':')
        return json_fail(s, "expected ':'");
    s->p++;
    return true;
}

/* After a value: closes what ends here, or steps to the next value. True with depth 0: the end. */
static bool json_scan_after(struct json_scan *s, struct json_nesting *n)
{
    while (n->depth > 0) {
        bool object = json_in_object(n);
        s->p = json_skip_space(s->p, s->end);
        if (s->p == s->end)
            return json_fail(s, "unexpected end");
        if (*s->p == ',') {
            s->p++;
            return !object || json_scan_key(s);
        }
        if (*s->p != (object ? '}' : ']'))
            return json_fail(s, object ? "expected ',' or '}'" : "expected ',' or ']'");
        s->p++;
        n->depth--;
    }
    return true;
}

static bool json_scan_value(struct json_scan *s)
{
    struct json_nesting n = {0};
    do {
        s->p = json_skip_space(s->p, s->end);
        if (s->p == s->end)
            return json_fail(s, "unexpected end");
        if (*s->p == '{' || *s->p == '[') {
            bool object = *s->p == '{';
            if (!json_open(s, &n, object))
                return false;
            s->p = json_skip_space(s->p, s->end);
            if (s->p == s->end || *s->p != (object ? '}' : ']')) {
                if (object && !json_scan_key(s))
                    return false;
                continue; /* the container's first value */
            }
            s->p++;
            n.depth--;
        } else if (!json_scan_scalar(s)) {
            return false;
        }
        if (!json_scan_after(s, &n))
            return false;
    } while (n.depth > 0);
    return true;
}

static enum json_type json_type_at(char c)
{
    switch (c) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    default:
        return JSON_NUMBER;
    }
}

bool json_validate(struct slice text, struct json_value *out, struct err *err)
{
    struct json_scan s = {text.p, text.p, text.p + text.n, err};
    if (text.n == 0)
        return err_set(err, "empty text, expected JSON");
    const char *first = json_skip_space(s.p, s.end);
    if (!json_scan_value(&s))
        return false;
    *out = (struct json_value){json_type_at(*first), {first, (size_t)(s.p - first)}};
    s.p = json_skip_space(s.p, s.end);
    return s.p == s.end || json_fail(&s, "something follows the JSON value");
}

/* --- walking a validated text --- */

/* Behind the string that starts at p. */
static const char *json_after_string(const char *p)
{
    for (p++; *p != '"'; p++)
        if (*p == '\\')
            p++;
    return p + 1;
}

static const char *json_after_value(const char *p, const char *end)
{
    size_t depth = 0;
    do {
        switch (*p) {
        case '"':
            p = json_after_string(p);
            break;
        case '{':
        case '[':
            depth++;
            p++;
            break;
        case '}':
        case ']':
            depth--;
            p++;
            break;
        default:
            p++;
            /* A scalar at depth 0 ends at a delimiter; inside, bytes are passed one by one. */
            while (depth == 0 && p < end && !json_space(*p) && *p != ',' && *p != ']' && *p != '}')
                p++;
        }
    } while (depth > 0);
    return p;
}

struct json_iter json_iterate(struct json_value container)
{
    /* Without the closing bracket, so that the end is the end of the range. */
    const char *p = container.raw.p + 1, *end = container.raw.p + container.raw.n - 1;
    return (struct json_iter){json_skip_space(p, end), end};
}

static void json_take(struct json_iter *it, struct json_value *value)
{
    const char *after = json_after_value(it->p, it->end);
    *value = (struct json_value){json_type_at(*it->p), {it->p, (size_t)(after - it->p)}};
    it->p = json_skip_space(after, it->end);
}

bool json_next(struct json_iter *it, struct json_value *element)
{
    if (it->p >= it->end)
        return false;
    json_take(it, element);
    if (it->p < it->end && *it->p == ',')
        it->p = json_skip_space(it->p + 1, it->end);
    return true;
}

bool json_next_member(struct json_iter *it, struct json_value *key, struct json_value *value)
{
    if (it->p >= it->end)
        return false;
    json_take(it, key);
    it->p = json_skip_space(it->p + 1, it->end); /* the colon */
    return json_next(it, value);
}

static bool json_key_is(struct json_value key, const char *name, struct arena *scratch)
{
    struct slice text = {key.raw.p + 1, key.raw.n - 2};
    struct err ignored;
    if (memchr(text.p, '\\', text.n) != NULL && !json_string(key, scratch, &text, &ignored))
        return false;
    return slice_is(text, name);
}

bool json_pick(struct json_value object, const struct json_field *fields, size_t count,
               struct err *err)
{
    struct json_iter it = json_iterate(object);
    struct json_value key, value;
    struct arena scratch = {0};
    bool ok = true;
    for (size_t i = 0; i < count; i++)
        *fields[i].out = (struct json_value){JSON_ABSENT, {NULL, 0}};
    while (ok && json_next_member(&it, &key, &value)) {
        for (size_t i = 0; i < count; i++) {
            if (!json_key_is(key, fields[i].name, &scratch))
                continue;
            if (fields[i].out->type != JSON_ABSENT)
                ok = err_set(err, "duplicate field %s", fields[i].name);
            *fields[i].out = value;
            break;
        }
    }
    arena_free(&scratch);
    return ok;
}

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
    const char *p = v.raw.p + 1, *end = v.raw.p + v.raw.n - 1;
    if (memchr(p, '\\', (size_t)(end - p)) == NULL) {
        *out = (struct slice){p, (size_t)(end - p)};
        return true;
    }
    char *start = arena_alloc(arena, (size_t)(end - p)), *to = start;
    while (p < end) {
        if (*p != '\\') {
            *to++ = *p++;
            continue;
        }
        char c = p[1];
        p += 2;
        if (c == 'u') {
            if (!json_decode_unicode(&p, end, &to, err))
                return false;
        } else {
            *to++ = bytes[strchr(names, c) - names];
        }
    }
    *out = (struct slice){start, (size_t)(to - start)};
    return true;
}

/* Digits and a decimal exponent, exactly; no floating point in between. */
bool json_int64(struct json_value v, int64_t *out)
{
    if (v.type != JSON_NUMBER)
        return false;
    const char *p = v.raw.p, *end = v.raw.p + v.raw.n;
    bool negative = *p == '-', fraction = false;
    long exponent = 0;
    uint64_t n = 0;
    long zeros = 0; /* trailing zeros not multiplied in yet */
    for (p += negative; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') {
            fraction = true;
            continue;
        }
        if (fraction)
            exponent--;
        if (*p == '0') {
            zeros++;
            continue;
        }
        for (; zeros > 0 && n != 0; zeros--)
            if (__builtin_mul_overflow(n, 10, &n))
                return false;
        zeros = 0;
        if (__builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n))
            return false;
    }
    if (n == 0) {
        *out = 0;
        return true;
    }
    if (p < end) {
        char text[16];
        size_t digits = (size_t)(end - p - 1);
        if (digits >= sizeof text)
            return false;
        memcpy(text, p + 1, digits);
        text[digits] = '\0';
        exponent += strtol(text, NULL, 10);
    }
    exponent += zeros;
    if (exponent < 0)
        return false; /* a fraction is left: n does not end in 0 */
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(n, 10, &n))
            return false;
    if (n > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)(0 - n) : (int64_t)n;
    return true;
}

const char *json_type_name(enum json_type type)
{
    static const char *const names[] = {"nothing", "null",   "boolean", "boolean",
                                        "number",  "string", "array",   "object"};
    return names[type];
}
