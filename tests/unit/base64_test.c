/* Base64: the vectors of RFC 4648, strictness, round trips. */
#include "wire/base64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static const struct {
    const char *plain, *text;
} vectors[] = {{"", ""},
               {"f", "Zg=="},
               {"fo", "Zm8="},
               {"foo", "Zm9v"},
               {"foob", "Zm9vYg=="},
               {"fooba", "Zm9vYmE="},
               {"foobar", "Zm9vYmFy"}};

static void vectors_of_the_rfc(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        struct buf text = {0}, plain = {0};
        base64_encode(slice_of(vectors[i].plain), &text);
        assert_true(slice_is(buf_slice(&text), vectors[i].text));
        assert_true(base64_decode(slice_of(vectors[i].text), &plain));
        assert_true(slice_is(buf_slice(&plain), vectors[i].plain));
        buf_free(&text);
        buf_free(&plain);
    }
}

static void what_is_not_base64_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "Z",     "Zg",   "Zg=",  "Zg===",      "====", "=Zg=", "Zg==Zg==", "Zm9v\n",
        "Zm 9v", "Zm-v", "Zm_v", "Z\xc3\xa9=", "Zh==", "Zm9=", "Z==="};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct buf out = {0};
        BUF_PUT_LITERAL(&out, "before");
        if (base64_decode(slice_of(bad[i]), &out))
            fail_msg("\"%s\" was accepted", bad[i]);
        assert_true(slice_is(buf_slice(&out), "before"));
        buf_free(&out);
    }
}

static void every_byte_survives(void **state)
{
    (void)state;
    unsigned char bytes[256];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    for (size_t n = 0; n <= sizeof bytes; n++) {
        struct buf text = {0}, plain = {0};
        struct slice in = {(const char *)bytes + sizeof bytes - n, n};
        base64_encode(in, &text);
        assert_int_equal(text.n, (n + 2) / 3 * 4);
        assert_true(base64_decode(buf_slice(&text), &plain));
        assert_true(slice_equal(buf_slice(&plain), in));
        buf_free(&text);
        buf_free(&plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_of_the_rfc),
        cmocka_unit_test(what_is_not_base64_is_refused),
        cmocka_unit_test(every_byte_survives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
