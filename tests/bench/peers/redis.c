/* Redis streams: RESP2. A queue is a stream with the consumer group "bench". */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>

/* Ids of received messages, as bulk strings ready for XACK, in s->wire. */
struct redis {
    struct buf ids;
    int count;
};

static void redis_hello(struct session *s)
{
    if (s->wire == NULL)
        s->wire = mem_zalloc(sizeof(struct redis));
    BUF_PUT_LITERAL(&s->connection.out, "*1\r\n$4\r\nPING\r\n");
}

static void redis_bulk(struct buf *out, struct slice text)
{
    buf_putc(out, '$');
    buf_put_int(out, (int64_t)text.n);
    BUF_PUT_LITERAL(out, "\r\n");
    buf_put_slice(out, text);
    BUF_PUT_LITERAL(out, "\r\n");
}

/* The start of a command: the number of its words, then the words given here (until NULL). */
static void redis_words(struct buf *out, int words, const char *const *given)
{
    buf_putc(out, '*');
    buf_put_int(out, words);
    BUF_PUT_LITERAL(out, "\r\n");
    for (; *given != NULL; given++)
        redis_bulk(out, slice_of(*given));
}
#define REDIS_WORDS(out, words, ...)                                                               \
    redis_words(out, words, (const char *const[]){__VA_ARGS__, NULL})

static const char *redis_key(const struct session *s, int queue)
{
    static char key[128];
    (void)snprintf(key, sizeof key, "%s-%d", s->run->b->prefix, queue);
    return key;
}

static void redis_declare(struct session *s, int queue)
{
    REDIS_WORDS(&s->connection.out, 6, "XGROUP", "CREATE", redis_key(s, queue), "bench", "0",
                "MKSTREAM");
    s->unconfirmed++;
}

static void redis_publish(struct session *s, int queue, struct slice payload)
{
    REDIS_WORDS(&s->connection.out, 5, "XADD", redis_key(s, queue), "*", "m");
    redis_bulk(&s->connection.out, payload);
}

static void redis_fetch(struct session *s)
{
    struct buf *out = &s->connection.out;
    char consumer[16], count[16];
    (void)snprintf(consumer, sizeof consumer, "c%d", s->number);
    (void)snprintf(count, sizeof count, "%d", s->run->b->batch);
    REDIS_WORDS(out, s->wait ? 11 : 9, "XREADGROUP", "GROUP", "bench", consumer, "COUNT", count);
    if (s->wait)
        BUF_PUT_LITERAL(out, "$5\r\nBLOCK\r\n$1\r\n0\r\n");
    BUF_PUT_LITERAL(out, "$7\r\nSTREAMS\r\n");
    redis_bulk(out, slice_of(redis_key(s, s->queue)));
    BUF_PUT_LITERAL(out, "$1\r\n>\r\n");
}

static void redis_ack(struct session *s)
{
    struct redis *r = s->wire;
    REDIS_WORDS(&s->connection.out, 3 + r->count, "XACK", redis_key(s, s->queue), "bench");
    buf_put_slice(&s->connection.out, buf_slice(&r->ids));
    s->unconfirmed += r->count;
    buf_clear(&r->ids);
    r->count = 0;
}

/* One value of RESP2. */
struct resp {
    char type;         /* + - : $ * */
    int64_t n;         /* the number, or the length of $ and *; -1 = null */
    struct slice text; /* of + - $ */
};

/* Reads the head of the value at *at, of $ with its bytes; moves *at behind it; false when it is
 * not complete. The elements of * follow. */
static bool resp_next(const char **at, const char *end, struct resp *v)
{
    const char *eol = *at < end ? memchr(*at, '\n', (size_t)(end - *at)) : NULL;
    if (eol == NULL || eol - *at < 2)
        return false;
    *v = (struct resp){.type = **at, .text = {*at + 1, (size_t)(eol - *at) - 2}};
    if (v->type == ':' || v->type == '$' || v->type == '*')
        v->n = strtoll(*at + 1, NULL, 10);
    *at = eol + 1;
    if (v->type == '$' && v->n >= 0) {
        if (end - *at < v->n + 2)
            return false;
        v->text = (struct slice){*at, (size_t)v->n};
        *at += v->n + 2;
    }
    return true;
}

/* Skips a value with its elements. */
static bool resp_skip(const char **at, const char *end)
{
    for (int64_t left = 1; left > 0; left--) {
        struct resp v;
        if (!resp_next(at, end, &v))
            return false;
        if (v.type == '*' && v.n > 0)
            left += v.n;
    }
    return true;
}

/* The answer to XREADGROUP of one stream, complete: [[key, [[id, [field, value]], ...]]]. */
static void redis_messages(struct session *s, const char *at, const char *end)
{
    struct redis *r = s->wire;
    struct resp v = {0}, id = {0};
    for (int i = 0; i < 4; i++) /* the two outer arrays, the key, the array of messages */
        if (!resp_next(&at, end, &v))
            return;
    for (int64_t i = v.n; i > 0; i--) {
        struct resp head;
        bool well = resp_next(&at, end, &head) && resp_next(&at, end, &id) &&
                    resp_next(&at, end, &head) && head.n == 2 && resp_next(&at, end, &head) &&
                    resp_next(&at, end, &head);
        if (!well) {
            session_failed(s, SLICE_LITERAL("not a message of a stream"));
            return;
        }
        redis_bulk(&r->ids, id.text);
        r->count++;
        session_message(s, head.text);
    }
}

static size_t redis_read(struct session *s, struct slice in)
{
    const char *at = in.p, *end = in.p + in.n, *values = in.p;
    struct resp v;
    if (!resp_skip(&at, end) || !resp_next(&values, end, &v))
        return 0;
    if (!s->ready && v.type == '+')
        s->ready = true;
    else if (v.type == '-' && memmem(v.text.p, v.text.n, "BUSYGROUP", 9) == NULL)
        session_failed(s, v.text);
    else if (v.type == ':') /* XACK: how many were pending at the broker */
        session_confirmed(s, (int)v.n);
    else if (v.type == '*') {
        if (v.n > 0)
            redis_messages(s, in.p, at);
        session_fetched(s);
    } else
        session_confirmed(s, 1);
    return (size_t)(at - in.p);
}

const struct peer peer_redis = {.name = "redis",
                                .hello = redis_hello,
                                .declare = redis_declare,
                                .publish = redis_publish,
                                .fetch = redis_fetch,
                                .ack = redis_ack,
                                .read = redis_read};
