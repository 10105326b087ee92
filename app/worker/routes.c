/* Routes: method and path to handler. A path part is decoded after the route was found, so that a
 * queue named "a/b" is one part (contract 1, section 0). */
#include "worker/worker.h"

#include "wire/uri.h"
#include "worker/dlq.h"
#include "worker/groups.h"
#include "worker/host.h"
#include "worker/kv.h"
#include "worker/maintenance.h"
#include "worker/messages.h"
#include "worker/resources.h"
#include "worker/status.h"
#include "worker/streams.h"
#include "worker/switches.h"
#include "worker/timers.h"
#include "worker/traces.h"

enum { ROUTE_MAX_PARTS = 10, ROUTE_MAX_NAMES = 3 };

struct route_call {
    struct worker *w;
    struct request *r;
    struct slice names[ROUTE_MAX_NAMES]; /* the path's variable parts, decoded */
};

struct route {
    const char *method;
    const char *path; /* ":" is a variable part, a final "*" the rest with its slashes */
    void (*call)(const struct route_call *c);
};

#define ROUTE_PLAIN(name, handler)                                                                 \
    static void name(const struct route_call *c)                                                   \
    {                                                                                              \
        handler(c->w, c->r);                                                                       \
    }
#define ROUTE_NAMED(name, handler)                                                                 \
    static void name(const struct route_call *c)                                                   \
    {                                                                                              \
        handler(c->w, c->r, c->names[0]);                                                          \
    }

ROUTE_PLAIN(route_push, push_handle)
ROUTE_PLAIN(route_pop_discovery, pop_handle_discovery)
ROUTE_NAMED(route_pop_queue, pop_handle_queue)
ROUTE_PLAIN(route_ack, ack_handle_single)
ROUTE_PLAIN(route_ack_batch, ack_handle_batch)
ROUTE_NAMED(route_lease_extend, lease_handle_extend)
ROUTE_PLAIN(route_transaction, transaction_handle)
ROUTE_PLAIN(route_configure, configure_handle)
ROUTE_NAMED(route_queue_delete, queue_handle_delete)
ROUTE_PLAIN(route_dlq, dlq_handle_list)
ROUTE_PLAIN(route_health, health_handle)
ROUTE_PLAIN(route_status, status_handle)
ROUTE_PLAIN(route_prometheus, metrics_handle_prometheus)

#define ROUTE_NAMED_TWICE(name, handler)                                                           \
    static void name(const struct route_call *c)                                                   \
    {                                                                                              \
        handler(c->w, c->r, c->names[0], c->names[1]);                                             \
    }

ROUTE_PLAIN(route_messages, messages_handle_list)
ROUTE_NAMED_TWICE(route_message, message_handle_get)
ROUTE_NAMED_TWICE(route_message_delete, message_handle_delete)
ROUTE_NAMED_TWICE(route_message_dead_letter, message_handle_dead_letter)
ROUTE_NAMED_TWICE(route_message_retry, dlq_handle_retry)
ROUTE_NAMED(route_dlq_replay, dlq_handle_replay)
ROUTE_PLAIN(route_dlq_purge, dlq_handle_purge)

ROUTE_PLAIN(route_maintenance, maintenance_handle_get)
ROUTE_PLAIN(route_maintenance_set, maintenance_handle_set)
ROUTE_PLAIN(route_maintenance_pop, maintenance_handle_pop_get)
ROUTE_PLAIN(route_maintenance_pop_set, maintenance_handle_pop_set)
ROUTE_PLAIN(route_switches, switches_handle_get)
ROUTE_PLAIN(route_switches_set, switches_handle_set)
ROUTE_PLAIN(route_traces_add, traces_handle_add)
ROUTE_PLAIN(route_trace_names, traces_handle_names)
ROUTE_NAMED(route_traces_by_name, traces_handle_by_name)
ROUTE_NAMED_TWICE(route_traces_message, traces_handle_message)

