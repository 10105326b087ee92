/* The push spool: writing and reading its files. */
#include "log/spool.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    FILE_MAX_BYTES = 16 * 1024 * 1024, /* a file this big is ended, so that it can be deleted */
    BODY_FIXED = 8 + 16 + 2 + 2 + 2,
    READ_STEP = 64 * 1024,
};

static const char file_mark[8] = {'Q', 'U', 'E', 'E', 'N', 'S', 'P', '1'};
static const char record_mark[4] = {'\xf1', 'Q', 'S', 'R'};

static void put_le(struct buf *out, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        buf_putc(out, (char)(v >> (8 * i) & 0xff));
}

static uint64_t get_le(const char *p, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = bytes; i > 0; i--)
        v = v << 8 | (unsigned char)p[i - 1];
    return v;
}

void spool_put(struct buf *out, const struct spool_record *r)
{
    size_t body = BODY_FIXED + r->queue.n + r->partition.n + r->transaction_id.n + r->payload.n;
    if (body > SPOOL_BODY_MAX || r->queue.n > UINT16_MAX || r->partition.n > UINT16_MAX ||
        r->transaction_id.n > UINT16_MAX)
        die("spool record of %zu bytes", body);
    buf_reserve(out, SPOOL_RECORD_MIN + body);
    buf_put(out, record_mark, sizeof record_mark);
    put_le(out, body, 4);
    put_le(out, 0, 8);
    put_le(out, (uint64_t)r->time_us, 8);
    buf_put(out, r->message_id.bytes, sizeof r->message_id.bytes);
    put_le(out, r->queue.n, 2);
    put_le(out, r->partition.n, 2);
    put_le(out, r->transaction_id.n, 2);
    buf_put_slice(out, r->queue);
    buf_put_slice(out, r->partition);
    buf_put_slice(out, r->transaction_id);
    buf_put_slice(out, r->payload);
}

/* Over the length and the body: a flipped length is found as well. */
static uint64_t record_sum(const char *record, size_t body, uint64_t salt)
{
    uint64_t seed = XXH3_64bits_withSeed(record + sizeof record_mark, 4, salt);
    return XXH3_64bits_withSeed(record + SPOOL_RECORD_MIN, body, seed);
}

static bool make_dir(const char *dir, struct err *err)
{
    struct stat st;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return err_set(err, "make %s: %s", dir, strerror(errno));
    if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode))
        return err_set(err, "%s is not a directory", dir);
    return true;
}

void spool_path(const struct settings *settings, char *out, size_t size)
{
    if (settings->spool_dir[0] != '\0')
        (void)snprintf(out, size, "%s", settings->spool_dir);
    else
        (void)snprintf(out, size, "%s/spool", settings->run_dir);
}

bool spool_sync_dir(const char *dir, struct err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, "open %s: %s", dir, strerror(errno));
    bool ok = fsync(fd) == 0 || err_set(err, "sync %s: %s", dir, strerror(errno));
    (void)close(fd);
    return ok;
}

bool spool_writer_open(struct spool_writer *w, const char *dir, struct err *err)
{
    *w = (struct spool_writer){.fd = -1};
    if (strlen(dir) + SPOOL_NAME_SIZE >= sizeof w->dir)
        return err_set(err, "the name of the spool directory is too long");
    memcpy(w->dir, dir, strlen(dir));
    return make_dir(dir, err);
}

static bool write_all(int fd, const char *p, size_t n, struct err *err)
{
    while (n > 0) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return err_set(err, "write to the spool: %s", strerror(errno));
        p += done;
        n -= (size_t)done;
    }
    return true;
}

/* A new file, locked. One that whoever drains took for a dead writer's and deleted between its
 * creation and the lock is tried anew. */
static int create_locked(struct spool_writer *w, char *path, size_t size, struct err *err)
{
    for (;;) {
        int64_t now = clock_wall_us();
        w->last_us = now > w->last_us ? now : w->last_us + 1;
        (void)snprintf(path, size, "%s/%019" PRId64 "-%010ld" SPOOL_SUFFIX, w->dir, w->last_us,
                       (long)getpid());
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 && errno == EEXIST)
            continue;
        if (fd < 0) {
            (void)err_set(err, "make %s: %s", path, strerror(errno));
            return -1;
        }
        struct stat st;
        int rc;
        do
            rc = flock(fd, LOCK_EX);
        while (rc != 0 && errno == EINTR);
        if (rc != 0 || fstat(fd, &st) != 0) {
            (void)err_set(err, "lock %s: %s", path, strerror(errno));
            (void)close(fd);
            return -1;
        }
        if (st.st_nlink > 0)
            return fd;
        (void)close(fd);
    }
}

