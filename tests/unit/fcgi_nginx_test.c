/* The FastCGI server behind a real nginx: bodies, kept connections, parking, limits, stop. nginx
 * and the application listen on sockets in the test's own directory only. */
#include "fcgi_fixture.h"

static const struct echo_options plain = {0};

/* http.sock: kept connections. direct.sock: the same, answers not buffered by nginx. close.sock:
 * connections not kept. */
static void nginx_write_config(const struct fixture *f, FILE *out)
{
    const char *d = f->dir;
    (void)fprintf(
        out,
        "%sworker_processes 1;\nworker_rlimit_nofile 8192;\npid %s/nginx.pid;\n"
        "error_log %s/nginx.log warn;\nevents { worker_connections 4096; }\n"
        "http {\n access_log off;\n client_max_body_size 0;\n"
        " client_body_temp_path %s/body;\n fastcgi_temp_path %s/fastcgi;\n"
        " proxy_temp_path %s/proxy;\n uwsgi_temp_path %s/uwsgi;\n scgi_temp_path %s/scgi;\n"
        " keepalive_requests 1000000;\n fastcgi_next_upstream off;\n"
        " fastcgi_read_timeout 300;\n"
        " fastcgi_param REQUEST_METHOD $request_method;\n"
        " fastcgi_param REQUEST_URI $request_uri;\n"
        " fastcgi_param CONTENT_LENGTH $content_length;\n"
        " fastcgi_param HTTP_AUTHORIZATION $http_authorization if_not_empty;\n"
        " fastcgi_pass_request_headers off;\n"
        " upstream app { server unix:%s; keepalive 128; keepalive_requests 1000000; }\n",
        geteuid() == 0 ? "user root;\n" : "", d, d, d, d, d, d, d, f->socket);
    (void)fprintf(out,
                  " server { listen unix:%s/http.sock; fastcgi_keep_conn on;"
                  " location / { fastcgi_pass app; } }\n",
                  d);
    (void)fprintf(out,
                  " server { listen unix:%s/direct.sock; fastcgi_keep_conn on;"
                  " fastcgi_buffering off; location / { fastcgi_pass app; } }\n",
                  d);
    (void)fprintf(
        out, " server { listen unix:%s/close.sock; location / { fastcgi_pass unix:%s; } }\n}\n", d,
        f->socket);
}

static void nginx_start(struct fixture *f)
{
    char config[128], ready[128];
    (void)snprintf(config, sizeof config, "%s/nginx.conf", f->dir);
    (void)snprintf(ready, sizeof ready, "%s/nginx.pid", f->dir);
    FILE *out = fopen(config, "w");
    assert_non_null(out);
    nginx_write_config(f, out);
    assert_int_equal(fclose(out), 0);
    (void)fflush(NULL);
    f->nginx = fork();
    assert_true(f->nginx >= 0);
    if (f->nginx == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        (void)execlp("nginx", "nginx", "-e", "stderr", "-p", f->dir, "-c", config, "-g",
                     "daemon off;", (char *)NULL);
        (void)execl("/usr/sbin/nginx", "nginx", "-e", "stderr", "-p", f->dir, "-c", config, "-g",
                    "daemon off;", (char *)NULL);
        perror("nginx");
        _exit(127);
    }
    for (int i = 0; i < FIXTURE_PATIENCE_S * 100 && access(ready, F_OK) != 0; i++)
        (void)usleep(10000);
    assert_int_equal(access(ready, F_OK), 0);
}

static void nginx_stop(struct fixture *f)
{
    assert_int_equal(kill(f->nginx, SIGTERM), 0);
    assert_int_equal(process_wait(f->nginx), 0);
}

static void start(struct fixture *f, const struct echo_options *o)
{
    fixture_start(f, o, 0);
    nginx_start(f);
}

static void stop(struct fixture *f)
{
    nginx_stop(f);
    fixture_stop(f);
}

static int http_connect(const struct fixture *f, const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s.sock", f->dir, name);
    return fixture_connect(path);
}

static void http_ask(int fd, const char *method, const char *target, const char *data, size_t n)
{
    struct buf out = {0};
    buf_printf(&out, "%s %s HTTP/1.1\r\nHost: test\r\n", method, target);
    if (n > 0)
        buf_printf(&out, "Content-Length: %zu\r\n", n);
    BUF_PUT_LITERAL(&out, "\r\n");
    buf_put(&out, data, n);
    wire_send(fd, &out);
}

/* An HTTP answer with Content-Length or without a body; asked_head: to a HEAD request. */
static struct answer http_answer(int fd, bool asked_head)
{
    struct answer a = {0};
    struct buf head = {0};
    while (head.n < 4 || memcmp(head.p + head.n - 4, "\r\n\r\n", 4) != 0) {
        char c;
        if (!wire_read_exactly(fd, &c, 1))
            return a;
        buf_putc(&head, c);
    }
    buf_putc(&head, '\0');
    a.head = head;
    assert_int_equal(strncmp(head.p, "HTTP/1.1 ", 9), 0);
    a.status = atoi(head.p + 9);
    const char *length = strstr(head.p, "Content-Length: ");
    assert_null(strstr(head.p, "chunked"));
    assert_true(length != NULL || a.status == 204);
    size_t n = length != NULL && !asked_head ? strtoul(length + 16, NULL, 10) : 0;
    buf_reserve(&a.body, n + 1);
    assert_true(wire_read_exactly(fd, a.body.p, n));
    a.body.n = n;
    a.body.p[n] = '\0';
    return a;
}

