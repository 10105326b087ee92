/* The shared memory of one instance: made by the first process up, attached by all others.
 * Everything in it is an accelerator; whatever is lost degrades to the SQL path. See shm/README.md
 * for layout, locks and crash rules. */
#ifndef SHM_SHM_H
#define SHM_SHM_H

#include "base/err.h"
#include "base/settings.h"

#include <pthread.h>
#include <stdint.h>

struct shm; /* this process's view; everything inside the mapping is addressed by offset */

/* Attaches, making the segment when there is none. The name comes from the real path of
 * settings->run_dir and the effective user id; mode 0600. A segment with another magic, layout
 * version or geometry (registry size, worker slots) is refused with an err that says which and how
 * to remove it. Creation is safe against races and against a creator that dies half-way. */
MUST_CHECK bool shm_attach(const struct settings *settings, struct shm **out, struct err *err);
void shm_detach(struct shm *shm);
/* The segment's name as shm_open(3) takes it, for `queenctl` and tests; the file is /dev/shm<name>.
 */
#define SHM_NAME_SIZE 48
MUST_CHECK bool shm_name(const struct settings *settings, char out[SHM_NAME_SIZE], struct err *err);

/* Removes the name (the last detach frees the memory). For `queenctl` and `make down`. */
MUST_CHECK bool shm_remove(const struct settings *settings, struct err *err);

/* A process-shared robust mutex that says whether its last owner died holding it. */
enum shm_lock_result {
    SHM_LOCKED,
    SHM_OWNER_DIED, /* locked; what it guards may be half-written: empty it, it is consistent now */
};
void shm_lock_init(pthread_mutex_t *m);
MUST_CHECK enum shm_lock_result shm_lock(pthread_mutex_t *m);
void shm_unlock(pthread_mutex_t *m);

#endif
