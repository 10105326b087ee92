/* The operator's switches of key/value and timers (contract 2, section 9). SQL reads them in every
 * call that they govern, so a change holds on every host at once. */
#include "worker/switches.h"

#include "wire/json.h"
#include "wire/json_write.h"
#include "worker/admin.h"

/* A GET is a POST that touches nothing. */
static const struct pg_statement set_statement = {
    .name = "switches_set",
    .sql = "select kv, timers_schedule, timers_fire from queen.switches_set_v1($1, $2, $3)",
    .param_count = 3,
    .types = {PG_BOOL, PG_BOOL, PG_BOOL}};

enum { SWITCHES = 3 };

struct switches_call {
    struct admin_call admin;
    struct json_value wanted[SWITCHES]; /* JSON_ABSENT or JSON_NULL: untouched */
    bool changes;
};

static void switches_build(struct pg_job *job, struct pg_params *params)
{
    const struct switches_call *call = TABLE_OWNER(job, struct switches_call, admin.job);
    for (size_t i = 0; i < SWITCHES; i++) {
        if (json_present(call->wanted[i]))
            pg_param_bool(params, call->wanted[i].type == JSON_TRUE);
        else
            pg_param_null(params);
    }
}

static int switches_render(struct admin_call *admin, const PGresult *r, struct buf *body)
{
    static const char *const keys[SWITCHES] = {"kvEnabled", "timersScheduleEnabled",
                                               "timersFireEnabled"};
    const struct switches_call *call = TABLE_OWNER(admin, struct switches_call, admin);
    for (int i = 0; i < SWITCHES; i++) {
        buf_printf(body, "%c\"%s\":", i == 0 ? '{' : ',', keys[i]);
        json_write_bool(body, pg_get_bool(r, 0, i));
    }
    if (call->changes)
        BUF_PUT_LITERAL(body, ",\"mirrored\":true,\"message\":\"Switches updated.\"}");
    else
        BUF_PUT_LITERAL(body, ",\"quotaTenants\":0,\"quotaAgeMs\":null,\"quotaHot\":false}");
    return 200;
}

static void switches_start(struct switches_call *call, struct worker *w, struct request *r)
{
    admin_call_init(&call->admin, w, r, w->admin_lane, &set_statement, switches_build);
    call->admin.render = switches_render;
    admin_call_start(&call->admin);
}

void switches_handle_get(struct worker *w, struct request *r)
{
    switches_start(arena_zarray(request_arena(r), 1, sizeof(struct switches_call)), w, r);
}

static bool switches_read(struct switches_call *call, struct slice text, struct err *err)
{
    struct json_value body;
    const struct json_field fields[SWITCHES] = {{"kv", &call->wanted[0]},
                                                {"timersSchedule", &call->wanted[1]},
                                                {"timersFire", &call->wanted[2]}};
    if (!json_validate(text, &body, err))
        return err_prefix(err, "bad body");
    if (body.type != JSON_OBJECT)
        return err_set(err, "bad body: expected an object, found %s", json_type_name(body.type));
    if (!json_pick(body, fields, SWITCHES, err))
        return err_prefix(err, "bad body");
    for (size_t i = 0; i < SWITCHES; i++) {
        enum json_type type = call->wanted[i].type;
        if (json_present(call->wanted[i]) && type != JSON_TRUE && type != JSON_FALSE)
            return err_set(err, "bad body: %s must be a boolean, found %s", fields[i].name,
                           json_type_name(type));
        call->changes |= json_present(call->wanted[i]);
    }
    return call->changes ||
           err_set(err, "at least one of kv, timersSchedule, timersFire (boolean) is required");
}

void switches_handle_set(struct worker *w, struct request *r)
{
    struct err err;
    struct switches_call *call = arena_zarray(request_arena(r), 1, sizeof *call);
    if (!switches_read(call, request_body(r), &err)) {
        request_answer_error(r, 400, "%s", err.text);
        return;
    }
    switches_start(call, w, r);
}
