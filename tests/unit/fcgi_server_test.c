/* The FastCGI server with a client that speaks the protocol record by record: what nginx would
 * never send, connections that die at every point, limits, parking, stop. */
#include "fcgi_fixture.h"

#include <sys/ioctl.h>

static const struct echo_options plain = {0};

static void assert_answer(struct answer a, int status, const char *body)
{
    assert_true(answer_is(&a, status, body));
    answer_free(&a);
}

static void ask_on(int fd, const char *target, const char *data, size_t n)
{
    struct buf out = wire_request(true, n > 0 ? "POST" : "GET", target, data, n);
    wire_send(fd, &out);
}

/* The peer closes; nothing but record headers' worth of bytes may come before. */
static void assert_closed(int fd)
{
    struct buf content = {0};
    unsigned type;
    while ((type = wire_read_record(fd, &content)) != 0)
        assert_int_not_equal(type, FCGI_END_REQUEST);
    buf_free(&content);
    (void)close(fd);
}

static void a_kept_connection_is_used_again(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, &plain, 0);
    int fd = fixture_connect(f.socket);
    for (int i = 0; i < 200; i++) {
        ask_on(fd, "/null", NULL, 0);
        assert_answer(wire_answer(fd), 200, "{}");
        ask_on(fd, "/echo", "abc", 3);
        assert_answer(wire_answer(fd), 200, "abc");
    }
    assert_int_equal(fixture_status(&f, "answers"), 400);
    assert_int_equal(fixture_status(&f, "connections"), 2); /* this one and the question's */
    ask_on(fd, "/header", NULL, 0);
    struct answer a = wire_answer(fd);
    assert_int_equal(a.status, 201);
    assert_string_equal(a.head.p, "Status: 201 Created\r\nContent-Type: application/json\r\n"
                                  "Content-Length: 7\r\nX-One: 1\r\nX-Two: 2\r\n");
    answer_free(&a);
    ask_on(fd, "/empty", NULL, 0);
    a = wire_answer(fd);
    assert_string_equal(a.head.p, "Status: 204 No Content\r\n");
    assert_int_equal(a.body.n, 0);
    answer_free(&a);
    (void)close(fd);
    fixture_await(&f, "connections", 1);
    fixture_stop(&f);
}

static void a_connection_not_kept_is_closed(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, &plain, 0);
    for (int i = 0; i < 20; i++) {
        int fd = fixture_connect(f.socket);
        struct buf out = wire_request(false, "GET", "/null", NULL, 0);
        wire_send(fd, &out);
        assert_answer(wire_answer(fd), 200, "{}");
        assert_closed(fd);
    }
    fixture_stop(&f);
}

static void bodies_of_all_sizes_come_back(void **state)
{
    (void)state;
    static const size_t sizes[] = {1,     7,     8,      8176,   8184,    8192,    32767, 65535,
                                   65536, 65537, 131071, 131072, 1000000, 5000000, 0};
    struct fixture f;
    fixture_start(&f, &plain, 0);
    char *bytes = fixture_bytes(5000000);
    int fd = fixture_connect(f.socket);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ask_on(fd, "/echo", bytes, sizes[i]);
        struct answer a = wire_answer(fd);
        assert_int_equal(a.status, 200);
        assert_int_equal(a.body.n, sizes[i]);
        assert_memory_equal(a.body.p, bytes, sizes[i]);
        answer_free(&a);
    }
    (void)close(fd);
    free(bytes);
    fixture_stop(&f);
}

static void records_may_come_byte_by_byte(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, &plain, 0);
    int fd = fixture_connect(f.socket);
    for (int round = 0; round < 3; round++) {
        struct buf out = {0};
        wire_head(&out, true, "POST", "/echo", "26");
        wire_stdin(&out, "abcdefghijklmnopqrstuvwxyz", 26, 1);
        wire_end(&out);
        for (size_t i = 0; i < out.n; i++) {
            assert_true(wire_send_part(fd, out.p + i, 1));
            if (i % 16 == 0)
                (void)usleep(200);
        }
        buf_free(&out);
        assert_answer(wire_answer(fd), 200, "abcdefghijklmnopqrstuvwxyz");
    }
    (void)close(fd);
    fixture_stop(&f);
}

