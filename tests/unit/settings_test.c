/* Settings: every row of settings.def at its default, at its borders and beyond. */
#include "base/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_FLAG, KIND_NUMBER, KIND_TEXT, KIND_SECRET };

struct row {
    enum kind kind;
    const char *name;
    size_t at; /* in struct settings */
    int64_t dflt, min, max;
    const char *text;
};

static const struct row rows[] = {
#define FLAG(field, name, dflt, help)                                                              \
    {KIND_FLAG, name, offsetof(struct settings, field), dflt, 0, 1, ""},
#define NUMBER(field, name, dflt, min, max, unit, help)                                            \
    {KIND_NUMBER, name, offsetof(struct settings, field), dflt, min, max, ""},
#define TEXT(field, name, dflt, help)                                                              \
    {KIND_TEXT, name, offsetof(struct settings, field), 0, 0, 0, dflt},
#define SECRET(field, name, dflt, help)                                                            \
    {KIND_SECRET, name, offsetof(struct settings, field), 0, 0, 0, dflt},
#include "base/settings.def"
#undef FLAG
#undef NUMBER
#undef TEXT
#undef SECRET
};

enum { ROWS = sizeof rows / sizeof *rows };

static struct settings settings;
static struct err err;

static int clean(void **state)
{
    (void)state;
    return clearenv();
}

static void set(const char *name, const char *value)
{
    assert_int_equal(setenv(name, value, 1), 0);
}

static void load(void)
{
    if (!settings_load(&settings, &err))
        fail_msg("%s", err.text);
}

static int64_t number_of(const struct row *r)
{
    return *(const int64_t *)(const void *)((const char *)&settings + r->at);
}

static bool flag_of(const struct row *r)
{
    return *(const bool *)((const char *)&settings + r->at);
}

static const char *text_of(const struct row *r)
{
    return *(const char *const *)(const void *)((const char *)&settings + r->at);
}

static void assert_defaults(void)
{
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        if (r->kind == KIND_FLAG)
            assert_int_equal(flag_of(r), r->dflt);
        else if (r->kind == KIND_NUMBER)
            assert_int_equal(number_of(r), r->dflt);
        else
            assert_string_equal(text_of(r), r->text);
    }
}

static void the_table_makes_sense(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        assert_true(rows[i].min <= rows[i].dflt && rows[i].dflt <= rows[i].max);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(rows[i].name, rows[k].name);
    }
}

static void unset_and_empty_mean_default(void **state)
{
    (void)state;
    memset(&settings, 0x55, sizeof settings);
    load();
    assert_defaults();
    for (size_t i = 0; i < ROWS; i++)
        set(rows[i].name, "");
    memset(&settings, 0x55, sizeof settings);
    load();
    assert_defaults();
}

static void assert_refused(const char *name, const char *value)
{
    set(name, value);
    if (settings_load(&settings, &err))
        fail_msg("%s=%s was accepted", name, value);
    assert_non_null(strstr(err.text, name)); /* the variable, the value, what is allowed */
    assert_non_null(strstr(err.text, value));
    assert_int_equal(unsetenv(name), 0);
}

static void numbers_have_ranges(void **state)
{
    char value[32];
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        if (r->kind != KIND_NUMBER)
            continue;
        (void)snprintf(value, sizeof value, "%" PRId64, r->min);
        set(r->name, value);
        load();
        assert_int_equal(number_of(r), r->min);
        (void)snprintf(value, sizeof value, "%" PRId64, r->max);
        set(r->name, value);
        load();
        assert_int_equal(number_of(r), r->max);
        (void)snprintf(value, sizeof value, "%" PRId64, r->min - 1);
        assert_refused(r->name, value);
        (void)snprintf(value, sizeof value, "%" PRId64, r->max + 1);
        assert_refused(r->name, value);
        assert_non_null(strstr(err.text, "whole number from"));
    }
}