ROUTE_PLAIN(route_kv, kv_handle_batch)
ROUTE_NAMED_TWICE(route_kv_get, kv_handle_get)
ROUTE_NAMED_TWICE(route_kv_put, kv_handle_put)
ROUTE_NAMED_TWICE(route_kv_delete, kv_handle_delete)
ROUTE_PLAIN(route_kv_namespaces, kv_handle_namespaces)
ROUTE_PLAIN(route_kv_list, kv_handle_list)
ROUTE_PLAIN(route_timers, timers_handle_batch)
ROUTE_NAMED(route_timers_list, timers_handle_list)
ROUTE_NAMED_TWICE(route_timers_get, timers_handle_get)
ROUTE_NAMED_TWICE(route_timers_cancel, timers_handle_cancel)

ROUTE_PLAIN(route_status_overall, status_handle_overall)
ROUTE_PLAIN(route_status_queues, status_handle_queues)
ROUTE_NAMED(route_status_queue, status_handle_queue)
ROUTE_PLAIN(route_status_analytics, status_handle_analytics)
ROUTE_PLAIN(route_status_buffers, status_handle_buffers)
ROUTE_PLAIN(route_stats_refresh, status_handle_refresh)
ROUTE_PLAIN(route_analytics_system, analytics_handle_system)
ROUTE_PLAIN(route_analytics_workers, analytics_handle_workers)
ROUTE_PLAIN(route_analytics_postgres, analytics_handle_postgres)
ROUTE_PLAIN(route_analytics_queue_lag, analytics_handle_queue_lag)
ROUTE_PLAIN(route_analytics_queue_ops, analytics_handle_queue_ops)
ROUTE_PLAIN(route_analytics_retention, analytics_handle_retention)
ROUTE_PLAIN(route_metrics_json, metrics_handle_json)
ROUTE_PLAIN(route_shared_state, shared_state_handle)
ROUTE_PLAIN(route_queues, resources_handle_queues)
ROUTE_NAMED(route_queue, resources_handle_queue)
ROUTE_NAMED(route_queue_depth, resources_handle_depth)
ROUTE_NAMED(route_queue_clear, queue_handle_clear)
ROUTE_PLAIN(route_overview, resources_handle_overview)
ROUTE_PLAIN(route_namespaces, resources_handle_namespaces)
ROUTE_PLAIN(route_tasks, resources_handle_tasks)
ROUTE_PLAIN(route_partitions, resources_handle_partitions)
ROUTE_PLAIN(route_groups, groups_handle_list)
ROUTE_PLAIN(route_groups_lagging, groups_handle_lagging)
ROUTE_NAMED(route_group, group_handle_detail)
ROUTE_NAMED(route_group_subscription, group_handle_subscription)
ROUTE_NAMED_TWICE(route_group_seek, group_handle_seek_queue)
ROUTE_NAMED(route_group_delete, group_handle_delete)
ROUTE_NAMED_TWICE(route_group_delete_queue, group_handle_delete_queue)

ROUTE_PLAIN(route_streams_register, streams_handle_register)
ROUTE_PLAIN(route_streams_state, streams_handle_state_get)
ROUTE_PLAIN(route_streams_cycle, streams_handle_cycle)

static void route_group_seek_partition(const struct route_call *c)
{
    group_handle_seek_partition(c->w, c->r, c->names[0], c->names[1], c->names[2]);
}

static void route_pop_partition(const struct route_call *c)
{
    pop_handle_partition(c->w, c->r, c->names[0], c->names[1]);
}

