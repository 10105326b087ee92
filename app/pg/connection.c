/* One connection of a lane: its states, and what an answer of the server means for a job. */
#include "pg/connection.h"

#include "base/logger.h"
#include "base/table.h"
#include "pg/cancel.h"
#include "pg/conninfo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    OPEN_TIMEOUT_MS = 5000, /* connecting and session set-up together */
    BACKOFF_MIN_MS = 50,
    BACKOFF_MAX_MS = 1000,
    SETTLED_MS = 1000,         /* up this long: the next loss is a new event, tried again at once */
    PARAMS_KEEP = 1024 * 1024, /* bytes of scratch that a connection keeps */
    OLDEST_SERVER = 140000,
};

/* client_min_messages: the warning that connection_notice() looks for must get through. jit: its
 * planning-time compilation costs more than any of our statements takes. */
static const char session_sql[] =
    "select set_config('TimeZone', 'UTC', false), set_config('jit', 'off', false),"
    " set_config('client_min_messages', 'warning', false),"
    " set_config('default_transaction_isolation', 'read committed', false),"
    " pg_is_in_recovery() or current_setting('transaction_read_only') = 'on'";
enum { SESSION_READ_ONLY = 4 };

/* One line, cut to size; libpq's texts end in newlines and have several. */
static void text_copy(char out[256], const char *text)
{
    size_t n = 0;
    for (; *text != '\0' && n < 255; text++) {
        bool space = *text == '\n' || *text == '\t' || *text == '\r';
        if (!space || (n > 0 && out[n - 1] != ' '))
            out[n++] = space ? ' ' : *text;
    }
    while (n > 0 && out[n - 1] == ' ')
        n--;
    out[n] = '\0';
}

static uint64_t backoff_ms(unsigned failures)
{
    if (failures == 0)
        return 0;
    uint64_t ms = failures > 5 ? BACKOFF_MAX_MS : (uint64_t)BACKOFF_MIN_MS << (failures - 1);
    if (ms > BACKOFF_MAX_MS)
        ms = BACKOFF_MAX_MS;
    uint32_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return ms;
    return ms / 2 + random % (ms / 2 + 1);
}

static bool connection_is_up(const struct connection *c)
{
    return c->state >= CONN_IDLE;
}

static void statement_forget(struct connection *c)
{
    PQclear(c->rows);
    c->rows = NULL;
    c->refused = c->broken = c->uncertain = c->replan = c->unsent = false;
    c->sqlstate[0] = c->text[0] = '\0';
}

static void connection_shut(struct connection *c)
{
    loop_unwatch(c->loop, &c->io);
    PQfinish(c->pg);
    c->pg = NULL;
    c->state = CONN_DOWN;
    c->job = NULL;
    c->prepared_count = 0;
}

/* Closes and plans the next attempt. */
static void connection_restart(struct connection *c)
{
    uint64_t now = loop_now_ms(c->loop);
    if (connection_is_up(c) && now - c->up_since_ms >= SETTLED_MS)
        c->failures = 0;
    if (!connection_is_up(c))
        c->first_host++;
    connection_shut(c);
    loop_timer_set(c->loop, &c->timer, now + backoff_ms(c->failures));
    c->failures++;
}

/* The connection is of no use any more: its job gets an outcome or goes back to the queue. */
static void connection_lost(struct connection *c, const char *why)
{
    char text[256];
    text_copy(text, why);
    struct pg_job *job = c->job;
    bool was_up = connection_is_up(c);
    bool nothing_happened = c->state == CONN_PREPARING || c->unsent || c->replan;
    struct pg_outcome outcome = {.status = PG_UNKNOWN, .text = text};
    char refusal[256];
    if (c->refused && !c->uncertain) {
        outcome.status = PG_REFUSED;
        memcpy(outcome.sqlstate, c->sqlstate, sizeof outcome.sqlstate);
        memcpy(refusal, c->text, sizeof refusal);
        outcome.text = refusal;
    }
    statement_forget(c);
    connection_restart(c);
    lane_connection_down(c->lane, was_up, text);
    if (job == NULL)
        return;
    if (nothing_happened)
        lane_job_again(c->lane, job);
    else
        lane_job_over(c->lane, job, &outcome);
}