static void a_slow_request_holds_nobody_up(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, &plain, 0);
    int other = fixture_connect(f.socket);
    ask_on(other, "/null", NULL, 0);
    assert_answer(wire_answer(other), 200, "{}");
    struct buf out = wire_request(true, "POST", "/echo", "abcdef", 6);
    int fd = fixture_connect(f.socket);
    ask_on(fd, "/null", NULL, 0);
    assert_answer(wire_answer(fd), 200, "{}");
    /* In the middle of PARAMS, at their end, in the middle of the body, before the last record. */
    const size_t cuts[] = {40, out.n - 22, out.n - 10, out.n - 4, out.n};
    for (size_t first = 0; first < 4; first++) {
        size_t at = 0;
        for (size_t i = first; i < 5; i++) {
            assert_true(wire_send_part(fd, out.p + at, cuts[i] - at));
            at = cuts[i];
            for (int k = 0; k < 20; k++) {
                ask_on(other, "/echo", "x", 1);
                assert_answer(wire_answer(other), 200, "x");
            }
        }
        assert_answer(wire_answer(fd), 200, "abcdef");
    }
    buf_free(&out);
    (void)close(fd);
    (void)close(other);
    fixture_stop(&f);
}

static void death_at_any_byte_is_survived(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, &plain, 0);
    struct buf out = wire_request(true, "POST", "/hold", "abcdefghijklmnop", 16);
    /* Longer than a small body, so that an I/O thread reads it. */
    char *bytes = fixture_bytes(100000);
    struct buf large = wire_request(true, "POST", "/hold", bytes, 100000);
    for (int kept = 0; kept < 2; kept++)
        for (size_t cut = 0; cut < out.n + 20; cut++) {
            int fd = fixture_connect(f.socket);
            if (kept) {
                ask_on(fd, "/null", NULL, 0);
                assert_answer(wire_answer(fd), 200, "{}");
            }
            if (cut < out.n)
                assert_true(wire_send_part(fd, out.p, cut));
            else
                assert_true(wire_send_part(fd, large.p, large.n - 1 - (cut - out.n) * 5000));
            (void)close(fd);
        }
    fixture_await(&f, "connections", 1);
    assert_int_equal(fixture_status(&f, "waiting"), 0); /* the application saw none of them */
    buf_free(&out);
    buf_free(&large);
    free(bytes);
    fixture_stop(&f);
}

static void rubbish_closes_the_connection(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, &plain, 0);
    for (int kept = 0; kept < 2; kept++) {
        struct buf abort = {0};
        wire_head(&abort, true, "POST", "/echo", "5");
        wire_record(&abort, FCGI_ABORT_REQUEST, 1, NULL, 0, 0);
        struct buf unknown = {0};
        wire_head(&unknown, true, "POST", "/echo", "5");
        wire_record(&unknown, 77, 1, "12345", 5, 0);
        struct buf http = {0};
        buf_put_slice(&http, SLICE_LITERAL("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        struct buf *all[] = {&abort, &unknown, &http};
        for (size_t i = 0; i < 3; i++) {
            int fd = fixture_connect(f.socket);
            if (kept) {
                ask_on(fd, "/null", NULL, 0);
                assert_answer(wire_answer(fd), 200, "{}");
            }
            wire_send(fd, all[i]);
            assert_closed(fd);
        }
    }
    assert_int_equal(fixture_status(&f, "connections"), 1);
    fixture_stop(&f);
}

static void management_records_are_answered(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, &plain, 0);
    int fd = fixture_connect(f.socket);
    struct buf content = {0};
    for (int round = 0; round < 2; round++) {
        struct buf out = {0}, names = {0};
        wire_param(&names, FCGI_MPXS_CONNS, "");
        wire_record(&out, FCGI_GET_VALUES, 0, names.p, names.n, 0);
        wire_record(&out, 99, 0, NULL, 0, 8);
        struct buf request = wire_request(true, "POST", "/echo", "q", 1);
        buf_put_slice(&out, buf_slice(&request));
        wire_send(fd, &out);
        assert_int_equal(wire_read_record(fd, &content), FCGI_GET_VALUES_RESULT);
        assert_int_equal(wire_read_record(fd, &content), FCGI_UNKNOWN_TYPE);
        assert_int_equal(content.p[0], 99);
        assert_answer(wire_answer(fd), 200, "q");
        buf_free(&names);
        buf_free(&request);
    }
    buf_free(&content);
    (void)close(fd);
    /* Not by SIGTERM: libfcgi loses a few bytes with each unknown record, and a leak check tells.
     */
    assert_int_equal(kill(f.server, SIGKILL), 0);
    assert_int_equal(process_wait(f.server), 128 + SIGKILL);
    fixture_remove(&f);
}

