/* JSON (RFC 8259): validate a text once, then find values in it as spans of the original bytes.
 * Nothing is re-serialised, so numbers, escapes, key order and duplicate keys of payloads survive
 * (contract 1, section 0). */
#ifndef WIRE_JSON_H
#define WIRE_JSON_H

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

#include <stdint.h>

enum json_type {
    JSON_ABSENT, /* no such member; raw.n is 0 */
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

struct json_value {
    enum json_type type;
    struct slice raw; /* exact bytes in the text, without surrounding white space */
};

/* Deepest nesting of arrays and objects. */
#define JSON_MAX_DEPTH 512

/* Validates the whole text: grammar, UTF-8 (RFC 3629: no overlong forms, no surrogates), no raw
 * control characters in strings, depth, nothing but white space after the value. On failure err
 * says what was found and at which line and column (both from 1; columns count bytes). Does not
 * recurse. */
MUST_CHECK bool json_validate(struct slice text, struct json_value *out, struct err *err);

/* Walks an array or object of a validated text; any other value is walked as if it were empty. */
struct json_iter {
    const char *p, *end;
};

struct json_iter json_iterate(struct json_value container);
/* Next element of an array; false at the end. */
bool json_next(struct json_iter *it, struct json_value *element);
/* Next member of an object; key->raw includes its quotes. */
bool json_next_member(struct json_iter *it, struct json_value *key, struct json_value *value);

/* Picks members of an object by name in one pass. A name that stands twice is an error (T48 of the
 * data-plane detail); names not listed are ignored. Members keep JSON_NULL when null was sent:
 * json_present() tells both apart from a value. Keys are compared after decoding escapes. An error
 * too when the value is no object. */
struct json_field {
    const char *name;
    struct json_value *out;
};
MUST_CHECK bool json_pick(struct json_value object, const struct json_field *fields, size_t count,
                          struct err *err);

static inline bool json_present(struct json_value v)
{
    return v.type != JSON_ABSENT && v.type != JSON_NULL;
}

/* Decodes a string. Without escapes the result points into the text; else it is allocated in the
 * arena. An escaped lone surrogate has no UTF-8 form and is an error, and so is a value of another
 * type. The result may hold NUL. */
MUST_CHECK bool json_string(struct json_value v, struct arena *arena, struct slice *out,
                            struct err *err);

/* A number that is a whole number in the int64 range ("1e3" and "5.0" are accepted, as clients'
 * serialisers write them). */
MUST_CHECK bool json_int64(struct json_value v, int64_t *out);

/* Name of a type for error texts: "string", "object", ... */
const char *json_type_name(enum json_type type);

#endif
