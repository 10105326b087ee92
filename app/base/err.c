/* Errors and the allocation functions that never return NULL. */
#include "base/err.h"

#include "base/logger.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool err_set(struct err *err, const char *fmt, ...)
{
    if (err != NULL) {
        va_list ap;
        va_start(ap, fmt);
        (void)vsnprintf(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
    }
    return false;
}

bool err_prefix(struct err *err, const char *fmt, ...)
{
    if (err == NULL)
        return false;
    char old[sizeof err->text];
    memcpy(old, err->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    size_t used = strlen(err->text);
    (void)snprintf(err->text + used, sizeof err->text - used, ": %s", old);
    return false;
}

void die(const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    logger_error("fatal", "%s", text);
    abort();
}

void *mem_alloc(size_t size)
{
    void *p = malloc(size == 0 ? 1 : size);
    if (p == NULL)
        die("out of memory: %zu bytes", size);
    return p;
}

void *mem_zalloc(size_t size)
{
    void *p = calloc(1, size == 0 ? 1 : size);
    if (p == NULL)
        die("out of memory: %zu bytes", size);
    return p;
}

void *mem_realloc(void *old, size_t size)
{
    void *p = realloc(old, size == 0 ? 1 : size);
    if (p == NULL)
        die("out of memory: %zu bytes", size);
    return p;
}