/* head, then STDIN with this many bytes. */
static void ask_with_length(int fd, const char *length, const char *data, size_t n)
{
    struct buf out = {0};
    wire_head(&out, true, "POST", "/size", length);
    wire_stdin(&out, data, n, 30000);
    wire_end(&out);
    wire_send(fd, &out);
}

static void a_bad_content_length_is_400(void **state)
{
    (void)state;
    static const char *const bad[] = {"-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "0x10",
                                      "1e3",
                                      "five",
                                      "1,1",
                                      "1.0",
                                      "18446744073709551616",
                                      "99999999999999999999999999"};
    struct fixture f;
    fixture_start(&f, &plain, 0);
    int fd = fixture_connect(f.socket);
    char *bytes = fixture_bytes(100000);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ask_with_length(fd, bad[i], bytes, i * 10000);
        assert_answer(wire_answer(fd), 400, "{\"error\":\"Content-Length is not a number\"}");
    }
    ask_with_length(fd, "18446744073709551615", "abc", 3);
    assert_answer(wire_answer(fd), 413, "{\"error\":\"request body too large\"}");
    /* Not what was announced. */
    ask_with_length(fd, "4", "abc", 3);
    assert_answer(wire_answer(fd), 400,
                  "{\"error\":\"the body is shorter than its Content-Length\"}");
    ask_with_length(fd, "99999", bytes, 99998);
    assert_answer(wire_answer(fd), 400,
                  "{\"error\":\"the body is shorter than its Content-Length\"}");
    ask_with_length(fd, "2", "abc", 3);
    assert_answer(wire_answer(fd), 400,
                  "{\"error\":\"the body is longer than its Content-Length\"}");
    ask_with_length(fd, "70000", bytes, 100000);
    assert_answer(wire_answer(fd), 400,
                  "{\"error\":\"the body is longer than its Content-Length\"}");
    ask_with_length(fd, NULL, "abc", 3);
    assert_answer(wire_answer(fd), 400,
                  "{\"error\":\"the body is longer than its Content-Length\"}");
    ask_with_length(fd, NULL, NULL, 0);
    assert_answer(wire_answer(fd), 200, "0");
    ask_with_length(fd, "000003", "abc", 3);
    assert_answer(wire_answer(fd), 200, "3");
    (void)close(fd);
    assert_int_equal(fixture_status(&f, "connections"), 1);
    free(bytes);
    fixture_stop(&f);
}

static void a_request_without_method_or_target_is_400(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, &plain, 0);
    assert_answer(wire_ask(&f, "", "/null", NULL, 0), 400,
                  "{\"error\":\"the request has no method or no target\"}");
    assert_answer(wire_ask(&f, "GET", "", NULL, 0), 400,
                  "{\"error\":\"the request has no method or no target\"}");
    fixture_stop(&f);
}

static void head_gets_no_body(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, &plain, 0);
    struct answer a = wire_ask(&f, "HEAD", "/big?200000", NULL, 0);
    assert_int_equal(a.status, 200);
    assert_non_null(strstr(a.head.p, "Content-Length: 200000\r\n"));
    assert_int_equal(a.body.n, 0);
    answer_free(&a);
    fixture_stop(&f);
}

static void a_body_over_the_limit_is_413(void **state)
{
    (void)state;
    const struct echo_options options = {.max_body = 1000000};
    struct fixture f;
    fixture_start(&f, &options, 0);
    char *bytes = fixture_bytes(3000000);
    int fd = fixture_connect(f.socket);
    for (int i = 0; i < 3; i++) {
        ask_on(fd, "/size", bytes, 3000000);
        assert_answer(wire_answer(fd), 413, "{\"error\":\"request body too large\"}");
        ask_on(fd, "/size", bytes, 1000001);
        assert_answer(wire_answer(fd), 413, "{\"error\":\"request body too large\"}");
        ask_on(fd, "/size", bytes, 1000000);
        assert_answer(wire_answer(fd), 200, "1000000");
    }
    assert_int_equal(fixture_status(&f, "connections"), 2);
    (void)close(fd);
    free(bytes);
    fixture_stop(&f);
}

