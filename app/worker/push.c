/* POST /api/v1/push: from the body to groups, and the answer (contract 1, section 1). */
#include "worker/push.h"

#include "base/clock.h"
#include "shm/maintenance.h"
#include "wire/json_write.h"
#include "worker/push_spool.h"

#include <stdio.h>

static size_t push_count(struct json_value items)
{
    size_t n = 0;
    struct json_iter it = json_iterate(items);
    struct json_value element;
    while (json_next(&it, &element))
        n++;
    return n;
}

static int push_parse(struct push_request *push, struct err *err)
{
    struct json_value body, items;
    const struct json_field fields[] = {{"items", &items}};
    if (!json_validate(request_body(push->r), &body, err)) {
        (void)err_prefix(err, "bad body");
        return 400;
    }
    if (body.type != JSON_OBJECT) {
        (void)err_set(err, "bad body: expected an object with items, found %s",
                      json_type_name(body.type));
        return 400;
    }
    if (!json_pick(body, fields, 1, err)) {
        (void)err_prefix(err, "bad body");
        return 400;
    }
    if (items.type != JSON_ARRAY) {
        (void)err_set(err, "bad body: items is required and must be an array, found %s",
                      json_type_name(items.type));
        return 400;
    }
    push->count = push_count(items);
    if (push->count > PUSH_MAX_ITEMS) {
        (void)err_set(err, "bad body: items has %zu elements, the limit is %d", push->count,
                      PUSH_MAX_ITEMS);
        return 413;
    }
    push->items = arena_zarray(request_arena(push->r), push->count, sizeof *push->items);
    struct json_iter it = json_iterate(items);
    struct json_value element;
    for (size_t i = 0; json_next(&it, &element); i++) {
        int status = push_item_parse(request_arena(push->r), element, false, &push->items[i], err);
        if (status != 0) {
            (void)err_prefix(err, "bad body: items[%zu]", i);
            return status;
        }
        push->items[i].request = push;
    }
    return 0;
}

/* All items count as unsettled before the first group is handed over, since a group may settle at
 * once, and the last one end the request. */
static void push_submit(struct push_request *push)
{
    struct worker *w = push->w;
    struct push_group *first = push_items_group(request_arena(push->r), push->items, push->count);
    for (const struct push_group *g = first; g != NULL; g = g->next)
        push->unsettled += g->count;
    for (struct push_group *g = first, *next; g != NULL; g = next) {
        next = g->next;
        push_fusion_add(w, g);
    }
}

/* Push maintenance: nothing reaches the log. */
static void push_buffer(struct push_request *push)
{
    push->maintenance = true;
    for (size_t i = 0; i < push->count; i++) {
        if (push->items[i].leader != NULL)
            continue;
        push->unsettled++;
        push_spool_add(push->w, &push->items[i], PUSH_FAILED);
    }
}

void push_handle(struct worker *w, struct request *r)
{
    struct err err;
    struct push_request *push = arena_zarray(request_arena(r), 1, sizeof *push);
    push->w = w;
    push->r = r;
    push->deadline_ms = loop_now_ms(w->loop) + (uint64_t)w->settings.request_timeout_ms;
    WORKER_COUNT(w, push_requests, 1);
    int status = push_parse(push, &err);
    if (status != 0) {
        request_answer_error(r, status, "%s", err.text);
        return;
    }
    if (push->count == 0) {
        struct buf body = {0};
        BUF_PUT_LITERAL(&body, "[]");
        request_answer(r, 201, NULL, (struct slice){0}, &body);
        return;
    }
    push_items_mark_repeats(request_arena(r), push->items, push->count);
    if (maintenance_is_on(w->shm, MAINTENANCE_PUSH))
        push_buffer(push);
    else
        push_submit(push);
}

static void push_write_item(struct buf *out, size_t index, const struct push_item *item,
                            const char *failure)
{
    static const char *const words[] = {[PUSH_QUEUED] = "queued",
                                        [PUSH_DUPLICATE] = "duplicate",
                                        [PUSH_BUFFERED] = "buffered",
                                        [PUSH_FAILED] = "failed"};
    /* A repeat inside the request reports its leader's message, whoever won. */
    const struct push_item *id = item->leader != NULL ? item->leader : item;
    enum push_status status =
        item->leader != NULL && id->status == PUSH_QUEUED ? PUSH_DUPLICATE : id->status;
    BUF_PUT_LITERAL(out, "{\"index\":");
    buf_put_int(out, (int64_t)index);
    BUF_PUT_LITERAL(out, ",\"message_id\":");
    json_write_uuid(out, &id->message_id);
    BUF_PUT_LITERAL(out, ",\"transaction_id\":");
    json_write_string(out, item->transaction_id);
    BUF_PUT_LITERAL(out, ",\"queueName\":");
    json_write_string(out, item->queue);
    BUF_PUT_LITERAL(out, ",\"status\":\"");
    buf_put_slice(out, slice_of(words[status]));
    buf_putc(out, '"');
    if (status == PUSH_FAILED) {
        BUF_PUT_LITERAL(out, ",\"error\":");
        json_write_string(out, slice_of(failure));
    }
    buf_putc(out, '}');
}

static void push_answer(struct push_request *push)
{
    struct buf body = {0};
    size_t tally[PUSH_UNKNOWN + 1] = {0};
    for (size_t i = 0; i < push->count; i++) {
        const struct push_item *item = &push->items[i];
        tally[item->leader == NULL                  ? item->status
              : item->leader->status == PUSH_QUEUED ? PUSH_DUPLICATE
                                                    : item->leader->status]++;
    }
    WORKER_COUNT(push->w, push_messages, tally[PUSH_QUEUED]);
    WORKER_COUNT(push->w, push_duplicates, tally[PUSH_DUPLICATE]);
    WORKER_COUNT(push->w, push_buffered, tally[PUSH_BUFFERED]);
    WORKER_COUNT(push->w, push_failed, tally[PUSH_FAILED]);
    if (tally[PUSH_UNKNOWN] > 0) {
        /* Contract 1, section 6: the deadline passed with the outcome unknown. */
        BUF_PUT_LITERAL(&body, "{\"error\":\"timeout\",\"code\":\"timeout\"}");
        request_answer(push->r, 503, NULL, SLICE_LITERAL("Retry-After: 1\r\n"), &body);
        return;
    }
    buf_reserve(&body, push->count * 192);
    for (size_t i = 0; i < push->count; i++) {
        buf_putc(&body, i == 0 ? '[' : ',');
        push_write_item(&body, i, &push->items[i], push->failure);
    }
    buf_putc(&body, ']');
    int status = push->maintenance && tally[PUSH_FAILED] > 0 ? 500 : 201;
    request_answer(push->r, status, NULL, (struct slice){0}, &body);
}

void push_item_settle(struct push_item *item, enum push_status status)
{
    item->status = status;
    if (--item->request->unsettled == 0)
        push_answer(item->request);
}
