/* Writing JSON by hand into one buffer. */
#include "wire/json_write.h"

#include "base/clock.h"
#include "wire/utf8.h"

static void json_write_escape(struct buf *out, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char shorts[128] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    buf_putc(out, '\\');
    if (c == '"' || c == '\\') {
        buf_putc(out, (char)c);
    } else if (shorts[c] != 0) {
        buf_putc(out, shorts[c]);
    } else {
        BUF_PUT_LITERAL(out, "u00");
        buf_putc(out, hex[c >> 4]);
        buf_putc(out, hex[c & 15]);
    }
}

void json_write_string(struct buf *out, struct slice text)
{
    size_t run = 0, at = 0; /* text[run, at) is copied as it is */
    buf_reserve(out, text.n + 2);
    buf_putc(out, '"');
    while (at < text.n) {
        unsigned char c = (unsigned char)text.p[at];
        if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
            at++;
            continue;
        }
        size_t n = c < 0x80 ? 0 : utf8_sequence(text.p + at, text.n - at);
        if (n > 0) {
            at += n;
            continue;
        }
        buf_put(out, text.p + run, at - run);
        if (c < 0x80)
            json_write_escape(out, c);
        else
            BUF_PUT_LITERAL(out, "\xef\xbf\xbd");
        run = ++at;
    }
    buf_put(out, text.p + run, at - run);
    buf_putc(out, '"');
}

void json_write_uuid(struct buf *out, const struct uuid *u)
{
    buf_reserve(out, UUID_TEXT_SIZE + 2);
    out->p[out->n] = '"';
    uuid_format(u, out->p + out->n + 1);
    out->p[out->n + UUID_TEXT_SIZE + 1] = '"';
    out->n += UUID_TEXT_SIZE + 2;
}

void json_write_time(struct buf *out, int64_t wall_us)
{
    char text[CLOCK_ISO_SIZE];
    clock_iso_utc(wall_us, text);
    buf_putc(out, '"');
    buf_put(out, text, CLOCK_ISO_SIZE - 1);
    buf_putc(out, '"');
}