static void body_memory_is_bounded(void **state)
{
    (void)state;
    const struct echo_options options = {.max_memory = 1000000};
    struct fixture f;
    fixture_start(&f, &options, 0);
    char *bytes = fixture_bytes(2000000);
    int holder = fixture_connect(f.socket);
    ask_on(holder, "/hold", bytes, 900000);
    fixture_await(&f, "waiting", 1);
    int first = fixture_connect(f.socket);
    ask_on(first, "/size", bytes, 150000);
    int leaver = fixture_connect(f.socket);
    ask_on(leaver, "/size", bytes, 130000);
    int second = fixture_connect(f.socket);
    ask_on(second, "/size", bytes, 110000);
    fixture_await(&f, "connections", 5);
    /* With a body that fits, others go on. */
    for (int i = 0; i < 5; i++)
        assert_answer(wire_ask(&f, "POST", "/size", bytes, 60000), 200, "60000");
    assert_int_equal(fixture_status(&f, "requests"), 6);
    (void)close(leaver);
    fixture_await(&f, "connections", 4); /* holder, first, second and the question's */
    assert_answer(wire_ask(&f, "GET", "/release", NULL, 0), 200, "released 1");
    assert_answer(wire_answer(holder), 200, "held 900000");
    assert_answer(wire_answer(first), 200, "150000");
    assert_answer(wire_answer(second), 200, "110000");
    /* Larger than all of it: alone. */
    ask_on(first, "/size", bytes, 2000000);
    assert_answer(wire_answer(first), 200, "2000000");
    (void)close(holder);
    (void)close(first);
    (void)close(second);
    free(bytes);
    fixture_stop(&f);
}

static void connections_over_the_limit_wait(void **state)
{
    (void)state;
    const struct echo_options options = {.max_connections = 10000};
    struct fixture f;
    enum { FILES = 96, LIMIT = FILES - 64 }; /* 64 stay in reserve */
    int fd[LIMIT + 8];
    fixture_start(&f, &options, FILES);
    for (int i = 0; i < LIMIT + 8; i++) {
        fd[i] = fixture_connect(f.socket);
        ask_on(fd[i], "/null", NULL, 0);
        if (i < LIMIT)
            assert_answer(wire_answer(fd[i]), 200, "{}");
    }
    /* One goes, one comes; the kept ones go on. */
    for (int i = 0; i < 8; i++) {
        struct pollfd next = {.fd = fd[LIMIT + i], .events = POLLIN};
        ask_on(fd[10], "/null", NULL, 0);
        assert_answer(wire_answer(fd[10]), 200, "{}");
        assert_int_equal(poll(&next, 1, 0), 0);
        (void)close(fd[i]);
        assert_answer(wire_answer(fd[LIMIT + i]), 200, "{}");
    }
    for (int i = 8; i < LIMIT + 8; i++)
        (void)close(fd[i]);
    fixture_await(&f, "connections", 1);
    fixture_stop(&f);
}

static void a_silent_peer_does_not_hold_the_acceptor(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, &plain, 0);
    int fd = fixture_connect(f.socket);
    struct buf out = {0};
    wire_begin(&out, true);
    wire_send(fd, &out);
    assert_answer(wire_ask(&f, "GET", "/null", NULL, 0), 200, "{}");
    assert_closed(fd);
    fixture_stop(&f);
}

static void a_client_that_leaves_is_reported_once(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, &plain, 0);
    int fd[50];
    for (int i = 0; i < 50; i++) {
        fd[i] = fixture_connect(f.socket);
        if (i % 2 == 0) { /* on a fresh connection and on a kept one */
            ask_on(fd[i], "/null", NULL, 0);
            assert_answer(wire_answer(fd[i]), 200, "{}");
        }
        ask_on(fd[i], "/park", NULL, 0);
    }
    fixture_await(&f, "waiting", 50);
    for (int i = 0; i < 30; i++)
        (void)close(fd[i]);
    fixture_await(&f, "gone", 30);
    assert_int_equal(fixture_status(&f, "connections"), 21);
    /* Bytes of a next request are not a farewell. */
    ask_on(fd[40], "/echo", "next", 4);
    assert_answer(wire_ask(&f, "GET", "/release", NULL, 0), 200, "released 20");
    for (int i = 30; i < 50; i++)
        assert_answer(wire_answer(fd[i]), 200, "held 0");
    assert_answer(wire_answer(fd[40]), 200, "next");
    assert_int_equal(fixture_status(&f, "gone"), 30);
    for (int i = 30; i < 50; i++)
        (void)close(fd[i]);
    fixture_await(&f, "connections", 1);
    assert_int_equal(fixture_status(&f, "gone"), 30);
    fixture_stop(&f);
}

