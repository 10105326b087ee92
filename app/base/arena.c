/* An arena: one owner, many allocations, one release. */
#include "base/arena.h"

#include "base/err.h"

#include <stdint.h>
#include <stdlib.h>

enum { ARENA_BLOCK = 4096, ARENA_ALIGN = 16 };

struct arena_block {
    struct arena_block *older;
    _Alignas(ARENA_ALIGN) char data[];
};

void *arena_alloc(struct arena *a, size_t size)
{
    if (size > SIZE_MAX / 2)
        die("arena allocation of %zu bytes", size);
    size = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    if (a->head == NULL || size > (size_t)(a->end - a->next)) {
        size_t room = size > ARENA_BLOCK ? size : ARENA_BLOCK;
        struct arena_block *b = mem_alloc(sizeof *b + room);
        b->older = a->head;
        a->head = b;
        a->next = b->data;
        a->end = b->data + room;
    }
    void *p = a->next;
    a->next += size;
    return p;
}

void *arena_zarray(struct arena *a, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        die("arena array of %zu x %zu bytes", count, size);
    void *p = arena_alloc(a, total);
    memset(p, 0, total);
    return p;
}

struct slice arena_copy(struct arena *a, struct slice s)
{
    char *p = arena_alloc(a, s.n);
    if (s.n > 0)
        memcpy(p, s.p, s.n);
    return (struct slice){p, s.n};
}

char *arena_cstr(struct arena *a, struct slice s)
{
    char *p = arena_alloc(a, s.n + 1);
    if (s.n > 0)
        memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return p;
}

void arena_free(struct arena *a)
{
    while (a->head != NULL) {
        struct arena_block *older = a->head->older;
        free(a->head);
        a->head = older;
    }
    *a = (struct arena){0};
}
