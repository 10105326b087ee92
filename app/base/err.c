/* Errors and the allocation functions that never return NULL. */
#include "base/err.h"

#include "base/logger.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text that was cut may end inside a UTF-8 sequence: drops what is left of it. */
static void err_cut(char *text, int wanted, size_t size)
{
    if (wanted < 0 || (size_t)wanted < size)
        return;
    size_t n = size - 1, start = n;
    while (start > 0 && n - start < 3 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
        start--;
    if (start == 0)
        return;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (length > n - start + 1)
        text[start - 1] = '\0';
}

bool err_set(struct err *err, const char *fmt, ...)
{
    if (err != NULL) {
        va_list ap;
        va_start(ap, fmt);
        err_cut(err->text, vsnprintf(err->text, sizeof err->text, fmt, ap), sizeof err->text);
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
    int wanted = snprintf(err->text + used, sizeof err->text - used, ": %s", old);
    err_cut(err->text, wanted + (int)used, sizeof err->text);
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
