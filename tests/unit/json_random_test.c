/* JSON, at random: generated documents validate and walk back to their own bytes; documents with
 * mutated bytes are never read outside (sanitizer builds see it) and, if still valid, still walk.
 * JSON_RANDOM_SEED and JSON_RANDOM_ROUNDS repeat or extend a run. */
#include "base/buf.h"
#include "wire/json.h"
#include "wire/json_write.h"
#include "wire/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32) % n;
}

static long rounds(long dflt)
{
    const char *seed = getenv("JSON_RANDOM_SEED"), *n = getenv("JSON_RANDOM_ROUNDS");
    random_state = seed != NULL ? strtoull(seed, NULL, 10) : 20261201;
    return n != NULL ? strtol(n, NULL, 10) : dflt;
}

static void put_space(struct buf *out)
{
    while (random_below(6) == 0)
        buf_putc(out, " \t\n\r"[random_below(4)]);
}

static void put_string(struct buf *out)
{
    static const char *const parts[] = {"a",
                                        "plain text",
                                        "\xc3\xa9",
                                        "\xe2\x82\xac",
                                        "\xf0\x9f\x98\x80",
                                        "\\n",
                                        "\\\\",
                                        "\\\"",
                                        "\\u0041",
                                        "\\ud83d\\ude00",
                                        "\\ud800",
                                        "]",
                                        "}",
                                        ",",
                                        ":",
                                        "{",
                                        "[",
                                        "\\/",
                                        "0123456789abcdef"};
    buf_putc(out, '"');
    for (uint32_t n = random_below(8); n > 0; n--)
        buf_put_slice(out, slice_of(parts[random_below(sizeof parts / sizeof *parts)]));
    buf_putc(out, '"');
}

static void put_scalar(struct buf *out)
{
    static const char *const scalars[] = {
        "0", "-0", "1.50", "-12e+7", "1E400", "123456789012345678901", "true", "false", "null"};
    if (random_below(2) == 0)
        put_string(out);
    else
        buf_put_slice(out, slice_of(scalars[random_below(sizeof scalars / sizeof *scalars)]));
}

static void put_value(struct buf *out, uint32_t depth)
{
    uint32_t kind = depth == 0 ? 2 : random_below(3);
    if (kind == 2) {
        put_scalar(out);
        return;
    }
    buf_putc(out, kind == 0 ? '[' : '{');
    put_space(out);
    for (uint32_t i = 0, n = random_below(5); i < n; i++) {
        if (i > 0)
            buf_putc(out, ',');
        put_space(out);
        if (kind == 1) {
            put_string(out);
            put_space(out);
            buf_putc(out, ':');
            put_space(out);
        }
        put_value(out, depth - 1);
        put_space(out);
    }
    buf_putc(out, kind == 0 ? ']' : '}');
}

/* Writes the value again from its spans, without white space: every byte of every scalar is used.
 */
static void walk(struct json_value v, struct buf *out)
{
    struct json_iter it = json_iterate(v);
    struct json_value key, value;
    bool first = true;
    if (v.type == JSON_ARRAY) {
        for (buf_putc(out, '['); json_next(&it, &value); first = false) {
            if (!first)
                buf_putc(out, ',');
            walk(value, out);
        }
        buf_putc(out, ']');
    } else if (v.type == JSON_OBJECT) {
        for (buf_putc(out, '{'); json_next_member(&it, &key, &value); first = false) {
            if (!first)
                buf_putc(out, ',');
            buf_put_slice(out, key.raw);
            buf_putc(out, ':');
            walk(value, out);
        }
        buf_putc(out, '}');
    } else {
        buf_put_slice(out, v.raw);
    }
}

/* The independent half: drops white space outside strings, knowing nothing of the grammar. */
static void squeeze(struct slice text, struct buf *out)
{
    bool in_string = false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (in_string && c == '\\') {
            buf_putc(out, c);
            c = text.p[++i];
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string && (c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
            continue;
        }
        buf_putc(out, c);
    }
}

static void assert_walks_back(struct slice text, struct json_value v)
{
    struct buf walked = {0}, squeezed = {0};
    walk(v, &walked);
    squeeze(text, &squeezed);
    if (!slice_equal(buf_slice(&walked), buf_slice(&squeezed)))
        fail_msg("walked %.*s\nof     %.*s", SLICE_ARGS(buf_slice(&walked)), SLICE_ARGS(text));
    buf_free(&walked);
    buf_free(&squeezed);
}

