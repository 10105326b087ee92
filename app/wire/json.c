/* JSON: one validating pass without recursion, then walking the validated text. What the bytes of a
 * scalar mean is json_decode.c. */
#include "wire/json.h"

#include "wire/utf8.h"

#include <endian.h>
#include <stdio.h>

/* What a byte means to the loops below. Bytes above 0x7f belong to UTF-8 sequences. */
enum {
    CLASS_SPACE = 1,
    CLASS_STRING_STOP = 2, /* cannot be passed over inside a string without a look */
    CLASS_STRING_MARK = 4, /* the same in a text that is known to be valid: quote, backslash */
    CLASS_SCALAR_STOP = 8, /* ends a number or a word */
    CLASS_STRUCTURE = 16   /* opens or closes a container or a string */
};

static const unsigned char json_class[256] = {
    [0x00 ... 0x08] = CLASS_STRING_STOP,
    ['\t'] = CLASS_STRING_STOP | CLASS_SPACE | CLASS_SCALAR_STOP,
    ['\n'] = CLASS_STRING_STOP | CLASS_SPACE | CLASS_SCALAR_STOP,
    [0x0b ... 0x0c] = CLASS_STRING_STOP,
    ['\r'] = CLASS_STRING_STOP | CLASS_SPACE | CLASS_SCALAR_STOP,
    [0x0e ... 0x1f] = CLASS_STRING_STOP,
    [' '] = CLASS_SPACE | CLASS_SCALAR_STOP,
    ['"'] = CLASS_STRING_STOP | CLASS_STRING_MARK | CLASS_STRUCTURE,
    ['\\'] = CLASS_STRING_STOP | CLASS_STRING_MARK,
    [','] = CLASS_SCALAR_STOP,
    ['['] = CLASS_STRUCTURE,
    ['{'] = CLASS_STRUCTURE,
    [']'] = CLASS_SCALAR_STOP | CLASS_STRUCTURE,
    ['}'] = CLASS_SCALAR_STOP | CLASS_STRUCTURE,
    [0x80 ... 0xff] = CLASS_STRING_STOP,
};

static bool json_is(char c, unsigned class)
{
    return (json_class[(unsigned char)c] & class) != 0;
}

static const char *json_skip_space(const char *p, const char *end)
{
    while (p < end && json_is(*p, CLASS_SPACE))
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

/* First byte of a string at or behind p that is of the class (CLASS_STRING_STOP or
 * CLASS_STRING_MARK), or end. Eight bytes at a time: the lowest set bit of `found` is exact, a
 * borrow can only mark bytes above it. */
static inline const char *json_find(const char *p, const char *end, unsigned class)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    for (; end - p >= 8; p += 8) {
        uint64_t v;
        memcpy(&v, p, sizeof v);
        v = le64toh(v);
        uint64_t quote = v ^ (ones * '"'), slash = v ^ (ones * '\\');
        uint64_t found = ((quote - ones) & ~quote) | ((slash - ones) & ~slash);
        if (class == CLASS_STRING_STOP)
            found |= ((v - ones * 0x20) & ~v) | v;
        if (found & high)
            return p + __builtin_ctzll(found & high) / 8;
    }
    while (p < end && !json_is(*p, class))
        p++;
    return p;
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

static bool json_expected(struct json_scan *s, const char *what)
{
    char text[96];
    unsigned char c = s->p < s->end ? (unsigned char)*s->p : 0;
    if (s->p == s->end)
        (void)snprintf(text, sizeof text, "expected %s, found the end of the text", what);
    else if (c >= 0x20 && c < 0x7f)
        (void)snprintf(text, sizeof text, "expected %s, found '%c'", what, c);
    else
        (void)snprintf(text, sizeof text, "expected %s, found byte 0x%02x", what, c);
    return json_fail(s, text);
}

static bool json_scan_escape(struct json_scan *s)
{
    s->p++;
    if (s->p == s->end)
        return json_fail(s, "unterminated string");
    if (*s->p == 'u') {
        s->p++;
        for (int i = 0; i < 4; i++, s->p++) {
            if (s->p == s->end || !json_hex(*s->p))
                return json_expected(s, "four hexadecimal digits after \\u");
        }
        return true;
    }
    if (memchr("\"\\/bfnrt", *s->p, 8) == NULL)
        return json_expected(s, "one of \"\\/bfnrtu after a backslash");
    s->p++;
    return true;
}

/* Passes the non-ASCII characters at s->p, if any. */
static bool json_scan_utf8(struct json_scan *s)
{
    const unsigned char *p = (const unsigned char *)s->p, *end = (const unsigned char *)s->end;
    while (p < end && *p >= 0x80) {
        size_t n = 2; /* the common case in line */
        if (*p < 0xc2 || *p > 0xdf || end - p < 2 || (p[1] & 0xc0) != 0x80)
            n = utf8_sequence((const char *)p, (size_t)(end - p));
        if (n == 0) {
            s->p = (const char *)p;
            return json_fail(s, "invalid UTF-8");
        }
        p += n;
    }
    s->p = (const char *)p;
    return true;
}

static bool json_scan_string(struct json_scan *s)
{
    s->p++;
    for (;;) {
        s->p = json_find(s->p, s->end, CLASS_STRING_STOP);
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
        }
        if (!json_scan_utf8(s))
            return false;
    }
}

