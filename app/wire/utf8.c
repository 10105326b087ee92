/* UTF-8 validity. */
#include "wire/utf8.h"

static bool utf8_in(unsigned char c, unsigned char low, unsigned char high)
{
    return c >= low && c <= high;
}

size_t utf8_sequence(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    if (n >= 1 && p[0] < 0x80)
        return 1;
    if (n >= 2 && utf8_in(p[0], 0xc2, 0xdf) && utf8_in(p[1], 0x80, 0xbf))
        return 2;
    /* RFC 3629, section 4: the second byte's range excludes overlong forms and surrogates. */
    if (n >= 3 && utf8_in(p[0], 0xe0, 0xef) && utf8_in(p[2], 0x80, 0xbf) &&
        utf8_in(p[1], p[0] == 0xe0 ? 0xa0 : 0x80, p[0] == 0xed ? 0x9f : 0xbf))
        return 3;
    if (n >= 4 && utf8_in(p[0], 0xf0, 0xf4) && utf8_in(p[2], 0x80, 0xbf) &&
        utf8_in(p[3], 0x80, 0xbf) &&
        utf8_in(p[1], p[0] == 0xf0 ? 0x90 : 0x80, p[0] == 0xf4 ? 0x8f : 0xbf))
        return 4;
    return 0;
}

bool utf8_valid(struct slice text)
{
    for (size_t at = 0; at < text.n;) {
        size_t n = utf8_sequence(text.p + at, text.n - at);
        if (n == 0)
            return false;
        at += n;
    }
    return true;
}
