/* UUIDs: version 7 minting, text form, parsing. libuuid of Debian 12 has no version 7 and formats
 * through printf, which costs more than the rest of a push. */
#include "base/uuid.h"

#include "base/clock.h"

#include <sys/random.h>

struct uuid uuid_v7(void)
{
    /* The pool is refilled by the kernel, 256 ids a call, so minting costs no system call of its
     * own. Bytes are used once. */
    static uint8_t pool[10 * 256];
    static size_t left = 0;
    if (left == 0) {
        size_t have = 0;
        while (have < sizeof pool) {
            ssize_t n = getrandom(pool + have, sizeof pool - have, 0);
            if (n > 0)
                have += (size_t)n;
        }
        left = sizeof pool;
    }
    struct uuid u;
    uint64_t ms = (uint64_t)clock_wall_us() / 1000u;
    for (int i = 0; i < 6; i++)
        u.bytes[i] = (uint8_t)(ms >> (40 - 8 * i));
    left -= 10;
    memcpy(u.bytes + 6, pool + left, 10);
    u.bytes[6] = (uint8_t)(0x70u | (u.bytes[6] & 0x0fu));
    u.bytes[8] = (uint8_t)(0x80u | (u.bytes[8] & 0x3fu));
    return u;
}

void uuid_format(const struct uuid *u, char out[UUID_TEXT_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    char *p = out;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *p++ = '-';
        *p++ = hex[u->bytes[i] >> 4];
        *p++ = hex[u->bytes[i] & 15];
    }
}

static int uuid_hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool uuid_parse(struct slice text, struct uuid *out)
{
    if (text.n != UUID_TEXT_SIZE)
        return false;
    const char *p = text.p;
    for (int i = 0; i < 16; i++) {
        if ((i == 4 || i == 6 || i == 8 || i == 10) && *p++ != '-')
            return false;
        int hi = uuid_hex_value(p[0]), lo = uuid_hex_value(p[1]);
        if (hi < 0 || lo < 0)
            return false;
        out->bytes[i] = (uint8_t)(hi << 4 | lo);
        p += 2;
    }
    return true;
}