static bool json_scan_digits(struct json_scan *s)
{
    if (!json_digit(s->p, s->end))
        return json_expected(s, "a digit");
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
    for (const char *w = word; *w != '\0'; w++, s->p++)
        if (s->p == s->end || *s->p != *w)
            return json_expected(s, word);
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
        return json_expected(s, "a value");
    }
}

/* Which of the open containers are objects; one bit a level. */
_Static_assert(JSON_MAX_DEPTH % 64 == 0, "whole words");
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
        return json_expected(s, "a member name");
    if (!json_scan_string(s))
        return false;
    s->p = json_skip_space(s->p, s->end);
    if (s->p == s->end || *s->p != ':')
        return json_expected(s, "':'");
    s->p++;
    return true;
}

/* After a value: closes what ends here, or steps to the next value. True with depth 0: the end. */
static bool json_scan_after(struct json_scan *s, struct json_nesting *n)
{
    while (n->depth > 0) {
        bool object = json_in_object(n);
        s->p = json_skip_space(s->p, s->end);
        if (s->p < s->end && *s->p == ',') {
            s->p++;
            return !object || json_scan_key(s);
        }
        if (s->p == s->end || *s->p != (object ? '}' : ']'))
            return json_expected(s, object ? "',' or '}'" : "',' or ']'");
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
            return json_expected(s, "a value");
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
        return err_set(err, "empty text, expected a JSON value");
    const char *first = json_skip_space(s.p, s.end);
    if (!json_scan_value(&s))
        return false;
    *out = (struct json_value){json_type_at(*first), {first, (size_t)(s.p - first)}};
    s.p = json_skip_space(s.p, s.end);
    return s.p == s.end || json_expected(&s, "the end of the text");
}

/* --- walking a validated text --- */

/* Behind the string that starts at p. */
static const char *json_after_string(const char *p, const char *end)
{
    p = json_find(p + 1, end, CLASS_STRING_MARK);
    while (*p == '\\')
        p = json_find(p + 2, end, CLASS_STRING_MARK);
    return p + 1;
}

/* Behind the container that starts at p. */
static const char *json_after_container(const char *p, const char *end)
{
    size_t depth = 0;
    do {
        while (!json_is(*p, CLASS_STRUCTURE))
            p++;
        if (*p == '"') {
            p = json_after_string(p, end);
            continue;
        }
        if (*p == '{' || *p == '[')
            depth++;
        else
            depth--;
        p++;
    } while (depth > 0);
    return p;
}

/* Behind the value that starts at p; end is the end of what it stands in. */
static const char *json_after_value(const char *p, const char *end)
{
    if (*p == '"')
        return json_after_string(p, end);
    if (*p == '{' || *p == '[')
        return json_after_container(p, end);
    while (p < end && !json_is(*p, CLASS_SCALAR_STOP))
        p++;
    return p;
}

struct json_iter json_iterate(struct json_value container)
{
    if (container.type != JSON_ARRAY && container.type != JSON_OBJECT)
        return (struct json_iter){NULL, NULL};
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

/* The key's text. One that has no UTF-8 form gives an empty slice, which is nobody's name. */
static struct slice json_key_text(struct json_value key, struct arena *scratch)
{
    struct slice text = {key.raw.p + 1, key.raw.n - 2};
    if (memchr(text.p, '\\', text.n) != NULL && !json_string(key, scratch, &text, NULL))
        text.n = 0;
    return text;
}

bool json_pick(struct json_value object, const struct json_field *fields, size_t count,
               struct err *err)
{
    for (size_t i = 0; i < count; i++)
        *fields[i].out = (struct json_value){JSON_ABSENT, {NULL, 0}};
    if (object.type != JSON_OBJECT)
        return err_set(err, "expected an object, found %s", json_type_name(object.type));
    struct json_iter it = json_iterate(object);
    struct json_value key, value;
    struct arena scratch = {0}; /* allocates only for keys with escapes */
    bool ok = true;
    while (ok && json_next_member(&it, &key, &value)) {
        struct slice text = json_key_text(key, &scratch);
        for (size_t i = 0; i < count && text.n > 0; i++) {
            if (*fields[i].name != *text.p || !slice_is(text, fields[i].name))
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