static bool writer_begin(struct spool_writer *w, struct err *err)
{
    char path[PATH_MAX + SPOOL_NAME_SIZE];
    struct buf header = {0};
    int fd = create_locked(w, path, sizeof path, err);
    if (fd < 0)
        return false;
    if (getrandom(&w->salt, sizeof w->salt, 0) != (ssize_t)sizeof w->salt)
        die("getrandom: %s", strerror(errno));
    buf_put(&header, file_mark, sizeof file_mark);
    put_le(&header, w->salt, 8);
    bool ok = write_all(fd, header.p, header.n, err) && spool_sync_dir(w->dir, err);
    buf_free(&header);
    if (!ok) {
        (void)unlink(path);
        (void)close(fd);
        return false;
    }
    w->fd = fd;
    w->size = SPOOL_HEADER;
    return true;
}

void spool_writer_close(struct spool_writer *w)
{
    if (w->fd >= 0)
        (void)close(w->fd);
    w->fd = -1;
}

bool spool_writer_append(struct spool_writer *w, struct buf *records, struct err *err)
{
    if (w->fd >= 0 && w->size >= FILE_MAX_BYTES)
        spool_writer_close(w);
    if (w->fd < 0 && !writer_begin(w, err))
        return false;
    for (size_t at = 0; at < records->n;) {
        char *p = records->p + at;
        size_t body = (size_t)get_le(p + sizeof record_mark, 4);
        uint64_t sum = record_sum(p, body, w->salt);
        for (size_t i = 0; i < 8; i++)
            p[8 + i] = (char)(sum >> (8 * i) & 0xff);
        at += SPOOL_RECORD_MIN + body;
    }
    bool ok = write_all(w->fd, records->p, records->n, err) &&
              (fdatasync(w->fd) == 0 || err_set(err, "sync the spool: %s", strerror(errno)));
    if (ok) {
        w->size += (int64_t)records->n;
        return true;
    }
    /* Whoever asked hears "failed": what came through goes away again if it can. The file is not
     * used any further, since after a failed sync nothing is known about it. */
    if (ftruncate(w->fd, (off_t)w->size) == 0)
        (void)fdatasync(w->fd);
    spool_writer_close(w);
    return false;
}

bool spool_reader_open(struct spool_reader *r, const char *path, struct err *err)
{
    *r = (struct spool_reader){.at = SPOOL_HEADER};
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (r->fd < 0)
        return err_set(err, "open %s: %s", path, strerror(errno));
    (void)spool_reader_own(r);
    return true;
}

bool spool_reader_own(struct spool_reader *r)
{
    if (!r->owned)
        r->owned = flock(r->fd, LOCK_EX | LOCK_NB) == 0;
    return r->owned;
}

bool spool_reader_hop(const struct spool_reader *r, int64_t size, int64_t *at)
{
    char header[SPOOL_RECORD_MIN];
    if (size - *at < SPOOL_RECORD_MIN ||
        pread(r->fd, header, sizeof header, (off_t)*at) != (ssize_t)sizeof header ||
        memcmp(header, record_mark, sizeof record_mark) != 0)
        return false;
    int64_t length = SPOOL_RECORD_MIN + (int64_t)get_le(header + sizeof record_mark, 4);
    if (length > size - *at)
        return false;
    *at += length;
    return true;
}

void spool_reader_seek(struct spool_reader *r, int64_t at)
{
    r->at = at < SPOOL_HEADER ? SPOOL_HEADER : at;
    buf_clear(&r->window);
}

void spool_reader_close(struct spool_reader *r)
{
    if (r->fd >= 0)
        (void)close(r->fd);
    r->fd = -1;
    buf_free(&r->window);
}

/* Bytes [at, at + n) of the file, as far as it has them. */
static bool reader_fill(struct spool_reader *r, int64_t at, size_t n, struct slice *out,
                        struct err *err)
{
    struct buf *b = &r->window;
    if (at < r->window_at || at > r->window_at + (int64_t)b->n)
        buf_clear(b);
    if (b->n == 0)
        r->window_at = at;
    size_t before = (size_t)(at - r->window_at);
    if (b->n - before < n && before > 0) {
        memmove(b->p, b->p + before, b->n - before);
        b->n -= before;
        r->window_at = at;
        before = 0;
    }
    while (b->n - before < n) {
        size_t want = n - (b->n - before) > READ_STEP ? n - (b->n - before) : READ_STEP;
        /* A length that damage made up costs no more memory than the file has bytes. */
        if (want > 16 * READ_STEP)
            want = 16 * READ_STEP;
        buf_reserve(b, want);
        ssize_t got = pread(r->fd, b->p + b->n, want, (off_t)(r->window_at + (int64_t)b->n));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set(err, "read the spool: %s", strerror(errno));
        if (got == 0)
            break;
        b->n += (size_t)got;
    }
    *out = (struct slice){b->p + before, b->n - before < n ? b->n - before : n};
    return true;
}

