/* Key/value operations of a request. The members that SQL looks at are copied as they stand; values
 * travel beside them, so that their bytes survive. */
#include "worker/kv_ops.h"

/* Which JSON types a member may have before SQL sees it: a string in the wrong place could hold an
 * escape that jsonb refuses. */
enum kv_kind { KV_TEXT, KV_TEXTS, KV_SCALAR };

static const struct kv_member {
    const char *name;
    enum kv_kind kind;
    const char *reason; /* when it has another type */
} kv_members[] = {
    {"op", KV_TEXT, "kv_unknown_op"},
    {"ns", KV_TEXT, "kv_bad_namespace"},
    {"key", KV_TEXT, "kv_bad_key"},
    {"keys", KV_TEXTS, "kv_bad_key"},
    {"prefix", KV_TEXT, "kv_prefix_required"},
    {"after", KV_TEXT, "kv_bad_request"},
    {"ttlSeconds", KV_SCALAR, "kv_bad_ttl"},
    {"forever", KV_SCALAR, "kv_expiry_not_specified"},
    {"expect", KV_SCALAR, "kv_bad_expect"},
    {"required", KV_SCALAR, "kv_bad_request"},
    {"delta", KV_SCALAR, "kv_bad_request"},
    {"min", KV_SCALAR, "kv_bad_request"},
    {"max", KV_SCALAR, "kv_bad_request"},
    {"limit", KV_SCALAR, "kv_bad_request"},
    {"keysOnly", KV_SCALAR, "kv_bad_request"},
    {"tenant", KV_SCALAR, "kv_tenant_not_an_input"},
    {"tenantId", KV_SCALAR, "kv_tenant_not_an_input"},
    {"_tenant", KV_SCALAR, "kv_tenant_not_an_input"},
};
enum { KV_MEMBERS = sizeof kv_members / sizeof *kv_members, KV_OP = 0 };

static bool kv_text_is_storable(struct json_value v, struct arena *arena, struct err *err)
{
    struct slice text;
    if (!json_string(v, arena, &text, err))
        return false;
    return text.n == 0 || memchr(text.p, 0, text.n) == NULL ||
           err_set(err, "holds a NUL character, which is not allowed");
}

static bool kv_member_fits(enum kv_kind kind, struct json_value v, struct arena *arena,
                           struct err *err)
{
    struct json_value element;
    if (v.type == JSON_NULL)
        return true;
    switch (kind) {
    case KV_TEXT:
        return v.type == JSON_STRING
                   ? kv_text_is_storable(v, arena, err)
                   : err_set(err, "must be a string, found %s", json_type_name(v.type));
    case KV_TEXTS:
        if (v.type != JSON_ARRAY)
            return err_set(err, "must be an array of strings, found %s", json_type_name(v.type));
        for (struct json_iter it = json_iterate(v); json_next(&it, &element);)
            if (!kv_member_fits(KV_TEXT, element, arena, err))
                return false;
        return true;
    case KV_SCALAR:
        break;
    }
    return (v.type != JSON_STRING && v.type != JSON_ARRAY && v.type != JSON_OBJECT) ||
           err_set(err, "cannot be of type %s", json_type_name(v.type));
}

static bool kv_op_is_read(struct json_value op)
{
    return op.raw.n > 4 && memcmp(op.raw.p, "\"get", 4) == 0;
}

static bool kv_op_parse(struct kv_ops *out, size_t index, struct json_value element,
                        struct arena *arena, struct buf *text, struct refusal *refusal)
{
    struct json_value members[KV_MEMBERS];
    struct json_field fields[KV_MEMBERS + 1];
    struct err err;
    for (size_t i = 0; i < KV_MEMBERS; i++)
        fields[i] = (struct json_field){kv_members[i].name, &members[i]};
    fields[KV_MEMBERS] = (struct json_field){"value", &out->values[index]};
    if (element.type != JSON_OBJECT)
        return refusal_set(refusal, 400, "kv_bad_request", "kv_bad_request",
                           "operation %zu is not an object", index);
    if (!json_pick(element, fields, KV_MEMBERS + 1, &err))
        return refusal_set(refusal, 400, "kv_bad_request", "kv_bad_request", "operation %zu: %s",
                           index, err.text);
    buf_putc(text, '{');
    bool first = true;
    for (size_t i = 0; i < KV_MEMBERS; i++) {
        if (members[i].type == JSON_ABSENT)
            continue;
        if (!kv_member_fits(kv_members[i].kind, members[i], arena, &err))
            return refusal_set(refusal, 400, "kv_bad_request", kv_members[i].reason,
                               "operation %zu: %s %s", index, kv_members[i].name, err.text);
        buf_printf(text, "%s\"%s\":", first ? "" : ",", kv_members[i].name);
        buf_put_slice(text, members[i].raw);
        first = false;
    }
    buf_putc(text, '}');
    out->writes |= !kv_op_is_read(members[KV_OP]);
    return true;
}

bool kv_ops_parse(struct json_value array, size_t max, struct arena *arena, struct kv_ops *out,
                  struct refusal *refusal)
{
    struct json_value element;
    *out = (struct kv_ops){0};
    for (struct json_iter it = json_iterate(array); json_next(&it, &element);)
        out->count++;
    if (out->count > max)
        return refusal_set(refusal, 400, "kv_bad_request", "kv_too_many_ops",
                           "%zu operations, the limit is %zu", out->count, max);
    out->values = arena_zarray(arena, out->count, sizeof *out->values);
    struct buf text = {0};
    bool ok = true;
    size_t index = 0;
    buf_putc(&text, '[');
    for (struct json_iter it = json_iterate(array); ok && json_next(&it, &element); index++) {
        if (index > 0)
            buf_putc(&text, ',');
        ok = kv_op_parse(out, index, element, arena, &text, refusal);
    }
    buf_putc(&text, ']');
    out->ops = arena_copy(arena, buf_slice(&text));
    buf_free(&text);
    return ok;
}

void kv_ops_bind(const struct kv_ops *ops, struct pg_params *params)
{
    pg_param_text(params, ops->ops);
    pg_array_begin(params, PG_TEXT);
    for (size_t i = 0; i < ops->count; i++) {
        if (ops->values[i].type == JSON_ABSENT)
            pg_array_null(params);
        else
            pg_array_bytes(params, ops->values[i].raw);
    }
    pg_array_end(params);
}