static void connection_ready(struct loop_io *io, uint32_t events);

static void connection_watch(struct connection *c, uint32_t events)
{
    struct err err;
    if (!loop_watch(c->loop, &c->io, PQsocket(c->pg), events, connection_ready, &err))
        die("cannot watch a database connection: %s", err.text);
}

/* Sends what libpq holds back; a message that the socket does not take yet waits for it. */
static bool connection_flush(struct connection *c)
{
    int left = PQflush(c->pg);
    if (left < 0)
        return false;
    if (c->unsent != (left > 0)) {
        c->unsent = left > 0;
        loop_rewatch(c->loop, &c->io, c->unsent ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
    return true;
}

/* A message was given to libpq. */
static void connection_sent(struct connection *c, int accepted)
{
    c->unsent = false;
    if (accepted == 1 && connection_flush(c))
        return;
    c->unsent = true; /* not all of it has left: nothing can have happened */
    connection_lost(c, PQerrorMessage(c->pg));
}

static void session_begin(struct connection *c)
{
    if (PQserverVersion(c->pg) < OLDEST_SERVER) {
        connection_lost(c, "the server is older than PostgreSQL 14");
        return;
    }
    if (PQsetnonblocking(c->pg, 1) != 0) {
        connection_lost(c, PQerrorMessage(c->pg));
        return;
    }
    c->state = CONN_SESSION;
    connection_watch(c, EPOLLIN);
    connection_sent(c, PQsendQuery(c->pg, session_sql));
}

static void session_end(struct connection *c)
{
    if (c->refused || c->rows == NULL) {
        char text[256];
        memcpy(text, c->text, sizeof text);
        connection_lost(c, text);
        return;
    }
    if (*PQgetvalue(c->rows, 0, SESSION_READ_ONLY) == 't') {
        connection_lost(c, "the server is read-only (a standby, or default_transaction_read_only)");
        return;
    }
    statement_forget(c);
    loop_timer_cancel(c->loop, &c->timer);
    c->state = CONN_IDLE;
    c->up_since_ms = loop_now_ms(c->loop);
    lane_connection_up(c->lane);
}

/* Goes on connecting. libpq may have replaced the socket by another, even of the same number. */
static void opening_poll(struct connection *c)
{
    loop_unwatch(c->loop, &c->io);
    switch (PQconnectPoll(c->pg)) {
    case PGRES_POLLING_READING:
        connection_watch(c, EPOLLIN);
        break;
    case PGRES_POLLING_WRITING:
        connection_watch(c, EPOLLOUT);
        break;
    case PGRES_POLLING_OK:
        session_begin(c);
        break;
    default:
        connection_lost(c, PQerrorMessage(c->pg));
    }
}

static void connection_notice(void *owner, const PGresult *r)
{
    struct connection *c = owner;
    const char *function = PQresultErrorField(r, PG_DIAG_SOURCE_FUNCTION);
    const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    /* The server gave up waiting for its synchronous standbys: it reports success, but a failover
     * may lose this commit. There is no code for it, and the text is translated. */
    if (function != NULL && strcmp(function, "SyncRepWaitForLSN") == 0)
        c->uncertain = true;
    logger_debug(c->application_name, "server: %s", text != NULL ? text : "(no text)");
}

static void opening_begin(struct connection *c)
{
    struct err err;
    c->pg = pg_connect_start(c->conninfo, c->application_name, c->first_host, &err);
    c->state = CONN_OPENING;
    if (c->pg == NULL) {
        connection_lost(c, err.text);
        return;
    }
    PQsetNoticeReceiver(c->pg, connection_notice, c);
    if (PQstatus(c->pg) == CONNECTION_BAD) {
        connection_lost(c, PQerrorMessage(c->pg));
        return;
    }
    loop_timer_set(c->loop, &c->timer, loop_now_ms(c->loop) + OPEN_TIMEOUT_MS);
    connection_watch(c, EPOLLOUT);
}

static void connection_timer(struct loop_timer *timer)
{
    struct connection *c = TABLE_OWNER(timer, struct connection, timer);
    if (c->state == CONN_DOWN)
        opening_begin(c);
    else
        connection_lost(c, "no session within 5 s");
}

static bool statement_is_prepared(const struct connection *c, const struct pg_statement *statement)
{
    for (size_t i = 0; i < c->prepared_count; i++)
        if (c->prepared[i] == statement)
            return true;
    return false;
}

static void statement_prepare(struct connection *c)
{
    const struct pg_statement *s = c->job->statement;
    Oid types[PG_MAX_PARAMS];
    for (int i = 0; i < s->param_count; i++)
        types[i] = (Oid)s->types[i];
    c->state = CONN_PREPARING;
    connection_sent(c, PQsendPrepare(c->pg, s->name, s->sql, s->param_count, types));
}

static void statement_execute(struct connection *c)
{
    const struct pg_statement *s = c->job->statement;
    struct pg_params *p = &c->params;
    const char *values[PG_MAX_PARAMS];
    int formats[PG_MAX_PARAMS];
    pg_params_clear(p);
    if (c->job->build != NULL)
        c->job->build(c->job, p);
    if (p->count != s->param_count)
        die("statement %s: %d parameters, not %d", s->name, p->count, s->param_count);
    for (int i = 0; i < p->count; i++) {
        formats[i] = 1;
        values[i] = p->length[i] < 0 ? NULL : p->length[i] == 0 ? "" : p->bytes.p + p->offset[i];
    }
    c->state = CONN_EXECUTING;
    int accepted = PQsendQueryPrepared(c->pg, s->name, p->count, values, p->length, formats, 1);
    if (p->bytes.cap > PARAMS_KEEP)
        pg_params_free(p);
    connection_sent(c, accepted);
}

void connection_run(struct connection *c, struct pg_job *job)
{
    c->job = job;
    if (statement_is_prepared(c, job->statement))
        statement_execute(c);
    else
        statement_prepare(c);
}

/* Reads one result of the current statement. */
static void statement_note(struct connection *c, PGresult *r)
{
    ExecStatusType status = PQresultStatus(r);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
        PQclear(c->rows);
        c->rows = r;
        return;
    }
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    const char *severity = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    const char *function = PQresultErrorField(r, PG_DIAG_SOURCE_FUNCTION);
    if (state == NULL || strlen(state) != 5) {
        c->broken = true; /* libpq speaks, not the server */
    } else if (!c->refused) {
        c->refused = true;
        memcpy(c->sqlstate, state, sizeof c->sqlstate);
        text_copy(c->text, text != NULL ? text : "no text");
        /* A PANIC can strike after the commit was written; a FATAL behind the rows says nothing
         * about the commit; 08 comes from poolers that lost the server, 40003 says it itself. */
        c->uncertain |= severity == NULL || strcmp(severity, "PANIC") == 0 ||
                        (strcmp(severity, "FATAL") == 0 && c->rows != NULL) ||
                        memcmp(state, "08", 2) == 0 || strcmp(state, "40003") == 0;
        /* "cached plan must not change result type", or a prepared statement that is gone. */
        c->replan =
            strcmp(state, "26000") == 0 || (strcmp(state, "0A000") == 0 && function != NULL &&
                                            strcmp(function, "RevalidateCachedQuery") == 0);
    }
    PQclear(r);
}

/* The server is ready for the next statement: the job's outcome is certain. */
static void statement_over(struct connection *c)
{
    struct pg_job *job = c->job;
    if (c->replan && !job->replanned) {
        job->replanned = true;
        connection_lost(c, "a statement has to be prepared anew");
        return;
    }
    struct pg_outcome outcome = {.status = PG_DONE, .result = c->rows, .text = ""};
    PGresult *rows = c->rows;
    char text[256];
    memcpy(text, c->text, sizeof text);
    if (c->refused && !c->uncertain) {
        outcome.status = PG_REFUSED;
        memcpy(outcome.sqlstate, c->sqlstate, sizeof outcome.sqlstate);
    } else if (c->uncertain) {
        outcome.status = PG_UNKNOWN;
        if (text[0] == '\0')
            text_copy(text, "the wait for synchronous standbys was cancelled");
    }
    if (outcome.status != PG_DONE) {
        outcome.result = NULL;
        outcome.text = text;
    }
    bool read_only = c->refused && strcmp(c->sqlstate, "25006") == 0;
    bool stale = c->replan;
    c->rows = NULL;
    statement_forget(c);
    c->job = NULL;
    c->state = CONN_IDLE;
    if (read_only) {
        c->first_host++;
        connection_lost(c, "the server has become read-only");
    } else if (stale) {
        connection_lost(c, "a statement has to be prepared anew");
    }
    lane_job_over(c->lane, job, &outcome);
    PQclear(rows);
}

static void statement_prepared(struct connection *c)
{
    if (c->refused) {
        statement_over(c);
        return;
    }
    if (c->prepared_count == CONN_STATEMENTS)
        die("more than %d statements on one lane", CONN_STATEMENTS);
    c->prepared[c->prepared_count++] = c->job->statement;
    statement_forget(c);
    statement_execute(c);
}

/* Takes the results that are complete; acts when the last one is. */
static void connection_results(struct connection *c)
{
    bool over = false;
    while (!over && !PQisBusy(c->pg)) {
        PGresult *r = PQgetResult(c->pg);
        if (r == NULL)
            over = true;
        else if (PQresultStatus(r) == PGRES_COPY_IN || PQresultStatus(r) == PGRES_COPY_OUT)
            die("a statement of a lane must not be COPY");
        else
            statement_note(c, r);
    }
    bool settled = over && !c->broken;
    if (!settled && (c->broken || PQstatus(c->pg) == CONNECTION_BAD)) {
        connection_lost(c, PQerrorMessage(c->pg));
        return;
    }
    if (!settled)
        return;
    if (c->state == CONN_SESSION)
        session_end(c);
    else if (c->state == CONN_PREPARING)
        statement_prepared(c);
    else if (c->state == CONN_EXECUTING)
        statement_over(c);
    else if (PQstatus(c->pg) == CONNECTION_BAD)
        connection_lost(c, PQerrorMessage(c->pg));
}

static void connection_ready(struct loop_io *io, uint32_t events)
{
    struct connection *c = TABLE_OWNER(io, struct connection, io);
    if (c->state == CONN_OPENING) {
        opening_poll(c);
        return;
    }
    /* When reading fails, what was read before may still hold the answer, or a last word. */
    if (events & ~(uint32_t)EPOLLOUT)
        (void)PQconsumeInput(c->pg);
    if (PQstatus(c->pg) != CONNECTION_BAD && !connection_flush(c)) {
        connection_lost(c, PQerrorMessage(c->pg));
        return;
    }
    connection_results(c);
}

bool connection_abandon(struct connection *c)
{
    bool may_happen = c->state == CONN_EXECUTING && !c->unsent;
    cancel_send(c->pg);
    statement_forget(c);
    c->failures = 0;
    connection_restart(c);
    lane_connection_down(c->lane, true, "a statement passed its deadline");
    return may_happen;
}

void connection_open(struct connection *c, struct pg_lane *lane, struct loop *loop,
                     const struct pg_lane_config *config)
{
    c->lane = lane;
    c->loop = loop;
    c->conninfo = config->conninfo;
    (void)snprintf(c->application_name, sizeof c->application_name, "queen-%s", config->name);
    c->io.slot = -1;
    c->timer.fire = connection_timer;
    opening_begin(c);
}

void connection_close(struct connection *c)
{
    statement_forget(c);
    loop_timer_cancel(c->loop, &c->timer);
    connection_shut(c);
    pg_params_free(&c->params);
}
