/* queenctl status, registry, shm-remove: what the shared memory of this host's instance says. */
#include "ctl/ctl.h"

#include "base/logger.h"
#include "shm/registry.h"
#include "shm/slots.h"
#include "wire/json_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const char *slot_kind_name(enum slot_kind kind)
{
    static const char *const names[] = {"free", "worker", "flusher", "keeper"};
    return names[kind];
}

struct database_state {
    bool reachable;
    int version; /* as PQserverVersion() */
    char text[512];
};

static void database_look(const struct settings *settings, struct database_state *out)
{
    struct err err;
    *out = (struct database_state){0};
    PGconn *pg = ctl_connect(settings, &err);
    if (pg == NULL) {
        (void)snprintf(out->text, sizeof out->text, "%s", err.text);
        return;
    }
    PGresult *r = PQexec(pg, "select 1");
    out->reachable = PQresultStatus(r) == PGRES_TUPLES_OK;
    out->version = PQserverVersion(pg);
    if (!out->reachable)
        (void)snprintf(out->text, sizeof out->text, "%s", PQresultErrorMessage(r));
    PQclear(r);
    PQfinish(pg);
}

static void number_put(struct buf *out, bool json, bool first, const char *name, uint64_t value)
{
    if (json)
        buf_printf(out, "%s\"%s\":%" PRIu64, first ? "" : ",", name, value);
    else
        buf_printf(out, "  %-22s %" PRIu64 "\n", name, value);
}

static void slots_put(struct buf *out, bool json, struct shm *shm)
{
    struct slot_info slot;
    bool first = true;
    for (uint32_t i = 0; slot_read(shm, i, &slot); i++) {
        if (slot.kind == SLOT_FREE)
            continue;
        if (json)
            buf_printf(out,
                       "%s{\"slot\":%" PRIu32 ",\"kind\":\"%s\",\"pid\":%" PRId32
                       ",\"generation\":%" PRIu32 ",\"alive\":%s,\"heartbeatAgeMs\":%" PRIu64 "}",
                       first ? "" : ",", slot.index, slot_kind_name(slot.kind), slot.pid,
                       slot.generation, slot.alive ? "true" : "false", slot.heartbeat_age_ms);
        else
            buf_printf(out, "  %4" PRIu32 " %-8s pid %-8" PRId32 " %-6s heartbeat %" PRIu64 " ms\n",
                       slot.index, slot_kind_name(slot.kind), slot.pid,
                       slot.alive ? "alive" : "dead", slot.heartbeat_age_ms);
        first = false;
    }
    if (first && !json)
        BUF_PUT_LITERAL(out, "  none\n");
}

static void counters_put(struct buf *out, bool json, struct shm *shm)
{
    struct slot_counters c;
    bool first = true;
    slot_counters_sum(shm, &c);
#define COUNTER(field, prometheus, help)                                                           \
    number_put(out, json, first, #field, c.field);                                                 \
    first = false;
#define GAUGE(field, prometheus, help) COUNTER(field, prometheus, help)
#include "shm/counters.def"
#undef COUNTER
#undef GAUGE
}

static void registry_put_stats(struct buf *out, bool json, struct shm *shm)
{
    struct registry_stats s;
    registry_stats(shm, &s);
    number_put(out, json, true, "entries", s.entries);
    number_put(out, json, false, "capacity", s.capacity);
    number_put(out, json, false, "inserts", s.inserts);
    number_put(out, json, false, "hits", s.hits);
    number_put(out, json, false, "misses", s.misses);
    number_put(out, json, false, "evictions", s.evictions);
    number_put(out, json, false, "expired", s.expired);
    number_put(out, json, false, json ? "shardsEmptied" : "shards_emptied", s.shards_emptied);
}

static void status_json(struct buf *out, const struct database_state *db, struct shm *shm)
{
    buf_printf(out, "{\"database\":{\"reachable\":%s,\"version\":%d",
               db->reachable ? "true" : "false", db->version);
    if (!db->reachable) {
        BUF_PUT_LITERAL(out, ",\"error\":");
        json_write_string(out, slice_of(db->text));
    }
    BUF_PUT_LITERAL(out, "},\"slots\":[");
    slots_put(out, true, shm);
    BUF_PUT_LITERAL(out, "],\"counters\":{");
    counters_put(out, true, shm);
    BUF_PUT_LITERAL(out, "},\"registry\":{");
    registry_put_stats(out, true, shm);
    BUF_PUT_LITERAL(out, "}}\n");
}

static void status_text(struct buf *out, const struct database_state *db, struct shm *shm)
{
    if (db->reachable)
        buf_printf(out, "database: reachable, PostgreSQL %d.%d\n", db->version / 10000,
                   db->version % 10000);
    else
        buf_printf(out, "database: NOT reachable: %s\n", db->text);
    BUF_PUT_LITERAL(out, "processes:\n");
    slots_put(out, false, shm);
    BUF_PUT_LITERAL(out, "counters:\n");
    counters_put(out, false, shm);
    BUF_PUT_LITERAL(out, "ack registry:\n");
    registry_put_stats(out, false, shm);
}

static int print_all(struct buf *out, int code)
{
    bool done = fwrite(out->p, 1, out->n, stdout) == out->n && fflush(stdout) == 0;
    buf_free(out);
    return done ? code : CTL_FAILED;
}

static struct shm *shm_of(const struct settings *settings)
{
    struct err err;
    struct shm *shm;
    if (shm_attach(settings, &shm, &err))
        return shm;
    logger_error("shm", "%s", err.text);
    return NULL;
}

int status_run(const struct settings *settings, bool json)
{
    struct database_state db;
    struct buf out = {0};
    struct shm *shm = shm_of(settings);
    if (shm == NULL)
        return CTL_FAILED;
    database_look(settings, &db);
    if (json)
        status_json(&out, &db, shm);
    else
        status_text(&out, &db, shm);
    shm_detach(shm);
    return print_all(&out, db.reachable ? CTL_OK : CTL_DEGRADED);
}

int registry_run(const struct settings *settings)
{
    struct buf out = {0};
    struct shm *shm = shm_of(settings);
    if (shm == NULL)
        return CTL_FAILED;
    registry_put_stats(&out, false, shm);
    shm_detach(shm);
    return print_all(&out, CTL_OK);
}

/* A newcomer would make another segment next to the one that running processes keep, so it has to
 * be known that there are none. A segment of another layout or geometry cannot be asked: --force.
 */
int shm_remove_run(const struct settings *settings, bool force)
{
    struct err err;
    struct shm *shm = NULL;
    struct slot_info slot;
    if (!force && (shm = shm_of(settings)) == NULL) {
        logger_error("shm", "stop the instance, then use --force");
        return CTL_FAILED;
    }
    int32_t user = 0;
    for (uint32_t i = 0; shm != NULL && slot_read(shm, i, &slot); i++)
        if (slot.kind != SLOT_FREE && slot.alive)
            user = slot.pid;
    if (shm != NULL)
        shm_detach(shm);
    if (user != 0) {
        logger_error("shm", "in use by process %" PRId32, user);
        return CTL_FAILED;
    }
    if (!shm_remove(settings, &err)) {
        logger_error("shm", "%s", err.text);
        return CTL_FAILED;
    }
    return CTL_OK;
}