static void a_client_that_left_before_parking_is_reported(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, &plain, 0);
    int kept = fixture_connect(f.socket), fresh = fixture_connect(f.socket);
    ask_on(kept, "/null", NULL, 0);
    assert_answer(wire_answer(kept), 200, "{}");
    ask_on(kept, "/lazy", NULL, 0);
    ask_on(fresh, "/lazy", NULL, 0);
    fixture_await(&f, "waiting", 2);
    (void)close(kept);
    (void)close(fresh);
    assert_int_equal(fixture_status(&f, "gone"), 0);
    assert_answer(wire_ask(&f, "GET", "/release", NULL, 0), 200, "released 2");
    fixture_await(&f, "gone", 2);
    assert_int_equal(fixture_status(&f, "connections"), 1);
    /* Nobody asked to hear of it: un-parked, and open without ever being parked. */
    int brief = fixture_connect(f.socket), held = fixture_connect(f.socket);
    ask_on(brief, "/brief", NULL, 0);
    ask_on(held, "/hold", "x", 1);
    fixture_await(&f, "waiting", 2);
    (void)close(brief);
    (void)close(held);
    (void)fixture_status(&f, "gone");
    assert_answer(wire_ask(&f, "GET", "/release", NULL, 0), 200, "released 2");
    fixture_await(&f, "connections", 1);
    assert_int_equal(fixture_status(&f, "gone"), 2);
    fixture_stop(&f);
}

static void slow_readers_do_not_use_up_the_threads(void **state)
{
    (void)state;
    enum { SLOW = 8, BIG = 20 << 20 }; /* four times as many as I/O threads */
    struct fixture f;
    fixture_start(&f, &plain, 0);
    int fd[SLOW];
    for (int i = 0; i < SLOW; i++) {
        fd[i] = fixture_connect(f.socket);
        ask_on(fd[i], "/big?20971520", NULL, 0);
    }
    fixture_await(&f, "connections", SLOW + 1);
    char *bytes = fixture_bytes(1000000);
    for (int i = 0; i < 5; i++) {
        struct answer a = wire_ask(&f, "POST", "/echo", bytes, 1000000);
        assert_int_equal(a.body.n, 1000000);
        assert_memory_equal(a.body.p, bytes, 1000000);
        answer_free(&a);
    }
    (void)close(fd[0]);
    fixture_await(&f, "connections", SLOW);
    for (int i = 1; i < SLOW; i++) {
        struct answer a = wire_answer(fd[i]);
        assert_int_equal(a.body.n, BIG);
        for (size_t k = 0; k < BIG; k += 4099)
            assert_int_equal(a.body.p[k], 'a' + (int)(k % 23));
        answer_free(&a);
        (void)close(fd[i]);
    }
    free(bytes);
    fixture_stop(&f);
}

/* Waits until this many bytes can be read; false: the peer closed first. */
static bool await_unread(int fd, int wanted)
{
    struct pollfd hangup = {.fd = fd, .events = POLLRDHUP};
    for (int i = 0; i < FIXTURE_PATIENCE_S * 1000; i++) {
        int unread = 0;
        assert_int_equal(ioctl(fd, FIONREAD, &unread), 0);
        if (unread >= wanted)
            return true;
        if (poll(&hangup, 1, 1) > 0)
            return false;
    }
    fail_msg("neither an answer nor the end");
    return false;
}

static void a_peer_that_reads_no_answers_is_dropped(void **state)
{
    (void)state;
    enum { BIG = 60000 };
    struct fixture f;
    fixture_start(&f, &plain, 0);
    int fd = fixture_connect(f.socket), answers = 0;
    do
        ask_on(fd, "/big?60000", NULL, 0);
    while (await_unread(fd, ++answers * BIG) && answers < 1000);
    assert_in_range(answers, 2, 999);
    (void)close(fd);
    assert_answer(wire_ask(&f, "GET", "/null", NULL, 0), 200, "{}");
    fixture_await(&f, "connections", 1);
    fixture_stop(&f);
}