static const struct route routes[] = {
    {"POST", "api/v1/push", route_push},
    {"GET", "api/v1/pop/queue/:/partition/:", route_pop_partition},
    {"GET", "api/v1/pop/queue/:", route_pop_queue},
    {"GET", "api/v1/pop", route_pop_discovery},
    {"POST", "api/v1/ack", route_ack},
    {"POST", "api/v1/ack/batch", route_ack_batch},
    {"POST", "api/v1/lease/:/extend", route_lease_extend},
    {"POST", "api/v1/transaction", route_transaction},
    {"POST", "api/v1/configure", route_configure},
    {"DELETE", "api/v1/resources/queues/:", route_queue_delete},
    {"GET", "api/v1/dlq", route_dlq},
    {"DELETE", "api/v1/dlq", route_dlq_purge},
    {"POST", "api/v1/dlq/:/replay", route_dlq_replay},
    {"GET", "api/v1/resources/queues", route_queues},
    {"GET", "api/v1/resources/queues/:", route_queue},
    {"GET", "api/v1/resources/queues/:/depth", route_queue_depth},
    {"DELETE", "api/v1/queues/:/clear", route_queue_clear},
    {"GET", "api/v1/resources/overview", route_overview},
    {"GET", "api/v1/resources/namespaces", route_namespaces},
    {"GET", "api/v1/resources/tasks", route_tasks},
    {"GET", "api/v1/resources/partitions", route_partitions},
    {"GET", "api/v1/consumer-groups", route_groups},
    {"GET", "api/v1/consumer-groups/lagging", route_groups_lagging}, /* before a group's name */
    {"GET", "api/v1/consumer-groups/:", route_group},
    {"DELETE", "api/v1/consumer-groups/:", route_group_delete},
    {"DELETE", "api/v1/consumer-groups/:/queues/:", route_group_delete_queue},
    {"POST", "api/v1/consumer-groups/:/subscription", route_group_subscription},
    {"POST", "api/v1/consumer-groups/:/queues/:/seek", route_group_seek},
    {"POST", "api/v1/consumer-groups/:/queues/:/partitions/:/seek", route_group_seek_partition},
    {"GET", "api/v1/messages", route_messages},
    {"GET", "api/v1/messages/:/:", route_message},
    {"DELETE", "api/v1/messages/:/:", route_message_delete},
    {"POST", "api/v1/messages/:/:/retry", route_message_retry},
    {"POST", "api/v1/messages/:/:/dlq", route_message_dead_letter},
    {"POST", "api/v1/traces", route_traces_add},
    {"GET", "api/v1/traces/names", route_trace_names},
    {"GET", "api/v1/traces/by-name/:", route_traces_by_name}, /* before a message's address */
    {"GET", "api/v1/traces/:/:", route_traces_message},
    {"POST", "api/v1/kv", route_kv},
    {"GET", "api/v1/kv/:/*", route_kv_get},
    {"PUT", "api/v1/kv/:/*", route_kv_put},
    {"DELETE", "api/v1/kv/:/*", route_kv_delete},
    {"GET", "api/v1/resources/kv/namespaces", route_kv_namespaces},
    {"POST", "api/v1/resources/kv/list", route_kv_list},
    {"POST", "api/v1/timers", route_timers},
    {"GET", "api/v1/timers/:", route_timers_list},
    {"GET", "api/v1/timers/:/*", route_timers_get},
    {"DELETE", "api/v1/timers/:/*", route_timers_cancel},
    {"GET", "api/v1/system/maintenance", route_maintenance},
    {"POST", "api/v1/system/maintenance", route_maintenance_set},
    {"GET", "api/v1/system/maintenance/pop", route_maintenance_pop},
    {"POST", "api/v1/system/maintenance/pop", route_maintenance_pop_set},
    {"GET", "api/v1/system/kv-timers", route_switches},
    {"POST", "api/v1/system/kv-timers", route_switches_set},
    {"POST", "streams/v1/queries", route_streams_register},
    {"POST", "streams/v1/state/get", route_streams_state},
    {"POST", "streams/v1/cycle", route_streams_cycle},
    {"GET", "health", route_health},
    {"GET", "status", route_status},
    {"GET", "api/v1/status", route_status_overall},
    {"GET", "api/v1/status/queues", route_status_queues},
    {"GET", "api/v1/status/queues/:", route_status_queue},
    {"GET", "api/v1/status/analytics", route_status_analytics},
    {"GET", "api/v1/status/buffers", route_status_buffers},
    {"POST", "api/v1/stats/refresh", route_stats_refresh},
    {"GET", "api/v1/analytics/system-metrics", route_analytics_system},
    {"GET", "api/v1/analytics/worker-metrics", route_analytics_workers},
    {"GET", "api/v1/analytics/postgres-stats", route_analytics_postgres},
    {"GET", "api/v1/analytics/queue-lag", route_analytics_queue_lag},
    {"GET", "api/v1/analytics/queue-ops", route_analytics_queue_ops},
    {"GET", "api/v1/analytics/retention", route_analytics_retention},
    {"GET", "api/v1/system/shared-state", route_shared_state},
    {"GET", "metrics", route_metrics_json},
    {"GET", "metrics/prometheus", route_prometheus},
};

