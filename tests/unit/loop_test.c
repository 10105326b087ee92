/* The event loop: descriptors, deadlines, end-of-round tasks, and what happens when handlers change
 * them. Nothing here is decided by how long something takes. */
#include "base/clock.h"
#include "base/loop.h"
#include "base/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct loop *loop;
static struct err err;
static char trace[256]; /* what ran, a letter each */

static int set_up(void **state)
{
    (void)state;
    loop = loop_new();
    trace[0] = '\0';
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    loop_free(loop);
    loop_free(NULL);
    return 0;
}

static void note(char letter)
{
    size_t n = strlen(trace);
    assert_true(n < sizeof trace - 1);
    trace[n] = letter;
    trace[n + 1] = '\0';
}

/* --- descriptors --- */

struct source {
    struct loop_io io;
    int fd;
    char letter;
    int count;
    struct source *other; /* removed by this one's handler */
    bool stop;
};

static void source_open(struct source *s, char letter)
{
    *s = (struct source){.letter = letter, .io.slot = -1};
    s->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_true(s->fd >= 0);
}

static void source_signal(const struct source *s)
{
    assert_int_equal(eventfd_write(s->fd, 1), 0);
}

static void source_drain(struct source *s)
{
    eventfd_t value;
    (void)eventfd_read(s->fd, &value);
}

static void source_ready(struct loop_io *io, uint32_t events)
{
    struct source *s = TABLE_OWNER(io, struct source, io);
    assert_true(events & EPOLLIN);
    note(s->letter);
    s->count++;
    source_drain(s);
    if (s->other != NULL) {
        loop_unwatch(loop, &s->other->io);
        s->other = NULL;
    }
    if (s->stop)
        loop_stop(loop);
}

static void source_watch(struct source *s)
{
    if (!loop_watch(loop, &s->io, s->fd, EPOLLIN, source_ready, &err))
        fail_msg("%s", err.text);
}

static void ready_descriptors_are_handled(void **state)
{
    struct source a, b;
    (void)state;
    source_open(&a, 'a');
    source_open(&b, 'b');
    source_watch(&a);
    source_watch(&b);
    source_signal(&a);
    a.stop = true;
    loop_run(loop);
    assert_string_equal(trace, "a");
    source_signal(&b);
    b.stop = true;
    loop_run(loop); /* a stopped loop runs again */
    assert_string_equal(trace, "ab");
    loop_unwatch(loop, &a.io);
    loop_unwatch(loop, &b.io);
    loop_unwatch(loop, &b.io); /* twice is safe */
    (void)close(a.fd);
    (void)close(b.fd);
}

static void unwatching_what_never_was_watched_is_safe(void **state)
{
    struct source a;
    struct loop_io zeroed = {0}, *never = &zeroed;
    (void)state;
    loop_unwatch(loop, never);
    source_open(&a, 'a');
    source_watch(&a); /* has slot 0 */
    loop_unwatch(loop, never);
    source_signal(&a);
    a.stop = true;
    loop_run(loop);
    assert_string_equal(trace, "a");
    loop_unwatch(loop, &a.io);
    (void)close(a.fd);
}

static void counting_ready(struct loop_io *io, uint32_t events)
{
    struct source *s = TABLE_OWNER(io, struct source, io);
    (void)events;
    if (++s->count == 3) {
        source_drain(s);
        loop_stop(loop);
    }
}

static void events_are_level_triggered(void **state)
{
    struct source a;
    (void)state;
    source_open(&a, 'a');
    assert_true(loop_watch(loop, &a.io, a.fd, EPOLLIN, counting_ready, &err));
    source_signal(&a);
    loop_run(loop);
    assert_int_equal(a.count, 3);
    loop_unwatch(loop, &a.io);
    (void)close(a.fd);
}