static void assert_http(int fd, int status, const char *body)
{
    struct answer a = http_answer(fd, false);
    assert_true(answer_is(&a, status, body));
    answer_free(&a);
}

static void bodies_come_back_byte_for_byte(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,     1,     100,    8150,   8192,    16384,   32768,   65535,
                                   65536, 65537, 100000, 131072, 1000000, 1048577, 10485760};
    static const char *const servers[] = {"http", "direct", "close"};
    struct fixture f;
    start(&f, &plain);
    char *bytes = fixture_bytes(10485760);
    for (size_t s = 0; s < 3; s++) {
        int fd = http_connect(&f, servers[s]);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            http_ask(fd, "POST", "/echo", bytes, sizes[i]);
            struct answer a = http_answer(fd, false);
            assert_int_equal(a.status, 200);
            assert_int_equal(a.body.n, sizes[i]);
            assert_memory_equal(a.body.p, bytes, sizes[i]);
            answer_free(&a);
        }
        (void)close(fd);
    }
    free(bytes);
    stop(&f);
}

static void a_chunked_body_has_a_length_for_us(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, &plain);
    int fd = http_connect(&f, "http");
    struct buf out = {0};
    BUF_PUT_LITERAL(&out, "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "5\r\nabcde\r\n3\r\nfgh\r\n0\r\n\r\n");
    wire_send(fd, &out);
    assert_http(fd, 200, "abcdefgh");
    (void)close(fd);
    stop(&f);
}

static void connections_are_kept(void **state)
{
    (void)state;
    enum { CLIENTS = 64, ROUNDS = 50 };
    struct fixture f;
    int fd[CLIENTS];
    start(&f, &plain);
    for (int i = 0; i < CLIENTS; i++)
        fd[i] = http_connect(&f, "http");
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CLIENTS; i++)
            http_ask(fd[i], "POST", "/echo", "0123456789", (size_t)(i % 10) + 1);
        for (int i = 0; i < CLIENTS; i++) {
            struct answer a = http_answer(fd[i], false);
            assert_int_equal(a.status, 200);
            assert_int_equal(a.body.n, (size_t)(i % 10) + 1);
            answer_free(&a);
        }
    }
    unsigned connections = fixture_status(&f, "connections");
    assert_in_range(connections, 2, CLIENTS + 1);
    assert_int_equal(fixture_status(&f, "requests"), CLIENTS * ROUNDS);
    for (int i = 0; i < CLIENTS; i++)
        (void)close(fd[i]);
    stop(&f);
}

static void a_thousand_parked_requests_are_answered(void **state)
{
    (void)state;
    enum { PARKED = 1000 };
    struct fixture f;
    static int fd[PARKED];
    start(&f, &plain);
    for (int i = 0; i < PARKED; i++) {
        fd[i] = http_connect(&f, "http");
        http_ask(fd[i], "GET", "/park", NULL, 0);
    }
    fixture_await(&f, "waiting", PARKED);
    int other = http_connect(&f, "http");
    http_ask(other, "POST", "/echo", "x", 1);
    assert_http(other, 200, "x");
    http_ask(other, "GET", "/release", NULL, 0);
    assert_http(other, 200, "released 1000");
    for (int i = 0; i < PARKED; i++) {
        assert_http(fd[i], 200, "held 0");
        (void)close(fd[i]);
    }
    assert_int_equal(fixture_status(&f, "gone"), 0);
    (void)close(other);
    stop(&f);
}

static void clients_that_leave_are_reported_once(void **state)
{
    (void)state;
    enum { PARKED = 60, LEAVE = 40 };
    struct fixture f;
    int fd[PARKED];
    start(&f, &plain);
    for (int i = 0; i < PARKED; i++) {
        fd[i] = http_connect(&f, i % 2 == 0 ? "http" : "close");
        http_ask(fd[i], "GET", "/park", NULL, 0);
    }
    fixture_await(&f, "waiting", PARKED);
    for (int i = 0; i < LEAVE; i++)
        (void)close(fd[i]);
    fixture_await(&f, "gone", LEAVE);
    assert_int_equal(fixture_status(&f, "waiting"), PARKED - LEAVE);
    struct answer a = wire_ask(&f, "GET", "/release", NULL, 0);
    assert_true(answer_is(&a, 200, "released 20"));
    answer_free(&a);
    for (int i = LEAVE; i < PARKED; i++) {
        assert_http(fd[i], 200, "held 0");
        (void)close(fd[i]);
    }
    assert_int_equal(fixture_status(&f, "gone"), LEAVE);
    stop(&f);
}

