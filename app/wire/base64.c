/* Base64: strict reading, writing. */
#include "wire/base64.h"

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(struct slice text, struct buf *out)
{
    size_t start = out->n, padding = 0;
    if (text.n % 4 != 0)
        return false;
    while (padding < 2 && padding < text.n && text.p[text.n - 1 - padding] == '=')
        padding++;
    buf_reserve(out, text.n / 4 * 3);
    for (size_t i = 0; i < text.n; i += 4) {
        size_t digits = i + 4 == text.n ? 4 - padding : 4;
        uint32_t v = 0;
        for (size_t k = 0; k < 4; k++) {
            int digit = k < digits ? base64_digit(text.p[i + k]) : 0;
            if (digit < 0) {
                out->n = start;
                return false;
            }
            v = v << 6 | (uint32_t)digit;
        }
        /* Bits behind the last byte must be zero: one text for one value. */
        if ((digits == 3 && (v & 0xff) != 0) || (digits == 2 && (v & 0xffff) != 0)) {
            out->n = start;
            return false;
        }
        for (size_t k = 0; k + 1 < digits; k++)
            out->p[out->n++] = (char)(v >> (16 - 8 * k) & 0xff);
    }
    return true;
}

void base64_encode(struct slice bytes, struct buf *out)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    buf_reserve(out, (bytes.n / 3 + 1) * 4);
    for (size_t i = 0; i < bytes.n; i += 3) {
        size_t n = bytes.n - i < 3 ? bytes.n - i : 3;
        uint32_t v = 0;
        for (size_t k = 0; k < 3; k++)
            v = v << 8 | (k < n ? (uint32_t)(unsigned char)bytes.p[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            out->p[out->n++] = k <= n ? alphabet[v >> (18 - 6 * k) & 63] : '=';
    }
}