static bool body_read(struct slice body, struct spool_record *out)
{
    const char *p = body.p;
    if (body.n < BODY_FIXED)
        return false;
    size_t q = (size_t)get_le(p + 24, 2), part = (size_t)get_le(p + 26, 2),
           t = (size_t)get_le(p + 28, 2);
    if (body.n - BODY_FIXED < q + part + t)
        return false;
    out->time_us = (int64_t)get_le(p, 8);
    memcpy(out->message_id.bytes, p + 8, sizeof out->message_id.bytes);
    p += BODY_FIXED;
    out->queue = (struct slice){p, q};
    out->partition = (struct slice){p + q, part};
    out->transaction_id = (struct slice){p + q + part, t};
    out->payload = (struct slice){p + q + part + t, body.n - BODY_FIXED - q - part - t};
    return true;
}

/* Whether a whole record begins there: SPOOL_END means no. */
static enum spool_result record_at(struct spool_reader *r, int64_t at, struct spool_record *out,
                                   size_t *length, struct err *err)
{
    struct slice s;
    if (!reader_fill(r, at, SPOOL_RECORD_MIN, &s, err))
        return SPOOL_ERROR;
    if (s.n < SPOOL_RECORD_MIN || memcmp(s.p, record_mark, sizeof record_mark) != 0)
        return SPOOL_END;
    size_t body = (size_t)get_le(s.p + sizeof record_mark, 4);
    if (body > SPOOL_BODY_MAX)
        return SPOOL_END;
    *length = SPOOL_RECORD_MIN + body;
    if (!reader_fill(r, at, *length, &s, err))
        return SPOOL_ERROR;
    if (s.n < *length || get_le(s.p + 8, 8) != record_sum(s.p, body, r->salt) ||
        !body_read((struct slice){s.p + SPOOL_RECORD_MIN, body}, out))
        return SPOOL_END;
    return SPOOL_RECORD;
}

/* The offset of the next record's mark at or behind `at`; -1 when there is none. */
static enum spool_result mark_find(struct spool_reader *r, int64_t at, int64_t *found,
                                   struct err *err)
{
    *found = -1;
    for (;;) {
        struct slice s;
        if (!reader_fill(r, at, READ_STEP, &s, err))
            return SPOOL_ERROR;
        if (s.n < sizeof record_mark)
            return SPOOL_END;
        const char *p = memmem(s.p, s.n, record_mark, sizeof record_mark);
        if (p != NULL) {
            *found = at + (p - s.p);
            return SPOOL_RECORD;
        }
        at += (int64_t)(s.n - sizeof record_mark + 1);
    }
}

static enum spool_result header_read(struct spool_reader *r, struct err *err)
{
    struct slice s;
    if (r->has_salt)
        return SPOOL_RECORD;
    if (!reader_fill(r, 0, SPOOL_HEADER, &s, err))
        return SPOOL_ERROR;
    if (s.n < SPOOL_HEADER)
        return SPOOL_END;
    r->salt = get_le(s.p + sizeof file_mark, 8);
    r->has_salt = true;
    return SPOOL_RECORD;
}

enum spool_result spool_reader_next(struct spool_reader *r, struct spool_record *out, int64_t *torn,
                                    struct err *err)
{
    size_t length = 0;
    struct stat st;
    if (torn != NULL)
        *torn = 0;
    enum spool_result result = header_read(r, err);
    if (result == SPOOL_RECORD)
        result = record_at(r, r->at, out, &length, err);
    if (result == SPOOL_RECORD) {
        r->at += (int64_t)length;
        return result;
    }
    if (result == SPOOL_ERROR)
        return result;
    /* A writer's unfinished record looks like damage: judge only when nobody writes any more. */
    for (int64_t at = r->at + 1; r->owned; at++) {
        result = mark_find(r, at, &at, err);
        if (result == SPOOL_RECORD)
            result = record_at(r, at, out, &length, err);
        else
            break;
        if (result == SPOOL_RECORD) {
            r->skipped += at - r->at;
            r->at = at + (int64_t)length;
            return result;
        }
        if (result == SPOOL_ERROR)
            return result;
    }
    if (result == SPOOL_END && torn != NULL && fstat(r->fd, &st) == 0 && st.st_size > r->at)
        *torn = (int64_t)st.st_size - r->at;
    buf_clear(&r->window); /* it is read again when the writer has got further */
    return result;
}
