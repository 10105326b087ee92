/* Names of queues, partitions and groups (contract 1, section 1.5). */
#include "worker/worker.h"

#include "wire/utf8.h"

int name_check(const char *field, struct slice name, struct err *err)
{
    if (name.n == 0) {
        (void)err_set(err, "%s is empty; 1 to %d bytes are allowed", field, NAME_MAX_BYTES);
        return 400;
    }
    if (name.n > NAME_MAX_BYTES) {
        (void)err_set(err, "%s has %zu bytes, the limit is %d", field, name.n, NAME_MAX_BYTES);
        return 413;
    }
    if (memchr(name.p, 0, name.n) != NULL) {
        (void)err_set(err, "%s holds a NUL character, which is not allowed", field);
        return 400;
    }
    if (!utf8_valid(name)) {
        (void)err_set(err, "%s is not valid UTF-8", field);
        return 400;
    }
    return 0;
}
