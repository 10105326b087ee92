/* Cancelling: libpq's PQcancel connects and waits, so a short-lived thread does it. The thread
 * touches nothing but its PGcancel. */
#include "pg/cancel.h"

#include "base/logger.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

/* A host that does not answer holds such a thread for minutes: no more than this many. */
enum { CANCEL_THREADS = 16 };
static atomic_int cancel_threads;

static void *cancel_run(void *arg)
{
    PGcancel *cancel = arg;
    char text[256];
    if (PQcancel(cancel, text, sizeof text) == 0)
        logger_debug("cancel", "%s", text);
    PQfreeCancel(cancel);
    atomic_fetch_sub(&cancel_threads, 1);
    return NULL;
}

void cancel_send(PGconn *pg)
{
    PGcancel *cancel = PQgetCancel(pg);
    if (cancel == NULL)
        return;
    if (atomic_fetch_add(&cancel_threads, 1) < CANCEL_THREADS) {
        /* Signals are for the thread that runs the loop. */
        sigset_t all, before;
        pthread_attr_t attr;
        pthread_t thread;
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        (void)pthread_attr_init(&attr);
        (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        int failed = pthread_create(&thread, &attr, cancel_run, cancel);
        (void)pthread_attr_destroy(&attr);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (failed == 0)
            return;
    }
    atomic_fetch_sub(&cancel_threads, 1);
    PQfreeCancel(cancel);
}
