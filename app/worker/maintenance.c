/* GET and POST /api/v1/system/maintenance and .../maintenance/pop (contract 2, section 9). */
#include "worker/maintenance.h"

#include "wire/json.h"
#include "wire/json_write.h"
#include "worker/admin.h"
#include "worker/pop.h"
#include "worker/wake.h"

static const struct pg_statement get_statement = {
    .name = "maintenance_get",
    .sql = "select push, pop from queen.maintenance_get_v1()",
    .param_count = 0};

static const struct pg_statement set_statement = {
    .name = "maintenance_set",
    .sql = "select push, pop from queen.maintenance_set_v1($1, $2)",
    .param_count = 2,
    .types = {PG_TEXT, PG_BOOL}};

/* How long a GET waits for the database before it tells what this host knows. */
enum { GET_DEADLINE_MS = 2000 };

struct maintenance_call {
    struct admin_call admin;
    unsigned which;
    bool enabled;  /* what a POST wants */
    uint64_t seen; /* the switches when a GET began */
};

void maintenance_buffers(struct worker *w, struct maintenance_buffers *out)
{
    struct slot_counters sum;
    slot_counters_sum(w->shm, &sum);
    *out = (struct maintenance_buffers){.pending = atomic_load(&sum.spool_pending),
                                        .pending_bytes = atomic_load(&sum.spool_pending_bytes),
                                        .failed_files = atomic_load(&sum.spool_failed_files),
                                        .failed_bytes = atomic_load(&sum.spool_failed_bytes),
                                        .healthy = atomic_load(&sum.spool_broken) == 0};
}

void maintenance_write_buffers(struct worker *w, const struct maintenance_buffers *b,
                               struct buf *out)
{
    buf_printf(out,
               "{\"pendingCount\":%llu,\"failedCount\":%llu,\"dbHealthy\":%s,\"failedFiles\":{"
               "\"count\":%llu,\"totalBytes\":%llu,\"totalMB\":%.2f,\"failoverCount\":%llu,"
               "\"qos0Count\":0}}",
               (unsigned long long)b->pending, (unsigned long long)b->failed_files,
               pg_lane_connected(w->admin_lane) ? "true" : "false",
               (unsigned long long)b->failed_files, (unsigned long long)b->failed_bytes,
               (double)b->failed_bytes / 1048576.0, (unsigned long long)b->failed_files);
}

static void write_push(struct worker *w, bool push, bool pop, const char *message, struct buf *body)
{
    struct maintenance_buffers buffers;
    maintenance_buffers(w, &buffers);
    BUF_PUT_LITERAL(body, "{\"maintenanceMode\":");
    json_write_bool(body, push);
    BUF_PUT_LITERAL(body, ",\"popMaintenanceMode\":");
    json_write_bool(body, pop);
    buf_printf(
        body, ",\"bufferedMessages\":%llu,\"bufferHealthy\":", (unsigned long long)buffers.pending);
    json_write_bool(body, buffers.healthy);
    BUF_PUT_LITERAL(body, ",\"bufferStats\":");
    maintenance_write_buffers(w, &buffers, body);
    if (message != NULL) {
        BUF_PUT_LITERAL(body, ",\"message\":");
        json_write_string(body, slice_of(message));
    }
    buf_putc(body, '}');
}

static void write_pop(bool pop, const char *message, struct buf *body)
{
    BUF_PUT_LITERAL(body, "{\"popMaintenanceMode\":");
    json_write_bool(body, pop);
    BUF_PUT_LITERAL(body, ",\"message\":");
    json_write_string(body, slice_of(message));
    buf_putc(body, '}');
}

static void write_state(struct maintenance_call *call, bool push, bool pop, struct buf *body)
{
    if (call->which == MAINTENANCE_PUSH)
        write_push(call->admin.w, push, pop, NULL, body);
    else
        write_pop(pop,
                  pop ? "Pop maintenance mode is ON. All POP operations return empty arrays."
                      : "Pop maintenance mode is OFF. Normal operation.",
                  body);
}

/* Parked pops of this worker are answered by the wake-up, those of others when they get it. */
static void tell_everybody(struct worker *w)
{
    wake_send(w, 0, 0, 0);
    if (maintenance_is_on(w->shm, MAINTENANCE_POP))
        pop_answer_parked(w);
}

static void get_build(struct pg_job *job, struct pg_params *params)
{
    (void)params;
    struct maintenance_call *call = TABLE_OWNER(job, struct maintenance_call, admin.job);
    call->seen = maintenance_read(call->admin.w->shm);
}

