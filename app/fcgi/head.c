/* Picks the few FastCGI parameters that the application reads. */
#include "fcgi/head.h"

#include "fcgi/body.h"

/* The value if param is "NAME=value", and no earlier one had that name. */
static bool head_take(const char *param, const char *name, size_t name_n, struct slice *value)
{
    if (strncmp(param, name, name_n) != 0 || value->p != NULL)
        return false;
    *value = slice_of(param + name_n);
    return true;
}

#define HEAD_TAKE(param, name, value) head_take((param), name "=", sizeof(name), (value))

const char *head_parse(char *const *params, struct request_head *head)
{
    struct slice length = {0};
    *head = (struct request_head){0};
    for (; *params != NULL; params++)
        if (HEAD_TAKE(*params, "REQUEST_METHOD", &head->method) ||
            HEAD_TAKE(*params, "REQUEST_URI", &head->target) ||
            HEAD_TAKE(*params, "CONTENT_LENGTH", &length) ||
            HEAD_TAKE(*params, "HTTP_AUTHORIZATION", &head->authorization))
            continue;
    if (!body_length_parse(length, &head->content_length))
        return "Content-Length is not a number";
    if (head->method.n == 0 || head->target.n == 0)
        return "the request has no method or no target";
    return NULL;
}
