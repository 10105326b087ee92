/* Walks the record headers of the FastCGI protocol; the content is libfcgi's. */
#include "fcgi/preview.h"

#include <fastcgi.h>
#include <stdbool.h>

enum preview preview_scan(const unsigned char *p, size_t n)
{
    bool begun = false, head_done = false;
    unsigned id = 0;
    size_t at = 0;
    while (n - at >= FCGI_HEADER_LEN) {
        const unsigned char *h = p + at;
        unsigned type = h[1], record_id = (unsigned)h[2] << 8 | h[3];
        size_t length = (size_t)h[4] << 8 | h[5], padding = h[6];
        if (h[0] != FCGI_VERSION_1)
            break;
        if (!begun && type == FCGI_BEGIN_REQUEST) {
            begun = true;
            id = record_id;
        } else if (begun && record_id == id && length == 0) {
            /* libfcgi ends a stream at the header; padding behind it would come later. */
            if (!head_done && type == FCGI_PARAMS)
                head_done = true;
            else if (head_done && type == FCGI_STDIN)
                return PREVIEW_WHOLE;
        }
        size_t record = FCGI_HEADER_LEN + length + padding;
        if (record > n - at)
            break;
        at += record;
    }
    return head_done ? PREVIEW_HEAD : PREVIEW_PARTIAL;
}