static void numbers_are_whole(void **state)
{
    static const char *const bad[] = {"ten",
                                      "500ms",
                                      "500 ",
                                      "500e3",
                                      "500.5",
                                      "0x200",
                                      " ",
                                      "-",
                                      "500,000",
                                      "500-",
                                      "99999999999999999999",
                                      "-99999999999999999999"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused("QUEEN_STMT_TIMEOUT_MS", bad[i]);
}

static void flags_have_four_spellings(void **state)
{
    static const char *const yes[] = {"true", "1", "yes", "on", "TRUE", "Yes", "On"};
    static const char *const no[] = {"false", "0", "no", "off", "False", "NO", "OFF"};
    static const char *const bad[] = {"2", "y", "t", "tru", "true ", "enabled", "-1"};
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        if (r->kind != KIND_FLAG)
            continue;
        for (size_t k = 0; k < sizeof yes / sizeof *yes; k++) {
            set(r->name, yes[k]);
            load();
            assert_true(flag_of(r));
            set(r->name, no[k]);
            load();
            assert_false(flag_of(r));
        }
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
            assert_refused(r->name, bad[k]);
    }
}

static void texts_are_taken_as_they_are(void **state)
{
    (void)state;
    set("QUEEN_RUN_DIR", " /tmp/a b ");
    load();
    assert_string_equal(settings.run_dir, " /tmp/a b ");
}

static void secrets_are_never_shown(void **state)
{
    struct buf out = {0};
    (void)state;
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].kind == KIND_SECRET)
            set(rows[i].name, "s3cret-value");
    load();
    for (int markdown = 0; markdown < 2; markdown++) {
        buf_clear(&out);
        settings_describe(&settings, markdown, &out);
        assert_null(memmem(out.p, out.n, "s3cret", 6));
    }
    buf_clear(&out);
    settings_describe(&settings, false, &out);
    assert_non_null(memmem(out.p, out.n, "QUEEN_DATABASE_URL=(set)\n", 25));
    (void)clearenv();
    load();
    buf_clear(&out);
    settings_describe(&settings, false, &out);
    assert_non_null(memmem(out.p, out.n, "QUEEN_DATABASE_URL=(not set)\n", 29));
    buf_free(&out);
}

static void the_description_names_everything(void **state)
{
    struct buf out = {0};
    (void)state;
    set("QUEEN_STMT_TIMEOUT_MS", "12345");
    set("QUEEN_ACK_FUSION", "off");
    load();
    settings_describe(&settings, false, &out);
    assert_non_null(memmem(out.p, out.n, "\nQUEEN_STMT_TIMEOUT_MS=12345\n", 29));
    assert_non_null(memmem(out.p, out.n, "\nQUEEN_ACK_FUSION=false\n", 24));
    buf_clear(&out);
    settings_describe(&settings, true, &out); /* the reference shows defaults */
    assert_non_null(
        memmem(out.p, out.n, "| `QUEEN_STMT_TIMEOUT_MS` | 30000 ms (100 to 600000) |", 54));
    assert_null(memmem(out.p, out.n, "12345", 5));
    size_t lines = 0, bars = 0;
    for (size_t i = 0; i < out.n; i++) {
        lines += out.p[i] == '\n';
        bars += out.p[i] == '|';
    }
    assert_int_equal(lines, ROWS + 2);
    assert_int_equal(bars, 4 * lines); /* no cell breaks the table */
    for (size_t i = 0; i < ROWS; i++)
        assert_non_null(memmem(out.p, out.n, rows[i].name, strlen(rows[i].name)));
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_table_makes_sense, clean),
        cmocka_unit_test_setup(unset_and_empty_mean_default, clean),
        cmocka_unit_test_setup(numbers_have_ranges, clean),
        cmocka_unit_test_setup(numbers_are_whole, clean),
        cmocka_unit_test_setup(flags_have_four_spellings, clean),
        cmocka_unit_test_setup(texts_are_taken_as_they_are, clean),
        cmocka_unit_test_setup(secrets_are_never_shown, clean),
        cmocka_unit_test_setup(the_description_names_everything, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
