/* An arena: one owner (a request), many allocations, one release. Zero-initialise to start;
 * arena_free() releases everything at once. Dies on out of memory. Not for unbounded data:
 * what is copied into an arena comes from a body whose length was checked. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/slice.h"

struct arena_block;

struct arena {
    struct arena_block *head; /* newest block */
    char *next;               /* first free byte of it */
    char *end;
};

/* Aligned for any object; zeroed by nobody. */
void *arena_alloc(struct arena *a, size_t size) __attribute__((malloc, warn_unused_result));
/* count * size, checked for overflow, zeroed. */
void *arena_zarray(struct arena *a, size_t count, size_t size)
    __attribute__((malloc, warn_unused_result));
struct slice arena_copy(struct arena *a, struct slice s);
/* NUL-terminated copy, for C interfaces; s must hold no NUL. */
char *arena_cstr(struct arena *a, struct slice s);
void arena_free(struct arena *a);

#endif
