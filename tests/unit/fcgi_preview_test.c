/* How much of a request has arrived: every prefix of a request, foreign records, rubbish. */
#include "fcgi/preview.h"
#include "fcgi_fixture.h"

static void every_prefix_is_told(void **state)
{
    (void)state;
    struct buf b = {0};
    wire_head(&b, true, "POST", "/echo", "1000");
    size_t head_n = b.n;
    char *body = fixture_bytes(1000);
    wire_stdin(&b, body, 1000, 300);
    wire_end(&b);
    for (size_t n = 0; n <= b.n; n++) {
        enum preview want = n < head_n ? PREVIEW_PARTIAL : n < b.n ? PREVIEW_HEAD : PREVIEW_WHOLE;
        assert_int_equal(preview_scan((unsigned char *)b.p, n), want);
    }
    free(body);
    buf_free(&b);
}

static void records_of_others_end_nothing(void **state)
{
    (void)state;
    struct buf b = {0};
    wire_record(&b, FCGI_STDIN, 1, NULL, 0, 0);
    wire_begin(&b, true);
    wire_record(&b, FCGI_STDIN, 1, NULL, 0, 0); /* before the end of PARAMS */
    wire_record(&b, FCGI_PARAMS, 2, NULL, 0, 0);
    assert_int_equal(preview_scan((unsigned char *)b.p, b.n), PREVIEW_PARTIAL);
    wire_record(&b, FCGI_PARAMS, 1, NULL, 0, 0);
    wire_record(&b, FCGI_STDIN, 2, NULL, 0, 0);
    wire_record(&b, FCGI_GET_VALUES, 0, NULL, 0, 0);
    assert_int_equal(preview_scan((unsigned char *)b.p, b.n), PREVIEW_HEAD);
    wire_end(&b);
    assert_int_equal(preview_scan((unsigned char *)b.p, b.n), PREVIEW_WHOLE);
    buf_free(&b);
}

static void rubbish_is_partial(void **state)
{
    (void)state;
    char *p = fixture_bytes(4096);
    p[0] = 'G';
    assert_int_equal(preview_scan((unsigned char *)p, 4096), PREVIEW_PARTIAL);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_prefix_is_told),
        cmocka_unit_test(records_of_others_end_nothing),
        cmocka_unit_test(rubbish_is_partial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