static int get_render(struct admin_call *admin, const PGresult *r, struct buf *body)
{
    struct maintenance_call *call = TABLE_OWNER(admin, struct maintenance_call, admin);
    bool push = pg_get_bool(r, 0, 0), pop = pg_get_bool(r, 0, 1);
    if (maintenance_refresh(admin->w->shm, call->seen, push, pop))
        tell_everybody(admin->w);
    write_state(call, push, pop, body);
    return 200;
}

/* Never an error: what this host knows is what it acts by. */
static void get_fail(struct admin_call *admin, const struct pg_outcome *outcome)
{
    (void)outcome;
    struct maintenance_call *call = TABLE_OWNER(admin, struct maintenance_call, admin);
    struct buf body = {0};
    write_state(call, maintenance_is_on(admin->w->shm, MAINTENANCE_PUSH),
                maintenance_is_on(admin->w->shm, MAINTENANCE_POP), &body);
    request_answer(admin->r, 200, NULL, (struct slice){0}, &body);
}

static void maintenance_get(struct worker *w, struct request *r, unsigned which)
{
    struct maintenance_call *call = arena_zarray(request_arena(r), 1, sizeof *call);
    admin_call_init(&call->admin, w, r, w->admin_lane, &get_statement, get_build);
    call->admin.deadline_ms = loop_now_ms(w->loop) + GET_DEADLINE_MS;
    call->which = which;
    call->admin.render = get_render;
    call->admin.fail = get_fail;
    admin_call_start(&call->admin);
}

static void set_build(struct pg_job *job, struct pg_params *params)
{
    const struct maintenance_call *call = TABLE_OWNER(job, struct maintenance_call, admin.job);
    pg_param_text(params, call->admin.text[0]);
    pg_param_bool(params, call->enabled);
}

static int set_render(struct admin_call *admin, const PGresult *r, struct buf *body)
{
    struct maintenance_call *call = TABLE_OWNER(admin, struct maintenance_call, admin);
    struct worker *w = admin->w;
    maintenance_post(w->shm, call->which, call->enabled);
    tell_everybody(w);
    if (call->which == MAINTENANCE_PUSH)
        write_push(w, pg_get_bool(r, 0, 0), pg_get_bool(r, 0, 1),
                   call->enabled
                       ? "Maintenance mode ENABLED. All PUSHes routing to file buffer."
                       : "Maintenance mode DISABLED. Background processor will drain buffer to DB.",
                   body);
    else
        write_pop(pg_get_bool(r, 0, 1),
                  call->enabled
                      ? "Pop maintenance mode ENABLED. All POP operations will return empty arrays."
                      : "Pop maintenance mode DISABLED. Normal operation resumed.",
                  body);
    return 200;
}

static void maintenance_set(struct worker *w, struct request *r, unsigned which)
{
    struct err err;
    struct json_value body, enabled;
    const struct json_field fields[] = {{"enabled", &enabled}};
    bool ok = json_validate(request_body(r), &body, &err);
    if (ok && body.type != JSON_OBJECT)
        ok = err_set(&err, "expected an object, found %s", json_type_name(body.type));
    ok = ok && json_pick(body, fields, 1, &err);
    if (ok && !json_present(enabled)) {
        request_answer_error(r, 400, "enabled (boolean) is required");
        return;
    }
    if (ok && enabled.type != JSON_TRUE && enabled.type != JSON_FALSE)
        ok = err_set(&err, "enabled must be a boolean, found %s", json_type_name(enabled.type));
    if (!ok) {
        request_answer_error(r, 400, "bad body: %s", err.text);
        return;
    }
    struct maintenance_call *call = arena_zarray(request_arena(r), 1, sizeof *call);
    admin_call_init(&call->admin, w, r, w->admin_lane, &set_statement, set_build);
    call->admin.text[0] = which == MAINTENANCE_PUSH ? SLICE_LITERAL("maintenance_mode")
                                                    : SLICE_LITERAL("pop_maintenance_mode");
    call->which = which;
    call->enabled = enabled.type == JSON_TRUE;
    call->admin.render = set_render;
    admin_call_start(&call->admin);
}

void maintenance_handle_get(struct worker *w, struct request *r)
{
    maintenance_get(w, r, MAINTENANCE_PUSH);
}

void maintenance_handle_set(struct worker *w, struct request *r)
{
    maintenance_set(w, r, MAINTENANCE_PUSH);
}

void maintenance_handle_pop_get(struct worker *w, struct request *r)
{
    maintenance_get(w, r, MAINTENANCE_POP);
}

void maintenance_handle_pop_set(struct worker *w, struct request *r)
{
    maintenance_set(w, r, MAINTENANCE_POP);
}