static void stop_answers_what_is_open_and_closes_the_rest(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, &plain, 0);
    int idle = fixture_connect(f.socket);
    ask_on(idle, "/null", NULL, 0);
    assert_answer(wire_answer(idle), 200, "{}");
    int parked = fixture_connect(f.socket);
    ask_on(parked, "/park", NULL, 0);
    int held = fixture_connect(f.socket);
    ask_on(held, "/hold", "abc", 3);
    int sending = fixture_connect(f.socket);
    ask_on(sending, "/big?20971520", NULL, 0);
    fixture_await(&f, "waiting", 2);
    int reading = fixture_connect(f.socket);
    struct buf out = wire_request(true, "POST", "/echo", "late", 4);
    assert_true(wire_send_part(reading, out.p, out.n - 10));
    fixture_await(&f, "connections", 6);
    assert_int_equal(kill(f.server, SIGTERM), 0);
    assert_answer(wire_answer(parked), 200, "held 0");
    assert_answer(wire_answer(held), 200, "held 3");
    assert_closed(idle);
    assert_closed(parked);
    assert_closed(held);
    assert_true(wire_send_part(reading, out.p + out.n - 10, 10));
    assert_answer(wire_answer(reading), 200, "late");
    assert_closed(reading);
    struct answer a = wire_answer(sending);
    assert_int_equal(a.body.n, 20971520);
    answer_free(&a);
    assert_closed(sending);
    assert_int_equal(process_wait(f.server), 0);
    buf_free(&out);
    fixture_remove(&f);
}

static void requests_already_written_are_served_at_stop(void **state)
{
    (void)state;
    enum { N = 50 };
    struct fixture f;
    int fd[N];
    fixture_start(&f, &plain, 0);
    for (int i = 0; i < N; i++) {
        fd[i] = fixture_connect(f.socket);
        ask_on(fd[i], "/null", NULL, 0);
        assert_answer(wire_answer(fd[i]), 200, "{}");
    }
    /* The server sleeps while the signal and the requests arrive, so it finds them all at once. */
    assert_int_equal(kill(f.server, SIGSTOP), 0);
    assert_int_equal(kill(f.server, SIGTERM), 0);
    for (int i = 0; i < N; i++)
        ask_on(fd[i], "/echo", "x", 1);
    assert_int_equal(kill(f.server, SIGCONT), 0);
    for (int i = 0; i < N; i++) {
        assert_answer(wire_answer(fd[i]), 200, "x");
        assert_closed(fd[i]);
    }
    assert_int_equal(process_wait(f.server), 0);
    fixture_remove(&f);
}

static void a_server_without_connections_stops(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct fixture f;
        fixture_start(&f, &plain, 0);
        (void)fixture_status(&f, "requests"); /* up, and its acceptor about to wait again */
        fixture_stop(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kept_connection_is_used_again),
        cmocka_unit_test(a_connection_not_kept_is_closed),
        cmocka_unit_test(bodies_of_all_sizes_come_back),
        cmocka_unit_test(records_may_come_byte_by_byte),
        cmocka_unit_test(a_slow_request_holds_nobody_up),
        cmocka_unit_test(death_at_any_byte_is_survived),
        cmocka_unit_test(rubbish_closes_the_connection),
        cmocka_unit_test(management_records_are_answered),
        cmocka_unit_test(a_bad_content_length_is_400),
        cmocka_unit_test(a_request_without_method_or_target_is_400),
        cmocka_unit_test(head_gets_no_body),
        cmocka_unit_test(a_body_over_the_limit_is_413),
        cmocka_unit_test(body_memory_is_bounded),
        cmocka_unit_test(connections_over_the_limit_wait),
        cmocka_unit_test(a_silent_peer_does_not_hold_the_acceptor),
        cmocka_unit_test(a_client_that_leaves_is_reported_once),
        cmocka_unit_test(a_client_that_left_before_parking_is_reported),
        cmocka_unit_test(slow_readers_do_not_use_up_the_threads),
        cmocka_unit_test(a_peer_that_reads_no_answers_is_dropped),
        cmocka_unit_test(stop_answers_what_is_open_and_closes_the_rest),
        cmocka_unit_test(requests_already_written_are_served_at_stop),
        cmocka_unit_test(a_server_without_connections_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