/* Compares the path's parts with a pattern; collects the variable parts, still encoded. count may
 * be above ROUTE_MAX_PARTS: then only a pattern that takes the rest can match. */
static bool route_matches(const char *pattern, struct slice path, const struct slice *parts,
                          size_t count, struct slice names[ROUTE_MAX_NAMES])
{
    size_t part = 0, name = 0;
    const char *p = pattern;
    for (;;) {
        size_t n = strcspn(p, "/");
        if (part == count || part == ROUTE_MAX_PARTS)
            return false;
        if (n == 1 && *p == '*') {
            const char *rest = parts[part].p;
            names[name] = (struct slice){rest, (size_t)(path.p + path.n - rest)};
            return true;
        }
        if (n == 1 && *p == ':')
            names[name++] = parts[part];
        else if (parts[part].n != n || memcmp(parts[part].p, p, n) != 0)
            return false;
        part++;
        if (p[n] == '\0')
            return part == count;
        p += n + 1;
    }
}

static void route_call(const struct route *route, struct worker *w, struct request *r,
                       const struct slice encoded[ROUTE_MAX_NAMES])
{
    struct route_call c = {.w = w, .r = r};
    for (int i = 0; i < ROUTE_MAX_NAMES; i++) {
        if (encoded[i].p != NULL && !uri_decode(encoded[i], false, request_arena(r), &c.names[i])) {
            request_answer_error(r, 400, "bad path: malformed percent escape");
            return;
        }
    }
    route->call(&c);
}

/* 405 needs an Allow header with every method the path knows (RFC 9110, 15.5.6). */
static void route_answer_unknown(struct request *r, const char *allow)
{
    struct buf body = {0}, headers = {0};
    if (*allow == '\0') {
        BUF_PUT_LITERAL(&body, "{\"error\":\"Not Found\",\"code\":\"no_such_route\"}");
        request_answer(r, 404, NULL, (struct slice){0}, &body);
        return;
    }
    BUF_PUT_LITERAL(&body, "{\"error\":\"Method Not Allowed\",\"code\":\"method_not_allowed\"}");
    buf_printf(&headers, "Allow: %s\r\n", allow);
    request_answer(r, 405, NULL, buf_slice(&headers), &body);
    buf_free(&headers);
}

void routes_dispatch(struct worker *w, struct request *r)
{
    const struct request_head *head = request_head(r);
    struct slice path, query, parts[ROUTE_MAX_PARTS + 1];
    uri_split(head->target, &path, &query);
    size_t count = uri_segments(path, parts, ROUTE_MAX_PARTS);
    char allow[64] = "";
    bool head_only = slice_is(head->method, "HEAD");
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        struct slice names[ROUTE_MAX_NAMES] = {{0}};
        if (!route_matches(routes[i].path, path, parts, count, names))
            continue;
        if (slice_is(head->method, routes[i].method)) {
            route_call(&routes[i], w, r, names);
            return;
        }
        if (*allow != '\0')
            strcat(allow, ", "); /* a path has at most a handful of methods of 6 letters */
        strcat(allow, routes[i].method);
        /* HEAD of a read-only page is its GET without a body; of a pop it would take messages. */
        if (head_only && strcmp(routes[i].method, "GET") == 0 &&
            strncmp(routes[i].path, "api/v1/pop", 10) != 0) {
            route_call(&routes[i], w, r, names);
            return;
        }
    }
    route_answer_unknown(r, allow);
}
