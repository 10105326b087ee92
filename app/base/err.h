/* Errors: one text fit for an operator, filled by the function that failed.
 *
 * A function that can fail returns bool (true = done) or a small enum, is marked
 * MUST_CHECK, and fills the struct err it was given. The error is logged once,
 * where it is handled. An err never holds a secret (passwords, tokens, payloads). */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

#define MUST_CHECK             __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

struct err {
    char text[512]; /* NUL-terminated, cut at the end if too long; valid UTF-8 in, UTF-8 out */
};

/* Sets the text and returns false, so that a failing function can end with
 * `return err_set(err, "...")`. err may be NULL when nobody wants the text. */
bool err_set(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Puts "prefix: " before the text that is already there; returns false. */
bool err_prefix(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The process cannot go on (out of memory, broken invariant): logs and aborts.
 * Every process may die at any moment without loss (design, section 1), so
 * out-of-memory is handled by dying, not by half-finished error paths. */
_Noreturn void die(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* malloc family that dies instead of returning NULL. Release with free(). */
void *mem_alloc(size_t size) __attribute__((malloc));
void *mem_zalloc(size_t size) __attribute__((malloc));
void *mem_realloc(void *old, size_t size) MUST_CHECK;

#endif