static void the_second_of_a_round_is_not_told_when_the_first_removed_it(void **state)
{
    struct source a, b, last;
    (void)state;
    source_open(&a, 'a');
    source_open(&b, 'b');
    source_open(&last, '.');
    source_watch(&a);
    source_watch(&b);
    a.other = &b;
    b.other = &a;
    source_signal(&a);
    source_signal(&b);

    last.stop = true;
    source_watch(&last);
    source_signal(&last);
    loop_run(loop);
    assert_int_equal(a.count + b.count, 1);
    loop_unwatch(loop, &last.io);
    loop_unwatch(loop, &a.io);
    loop_unwatch(loop, &b.io);
    (void)close(a.fd);
    (void)close(b.fd);
    (void)close(last.fd);
}

/* Whichever of two comes first closes the other and watches a new descriptor, which gets the same
 * number and the same slot: the old event must not reach the new watch. */
static struct source pair[2], fresh;

static void replacing_ready(struct loop_io *io, uint32_t events)
{
    struct source *s = TABLE_OWNER(io, struct source, io), *other = s == pair ? pair + 1 : pair;
    (void)events;
    s->count++;
    source_drain(s);
    loop_unwatch(loop, &other->io);
    int old = other->fd;
    (void)close(other->fd);
    source_open(&fresh, 'f');
    assert_int_equal(fresh.fd, old);
    source_watch(&fresh);
    loop_stop(loop);
}

static void an_old_event_does_not_reach_a_new_watch(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        source_open(&pair[i], 'p');
        assert_true(loop_watch(loop, &pair[i].io, pair[i].fd, EPOLLIN, replacing_ready, &err));
        source_signal(&pair[i]);
    }
    loop_run(loop);
    assert_int_equal(pair[0].count + pair[1].count, 1);
    assert_int_equal(fresh.count, 0);
    source_signal(&fresh); /* but its own events do */
    fresh.stop = true;
    loop_run(loop);
    assert_int_equal(fresh.count, 1);
    loop_unwatch(loop, &fresh.io);
    (void)close(fresh.fd);
    (void)close(pair[pair[0].count == 1 ? 0 : 1].fd);
}

static void both_ready(struct loop_io *io, uint32_t events)
{
    struct source *s = TABLE_OWNER(io, struct source, io);
    note(events & EPOLLOUT ? 'w' : 'r');
    if (events & EPOLLOUT)
        loop_rewatch(loop, io, EPOLLIN);
    source_signal(s);
    if (++s->count == 3)
        loop_stop(loop);
}

static void rewatching_changes_the_events(void **state)
{
    struct source a;
    (void)state;
    source_open(&a, 'a');
    assert_true(loop_watch(loop, &a.io, a.fd, EPOLLOUT, both_ready, &err));
    loop_run(loop);
    assert_string_equal(trace, "wrr");
    loop_unwatch(loop, &a.io);
    (void)close(a.fd);
}

static void a_descriptor_that_cannot_be_watched_is_an_error(void **state)
{
    struct source a;
    (void)state;
    source_open(&a, 'a');
    assert_false(loop_watch(loop, &a.io, -1, EPOLLIN, source_ready, &err));
    assert_non_null(strstr(err.text, "fd -1"));
    assert_int_equal(a.io.slot, -1);
    loop_unwatch(loop, &a.io);
    source_watch(&a);
    struct source twice = a;
    assert_false(loop_watch(loop, &twice.io, a.fd, EPOLLIN, source_ready, &err));
    source_signal(&a);
    a.stop = true;
    loop_run(loop);
    assert_string_equal(trace, "a");
    loop_unwatch(loop, &a.io);
    (void)close(a.fd);
}

static void many_descriptors(void **state)
{
    enum { COUNT = 500 };
    static struct source many[COUNT];
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            source_open(&many[i], 'm');
            assert_true(loop_watch(loop, &many[i].io, many[i].fd, EPOLLIN, counting_ready, &err));
        }
        for (int i = 0; i < COUNT; i += 7) {
            many[i].count = 2; /* the next event is its third: drained, and the loop stops */
            source_signal(&many[i]);
            loop_run(loop);
        }
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(many[i].count, i % 7 == 0 ? 3 : 0);
            loop_unwatch(loop, &many[i].io);
            (void)close(many[i].fd);
        }
    }
}

/* --- deadlines --- */

struct alarm {
    struct loop_timer timer;
    char letter;
    struct alarm *cancels;
    bool again, stop;
    uint64_t fired_ms;
};

