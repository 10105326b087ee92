/* What this host's shared memory says: sums over all its processes, whichever worker answers. */
#include "worker/host.h"

#include "shm/dedup.h"
#include "shm/maintenance.h"
#include "shm/registry.h"
#include "wire/json_write.h"

#include <inttypes.h>

/* How long the oldest living process of the instance runs. */
static uint64_t host_age_ms(struct shm *shm)
{
    struct slot_info slot;
    uint64_t oldest = 0;
    for (uint32_t i = 0; slot_read(shm, i, &slot); i++)
        if (slot.kind != SLOT_FREE && slot.age_ms > oldest)
            oldest = slot.age_ms;
    return oldest;
}

void metrics_handle_json(struct worker *w, struct request *r)
{
    struct slot_counters c;
    struct buf body = {0};
    slot_counters_sum(w->shm, &c);
    buf_printf(&body, "{\"uptime\":%" PRIu64, host_age_ms(w->shm) / 1000);
    buf_printf(&body, ",\"requests\":{\"total\":%" PRIu64 ",\"rate\":%" PRIu64 "}",
               (uint64_t)(c.push_requests + c.pop_requests + c.ack_requests),
               (uint64_t)c.requests_per_second);
    buf_printf(&body, ",\"messages\":{\"total\":%" PRIu64 ",\"rate\":%" PRIu64 "}",
               (uint64_t)(c.push_messages + c.pop_messages + c.ack_items),
               (uint64_t)c.messages_per_second);
    buf_printf(&body,
               ",\"database\":{\"poolSize\":%" PRIu64 ",\"idleConnections\":%" PRIu64
               ",\"waitingRequests\":%" PRIu64 "}",
               (uint64_t)c.database_connections, (uint64_t)c.database_idle,
               (uint64_t)c.database_waiting);
    /* The four heap figures are those of another runtime; clients read them, so they are there. */
    buf_printf(&body,
               ",\"memory\":{\"rss\":%" PRIu64
               ",\"heapTotal\":0,\"heapUsed\":0,\"external\":0,\"arrayBuffers\":0}",
               (uint64_t)c.rss_bytes);
    buf_printf(&body, ",\"cpu\":{\"user\":%" PRIu64 ",\"system\":%" PRIu64 "}}",
               (uint64_t)c.cpu_user_us, (uint64_t)c.cpu_system_us);
    request_answer(r, 200, NULL, (struct slice){0}, &body);
}

static void shared_state_slots(struct shm *shm, struct buf *body)
{
    static const char *const kinds[] = {"free", "worker", "flusher", "keeper"};
    struct slot_info slot;
    bool first = true;
    BUF_PUT_LITERAL(body, "\"slots\":[");
    for (uint32_t i = 0; slot_read(shm, i, &slot); i++) {
        if (slot.kind == SLOT_FREE)
            continue;
        buf_printf(body,
                   "%s{\"slot\":%" PRIu32 ",\"kind\":\"%s\",\"pid\":%" PRId32
                   ",\"generation\":%" PRIu32 ",\"alive\":%s,\"heartbeatAgeMs\":%" PRIu64
                   ",\"uptimeMs\":%" PRIu64 "}",
                   first ? "" : ",", slot.index, kinds[slot.kind], slot.pid, slot.generation,
                   slot.alive ? "true" : "false", slot.heartbeat_age_ms, slot.age_ms);
        first = false;
    }
    buf_putc(body, ']');
}

static void shared_state_counters(struct shm *shm, struct buf *body)
{
    struct slot_counters c;
    const char *comma = "";
    slot_counters_sum(shm, &c);
    BUF_PUT_LITERAL(body, ",\"counters\":{");
#define COUNTER(field, prometheus, help)                                                           \
    buf_printf(body, "%s\"" #field "\":%" PRIu64, comma, (uint64_t)c.field);                       \
    comma = ",";
#define GAUGE(field, prometheus, help) COUNTER(field, prometheus, help)
#include "shm/counters.def"
#undef COUNTER
#undef GAUGE
    buf_putc(body, '}');
}

static void shared_state_memories(struct shm *shm, struct buf *body)
{
    struct registry_stats registry;
    struct dedup_stats dedup;
    registry_stats(shm, &registry);
    dedup_stats(shm, &dedup);
    buf_printf(body,
               ",\"registry\":{\"entries\":%" PRIu64 ",\"capacity\":%" PRIu64
               ",\"inserts\":%" PRIu64 ",\"hits\":%" PRIu64 ",\"misses\":%" PRIu64
               ",\"evictions\":%" PRIu64 ",\"expired\":%" PRIu64 ",\"shardsEmptied\":%" PRIu64 "}",
               registry.entries, registry.capacity, registry.inserts, registry.hits,
               registry.misses, registry.evictions, registry.expired, registry.shards_emptied);
    buf_printf(body,
               ",\"dedup\":{\"asked\":%" PRIu64 ",\"vouched\":%" PRIu64 ",\"noted\":%" PRIu64
               ",\"rotations\":%" PRIu64 ",\"shardsEmptied\":%" PRIu64 "}",
               dedup.asked, dedup.vouched, dedup.noted, dedup.rotations, dedup.shards_emptied);
}

void shared_state_handle(struct worker *w, struct request *r)
{
    struct buf body = {0};
    BUF_PUT_LITERAL(&body, "{\"enabled\":true,\"runDirectory\":");
    json_write_string(&body, slice_of(w->settings.run_dir));
    BUF_PUT_LITERAL(&body, ",\"maintenance\":{\"push\":");
    json_write_bool(&body, maintenance_is_on(w->shm, MAINTENANCE_PUSH));
    BUF_PUT_LITERAL(&body, ",\"pop\":");
    json_write_bool(&body, maintenance_is_on(w->shm, MAINTENANCE_POP));
    BUF_PUT_LITERAL(&body, "},");
    shared_state_slots(w->shm, &body);
    shared_state_counters(w->shm, &body);
    shared_state_memories(w->shm, &body);
    buf_putc(&body, '}');
    request_answer(r, 200, NULL, (struct slice){0}, &body);
}