static void answers_without_a_body(void **state)
{
    (void)state;
    static const char *const servers[] = {"http", "direct", "close"};
    struct fixture f;
    start(&f, &plain);
    for (size_t s = 0; s < 3; s++) {
        int fd = http_connect(&f, servers[s]);
        http_ask(fd, "GET", "/empty", NULL, 0);
        struct answer a = http_answer(fd, false);
        assert_int_equal(a.status, 204);
        assert_null(strstr(a.head.p, "Content-Length"));
        assert_null(strstr(a.head.p, "Content-Type"));
        answer_free(&a);
        http_ask(fd, "HEAD", "/big?100000", NULL, 0);
        a = http_answer(fd, true);
        assert_int_equal(a.status, 200);
        assert_non_null(strstr(a.head.p, "Content-Length: 100000\r\n"));
        answer_free(&a);
        /* Nothing of either stands before the next answer. */
        http_ask(fd, "GET", "/header", NULL, 0);
        a = http_answer(fd, false);
        assert_true(answer_is(&a, 201, "{\"a\":1}"));
        assert_non_null(strstr(a.head.p, "HTTP/1.1 201 Created\r\n"));
        assert_non_null(strstr(a.head.p, "Content-Type: application/json\r\n"));
        assert_non_null(strstr(a.head.p, "X-One: 1\r\nX-Two: 2\r\n"));
        answer_free(&a);
        (void)close(fd);
    }
    stop(&f);
}

static void a_body_over_the_limit_is_413_through_nginx(void **state)
{
    (void)state;
    static const char *const servers[] = {"http", "direct", "close"};
    const struct echo_options options = {.max_body = 1000000};
    struct fixture f;
    start(&f, &options);
    char *bytes = fixture_bytes(30000000);
    for (size_t s = 0; s < 3; s++) {
        int fd = http_connect(&f, servers[s]);
        for (int i = 0; i < 5; i++) {
            http_ask(fd, "POST", "/echo", bytes, i % 2 == 0 ? 30000000 : 1000001);
            assert_http(fd, 413, "{\"error\":\"request body too large\"}");
            http_ask(fd, "POST", "/size", bytes, 1000000);
            assert_http(fd, 200, "1000000");
        }
        (void)close(fd);
    }
    free(bytes);
    stop(&f);
}

static void slow_readers_stall_nobody(void **state)
{
    (void)state;
    enum { SLOW = 6, BIG = 20971520 };
    struct fixture f;
    int fd[SLOW];
    start(&f, &plain);
    for (int i = 0; i < SLOW; i++) {
        fd[i] = http_connect(&f, i % 2 == 0 ? "direct" : "http");
        http_ask(fd[i], "GET", "/big?20971520", NULL, 0);
    }
    fixture_await(&f, "connections", SLOW + 1);
    char *bytes = fixture_bytes(1000000);
    int other = http_connect(&f, "http");
    for (int i = 0; i < 10; i++) {
        http_ask(other, "POST", "/size", bytes, 1000000);
        assert_http(other, 200, "1000000");
        http_ask(other, "GET", "/null", NULL, 0);
        assert_http(other, 200, "{}");
    }
    for (int i = 0; i < SLOW; i++) {
        struct answer a = http_answer(fd[i], false);
        assert_int_equal(a.body.n, BIG);
        for (size_t k = 0; k < BIG; k += 4099)
            assert_int_equal(a.body.p[k], 'a' + (int)(k % 23));
        answer_free(&a);
        (void)close(fd[i]);
    }
    (void)close(other);
    free(bytes);
    stop(&f);
}

static void a_stop_under_load_loses_no_request(void **state)
{
    (void)state;
    enum { CLIENTS = 32 };
    struct fixture f;
    int fd[CLIENTS];
    start(&f, &plain);
    for (int i = 0; i < CLIENTS; i++) {
        fd[i] = http_connect(&f, "http");
        http_ask(fd[i], "GET", i % 2 == 0 ? "/park" : "/hold", NULL, 0);
    }
    fixture_await(&f, "waiting", CLIENTS);
    assert_int_equal(fixture_end_server(&f), 0);
    for (int i = 0; i < CLIENTS; i++) {
        assert_http(fd[i], 200, "held 0");
        (void)close(fd[i]);
    }
    nginx_stop(&f);
    fixture_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_come_back_byte_for_byte),
        cmocka_unit_test(a_chunked_body_has_a_length_for_us),
        cmocka_unit_test(connections_are_kept),
        cmocka_unit_test(a_thousand_parked_requests_are_answered),
        cmocka_unit_test(clients_that_leave_are_reported_once),
        cmocka_unit_test(answers_without_a_body),
        cmocka_unit_test(a_body_over_the_limit_is_413_through_nginx),
        cmocka_unit_test(slow_readers_stall_nobody),
        cmocka_unit_test(a_stop_under_load_loses_no_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