static void alarm_fire(struct loop_timer *timer)
{
    struct alarm *a = TABLE_OWNER(timer, struct alarm, timer);
    assert_false(loop_timer_armed(timer));
    note(a->letter);
    a->fired_ms = clock_mono_ms();
    if (a->cancels != NULL)
        loop_timer_cancel(loop, &a->cancels->timer);
    if (a->again)
        loop_timer_set(loop, timer, loop_now_ms(loop));
    if (a->stop)
        loop_stop(loop);
}

static struct alarm alarm_of(char letter)
{
    return (struct alarm){.timer.fire = alarm_fire, .letter = letter};
}

static void deadlines_fire_in_order_and_once(void **state)
{
    struct alarm a = alarm_of('a'), b = alarm_of('b'), c = alarm_of('c'), d = alarm_of('d');
    uint64_t now = clock_mono_ms();
    (void)state;
    loop_timer_set(loop, &c.timer, now - 1);
    loop_timer_set(loop, &a.timer, now - 3);
    loop_timer_set(loop, &d.timer, now + 5);
    loop_timer_set(loop, &b.timer, now - 2);
    assert_true(loop_timer_armed(&d.timer));
    d.stop = true;
    loop_run(loop);
    assert_string_equal(trace, "abcd");
    assert_true(d.fired_ms >= now + 5); /* never early */
    assert_false(loop_timer_armed(&a.timer));
}

static void deadlines_are_moved_and_cancelled(void **state)
{
    struct alarm a = alarm_of('a'), b = alarm_of('b'), c = alarm_of('c'), last = alarm_of('.');
    uint64_t now = clock_mono_ms();
    (void)state;
    loop_timer_set(loop, &a.timer, now - 9);
    loop_timer_set(loop, &b.timer, now - 8);
    loop_timer_set(loop, &c.timer, now - 7);
    loop_timer_set(loop, &last.timer, now - 1);
    last.stop = true;
    loop_timer_set(loop, &a.timer, now - 2);   /* later than c */
    loop_timer_set(loop, &c.timer, now - 100); /* the first of all */
    loop_timer_cancel(loop, &b.timer);
    loop_timer_cancel(loop, &b.timer);
    loop_run(loop);
    assert_string_equal(trace, "ca.");
}

static void a_deadline_may_cancel_another_that_is_due(void **state)
{
    struct alarm a = alarm_of('a'), b = alarm_of('b'), last = alarm_of('.');
    uint64_t now = clock_mono_ms();
    (void)state;
    loop_timer_set(loop, &a.timer, now - 3);
    loop_timer_set(loop, &b.timer, now - 2);
    loop_timer_set(loop, &last.timer, now - 1);
    a.cancels = &b;
    last.stop = true;
    loop_run(loop);
    assert_string_equal(trace, "a.");
}

static void a_deadline_set_for_now_does_not_starve_descriptors(void **state)
{
    struct alarm busy = alarm_of('t');
    struct source a;
    (void)state;
    source_open(&a, 'a');
    source_watch(&a);
    source_signal(&a);
    a.stop = true;
    busy.again = true;
    loop_timer_set(loop, &busy.timer, 0);
    loop_run(loop);
    assert_non_null(strchr(trace, 'a'));
    loop_timer_cancel(loop, &busy.timer);
    loop_unwatch(loop, &a.io);
    (void)close(a.fd);
}

static uint64_t last_at;
static size_t fired;

static void ordered_fire(struct loop_timer *timer)
{
    assert_true(timer->at_ms >= last_at);
    last_at = timer->at_ms;
    fired++;
}

static void stop_fire(struct loop_timer *timer)
{
    (void)timer;
    loop_stop(loop);
}