/* Decodes every string and number of a valid value: nothing is read outside, and a string that
 * decodes is UTF-8. */
static void decode_all(struct json_value v)
{
    struct json_iter it = json_iterate(v);
    struct json_value key, value;
    struct arena arena = {0};
    struct slice text;
    struct err err;
    int64_t n;
    if (v.type == JSON_STRING && json_string(v, &arena, &text, &err))
        assert_true(utf8_valid(text));
    (void)!json_int64(v, &n);
    if (v.type == JSON_ARRAY) {
        while (json_next(&it, &value))
            decode_all(value);
    } else if (v.type == JSON_OBJECT) {
        struct json_value a, b;
        const struct json_field fields[] = {{"a", &a}, {"plain text", &b}};
        (void)!json_pick(v, fields, 2, &err);
        while (json_next_member(&it, &key, &value)) {
            decode_all(key);
            decode_all(value);
        }
    }
    arena_free(&arena);
}

static void generated_documents_walk_back(void **state)
{
    struct buf text = {0};
    (void)state;
    for (long round = rounds(3000); round > 0; round--) {
        buf_clear(&text);
        put_space(&text);
        put_value(&text, 1 + random_below(6));
        put_space(&text);
        char *copy = malloc(text.n);
        struct json_value v;
        struct err err;
        assert_non_null(copy);
        memcpy(copy, text.p, text.n);
        if (!json_validate((struct slice){copy, text.n}, &v, &err))
            fail_msg("%s: %.*s", err.text, SLICE_ARGS(buf_slice(&text)));
        assert_walks_back((struct slice){copy, text.n}, v);
        decode_all(v);
        free(copy);
    }
    buf_free(&text);
}

static size_t mutate(char *text, size_t n)
{
    static const char likely[] = "\"\\{}[],:0123eE.+-tfnu \n\x80\xc3\xf0\xed\0";
    for (uint32_t k = 1 + random_below(3); k > 0 && n > 0; k--) {
        size_t at = random_below((uint32_t)n);
        char c =
            random_below(2) == 0 ? (char)random_below(256) : likely[random_below(sizeof likely)];
        switch (random_below(3)) {
        case 0:
            text[at] = c;
            break;
        case 1: /* drop a byte */
            memmove(text + at, text + at + 1, n - at - 1);
            n--;
            break;
        default:
            n = at; /* cut */
        }
    }
    return n;
}

static void mutated_documents_are_never_read_outside(void **state)
{
    struct buf text = {0};
    long valid = 0, refused = 0;
    (void)state;
    for (long round = rounds(30000); round > 0; round--) {
        buf_clear(&text);
        put_value(&text, 1 + random_below(4));
        size_t n = mutate(text.p, text.n);
        char *copy = malloc(n == 0 ? 1 : n);
        struct json_value v;
        struct err err;
        assert_non_null(copy);
        memcpy(copy, text.p, n);
        char *exact = realloc(copy, n == 0 ? 1 : n);
        assert_non_null(exact);
        if (json_validate((struct slice){exact, n}, &v, &err)) {
            valid++;
            assert_true(utf8_valid((struct slice){exact, n}));
            assert_walks_back((struct slice){exact, n}, v);
            decode_all(v);
        } else {
            refused++;
        }
        free(exact);
    }
    buf_free(&text);
    /* The run means something only when both happen. */
    assert_true(valid > 100 && refused > 100);
}

/* Any bytes become a valid string, and valid UTF-8 comes back unchanged. */
static void written_strings_read_back(void **state)
{
    struct buf out = {0};
    (void)state;
    for (long round = rounds(20000); round > 0; round--) {
        char bytes[40];
        size_t n = random_below(sizeof bytes + 1);
        bool ascii = random_below(2) == 0;
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)random_below(ascii ? 128 : 256);
        struct slice in = {bytes, n}, back;
        struct json_value v;
        struct arena arena = {0};
        struct err err;
        buf_clear(&out);
        json_write_string(&out, in);
        if (!json_validate(buf_slice(&out), &v, &err) || !json_string(v, &arena, &back, &err))
            fail_msg("%s: %.*s", err.text, SLICE_ARGS(buf_slice(&out)));
        if (utf8_valid(in))
            assert_true(slice_equal(in, back));
        else
            assert_non_null(memmem(back.p, back.n, "\xef\xbf\xbd", 3));
        arena_free(&arena);
    }
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generated_documents_walk_back),
        cmocka_unit_test(mutated_documents_are_never_read_outside),
        cmocka_unit_test(written_strings_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