/* Random sets, moves and cancels: what is left fires in order. */
static void the_heap_holds_under_random_use(void **state)
{
    enum { COUNT = 2000 };
    static struct loop_timer timers[COUNT];
    struct loop_timer end = {.fire = stop_fire};
    uint64_t now = clock_mono_ms();
    uint32_t seed = 1;
    size_t armed = 0;
    (void)state;
    assert_true(now > 1000);
    for (int i = 0; i < 50000; i++) {
        seed = seed * 1664525u + 1013904223u;
        struct loop_timer *t = &timers[(seed >> 8) % COUNT];
        t->fire = ordered_fire;
        if ((seed >> 24) % 3 == 0)
            loop_timer_cancel(loop, t);
        else
            loop_timer_set(loop, t, now - 1 - (seed >> 4) % 900);
    }
    for (size_t i = 0; i < COUNT; i++)
        armed += loop_timer_armed(&timers[i]);
    assert_true(armed > 100);
    last_at = fired = 0;
    loop_timer_set(loop, &end, now);
    loop_run(loop);
    assert_int_equal(fired, armed);
}

/* --- tasks --- */

struct job {
    struct loop_task task;
    char letter;
    struct job *next;
    bool stop;
};

static void job_run(struct loop_task *task)
{
    struct job *j = TABLE_OWNER(task, struct job, task);
    assert_false(task->queued);
    note(j->letter);
    if (j->next != NULL)
        loop_task_queue(loop, &j->next->task);
    if (j->stop)
        loop_stop(loop);
}

static struct job job_of(char letter)
{
    return (struct job){.task.run = job_run, .letter = letter};
}

static struct job *queued_by_event;

static void queueing_ready(struct loop_io *io, uint32_t events)
{
    struct source *s = TABLE_OWNER(io, struct source, io);
    (void)events;
    note(s->letter);
    source_drain(s);
    loop_task_queue(loop, &queued_by_event->task);
}

static void a_task_runs_once_after_all_events_of_the_round(void **state)
{
    struct source a, b;
    struct job flush = job_of('F');
    (void)state;
    flush.stop = true;
    queued_by_event = &flush;
    source_open(&a, 'e');
    source_open(&b, 'e');
    assert_true(loop_watch(loop, &a.io, a.fd, EPOLLIN, queueing_ready, &err));
    assert_true(loop_watch(loop, &b.io, b.fd, EPOLLIN, queueing_ready, &err));
    source_signal(&a);
    source_signal(&b);
    loop_run(loop);
    assert_string_equal(trace, "eeF");
    loop_unwatch(loop, &a.io);
    loop_unwatch(loop, &b.io);
    (void)close(a.fd);
    (void)close(b.fd);
}

static void tasks_run_in_order_and_may_queue_and_be_cancelled(void **state)
{
    struct job a = job_of('a'), b = job_of('b'), c = job_of('c'), d = job_of('d');
    (void)state;
    a.next = &c;
    d.stop = true;
    loop_task_queue(loop, &a.task); /* before the loop runs: it does not sleep on them */
    loop_task_queue(loop, &b.task);
    loop_task_queue(loop, &a.task);
    loop_task_queue(loop, &d.task);
    loop_task_cancel(loop, &b.task);
    loop_task_cancel(loop, &b.task);
    loop_run(loop);
    assert_string_equal(trace, "adc");
}

int main(void)
{
#define LOOP_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        LOOP_TEST(ready_descriptors_are_handled),
        LOOP_TEST(unwatching_what_never_was_watched_is_safe),
        LOOP_TEST(events_are_level_triggered),
        LOOP_TEST(the_second_of_a_round_is_not_told_when_the_first_removed_it),
        LOOP_TEST(an_old_event_does_not_reach_a_new_watch),
        LOOP_TEST(rewatching_changes_the_events),
        LOOP_TEST(a_descriptor_that_cannot_be_watched_is_an_error),
        LOOP_TEST(many_descriptors),
        LOOP_TEST(deadlines_fire_in_order_and_once),
        LOOP_TEST(deadlines_are_moved_and_cancelled),
        LOOP_TEST(a_deadline_may_cancel_another_that_is_due),
        LOOP_TEST(a_deadline_set_for_now_does_not_starve_descriptors),
        LOOP_TEST(the_heap_holds_under_random_use),
        LOOP_TEST(a_task_runs_once_after_all_events_of_the_round),
        LOOP_TEST(tasks_run_in_order_and_may_queue_and_be_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
