/* The files of the spool. Records of all files are merged by their time, so that what one client
 * pushed through several workers stays in order. The journal names the batch before it is sent: a
 * keeper that dies anywhere sends exactly the same batch again, under the same request id. */
#include "keeper/spool_files.h"

#include "base/logger.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OPEN_MAX_FILES = 256, /* open at a time, the oldest: more than there are workers to write */
    COUNT_MAX = 20000,    /* records looked at in one count */
    PATH_SIZE = PATH_MAX + SPOOL_NAME_SIZE + 16,
};

#define JOURNAL      "drain"
#define JOURNAL_NEXT "drain.next"
#define FAILED       "failed"

static void path_of(const struct spool_files *s, const char *name, char out[PATH_SIZE])
{
    (void)snprintf(out, PATH_SIZE, "%s/%s", s->dir, name);
}

bool spool_files_open(struct spool_files *s, const char *dir, struct err *err)
{
    struct spool_writer probe;
    char failed[PATH_SIZE];
    *s = (struct spool_files){.lock_fd = -1};
    TAILQ_INIT(&s->files);
    if (!spool_writer_open(&probe, dir, err))
        return false;
    memcpy(s->dir, dir, strlen(dir) + 1);
    path_of(s, FAILED, failed);
    return spool_writer_open(&probe, failed, err);
}

static struct spool_file *file_find(struct spool_files *s, const char *name)
{
    struct spool_file *f;
    TAILQ_FOREACH(f, &s->files, link)
    if (strcmp(f->name, name) == 0)
        return f;
    return NULL;
}

static void file_drop(struct spool_files *s, struct spool_file *f)
{
    TAILQ_REMOVE(&s->files, f, link);
    s->count--;
    spool_reader_close(&f->reader);
    free(f);
}

/* Keeps the list sorted; an older file than all that are open may come late. */
static struct spool_file *file_add(struct spool_files *s, const char *name)
{
    char path[PATH_SIZE];
    struct err err;
    struct spool_file *f = mem_zalloc(sizeof *f), *before;
    (void)snprintf(f->name, sizeof f->name, "%s", name);
    path_of(s, name, path);
    if (!spool_reader_open(&f->reader, path, &err)) {
        if (errno != ENOENT)
            logger_error("spool", "%s", err.text);
        free(f);
        return NULL;
    }
    f->done = f->end = f->counted_at = SPOOL_HEADER;
    TAILQ_FOREACH(before, &s->files, link)
    if (strcmp(before->name, name) > 0)
        break;
    if (before != NULL)
        TAILQ_INSERT_BEFORE(before, f, link);
    else
        TAILQ_INSERT_TAIL(&s->files, f, link);
    s->count++;
    return f;
}

static bool journal_line(struct spool_files *s, const char *line)
{
    char name[SPOOL_NAME_SIZE];
    int64_t done, end;
    if (sscanf(line, "%63s %" SCNd64 " %" SCNd64, name, &done, &end) != 3 || done < SPOOL_HEADER ||
        end < done)
        return false;
    struct spool_file *f = file_find(s, name);
    if (f == NULL)
        f = file_add(s, name);
    if (f == NULL)
        return true; /* drained and deleted before the journal was written anew */
    f->done = f->counted_at = done;
    f->end = end;
    s->redo |= end > done;
    spool_reader_seek(&f->reader, done);
    return true;
}

static void journal_read(struct spool_files *s)
{
    char path[PATH_SIZE], line[256];
    path_of(s, JOURNAL, path);
    FILE *in = fopen(path, "re");
    if (in == NULL)
        return;
    bool ok = fgets(line, sizeof line, in) != NULL &&
              uuid_parse((struct slice){line, strcspn(line, "\n")}, &s->batch_id);
    while (ok && fgets(line, sizeof line, in) != NULL)
        ok = journal_line(s, line);
    (void)fclose(in);
    if (!ok)
        logger_error("spool", "%s cannot be read: some messages may be sent twice", path);
}

bool spool_files_lock(struct spool_files *s)
{
    if (s->lock_fd >= 0)
        return true;
    int fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (fd >= 0)
            (void)close(fd);
        return false;
    }
    s->lock_fd = fd;
    journal_read(s);
    return true;
}

/* A drained file without a writer: deleted, or kept aside when parts of it were damaged. */
static void file_finish(struct spool_files *s, struct spool_file *f)
{
    char path[PATH_SIZE], aside[PATH_SIZE];
    path_of(s, f->name, path);
    if (f->torn > 0)
        logger_warn("spool", "%s ends with %" PRId64 " bytes of an unfinished record", f->name,
                    f->torn);
    if (f->reader.skipped > 0) {
        (void)snprintf(aside, sizeof aside, "%s/" FAILED "/%s", s->dir, f->name);
        logger_error("spool", "%s has %" PRId64 " damaged bytes, all else was stored: kept as %s",
                     f->name, f->reader.skipped, aside);
        (void)rename(path, aside);
    } else {
        (void)unlink(path);
    }
    file_drop(s, f);
}

static int name_order(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void files_find_new(struct spool_files *s)
{
    DIR *d = opendir(s->dir);
    char(*names)[SPOOL_NAME_SIZE] = NULL;
    size_t count = 0, cap = 0;
    if (d == NULL)
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        size_t n = strlen(e->d_name), suffix = sizeof SPOOL_SUFFIX - 1;
        if (n <= suffix || n >= SPOOL_NAME_SIZE ||
            strcmp(e->d_name + n - suffix, SPOOL_SUFFIX) != 0 || file_find(s, e->d_name) != NULL)
            continue;
        if (count == cap) {
            cap = cap == 0 ? 16 : 2 * cap;
            names = mem_realloc(names, cap * sizeof *names);
        }
        memcpy(names[count++], e->d_name, n + 1);
    }
    (void)closedir(d);
    if (count > 1)
        qsort(names, count, sizeof *names, name_order);
    for (size_t i = 0; i < count && s->count < OPEN_MAX_FILES; i++)
        (void)file_add(s, names[i]);
    free(names);
}

/* Reads the file's next record ahead. */
static bool file_head(struct spool_file *f)
{
    struct err err;
    if (f->has_head || f->broken)
        return f->has_head;
    switch (spool_reader_next(&f->reader, &f->head, &f->torn, &err)) {
    case SPOOL_RECORD:
        f->has_head = true;
        break;
    case SPOOL_ERROR:
        logger_error("spool", "%s: %s; it is left alone until the keeper starts again", f->name,
                     err.text);
        f->broken = true;
        break;
    default:
        break;
    }
    return f->has_head;
}

void spool_files_scan(struct spool_files *s)
{
    struct spool_file *f, *next;
    for (f = TAILQ_FIRST(&s->files); f != NULL; f = next) {
        next = TAILQ_NEXT(f, link);
        /* The lock first: what a writer wrote before it ended is seen afterwards. */
        if (f->end == f->done && !f->broken && spool_reader_own(&f->reader) && !file_head(f))
            file_finish(s, f);
    }
    files_find_new(s);
}

struct spool_file *spool_files_peek(struct spool_files *s)
{
    struct spool_file *f, *first = NULL;
    TAILQ_FOREACH(f, &s->files, link)
    {
        /* With a head, the reader stands behind it. */
        if ((s->redo && !f->has_head && f->reader.at >= f->end) || !file_head(f) ||
            (s->redo && f->reader.at > f->end))
            continue;
        if (first == NULL || f->head.time_us < first->head.time_us)
            first = f;
    }
    return first;
}

void spool_files_take(struct spool_file *f)
{
    f->has_head = false;
    f->taken++;
    if (f->reader.at > f->end)
        f->end = f->reader.at;
}

static void journal_print(const struct spool_files *s, FILE *out)
{
    char id[UUID_TEXT_SIZE];
    const struct spool_file *f;
    uuid_format(&s->batch_id, id);
    (void)fprintf(out, "%.*s\n", UUID_TEXT_SIZE, id);
    TAILQ_FOREACH(f, &s->files, link)
    if (f->end > SPOOL_HEADER)
        (void)fprintf(out, "%s %" PRId64 " %" PRId64 "\n", f->name, f->done, f->end);
}

static bool journal_write(struct spool_files *s, struct err *err)
{
    char path[PATH_SIZE], next[PATH_SIZE];
    path_of(s, JOURNAL, path);
    path_of(s, JOURNAL_NEXT, next);
    FILE *out = fopen(next, "we");
    if (out == NULL)
        return err_set(err, "%s: %s", next, strerror(errno));
    journal_print(s, out);
    bool ok = fflush(out) == 0 && fdatasync(fileno(out)) == 0;
    ok = fclose(out) == 0 && ok && rename(next, path) == 0;
    s->unsaved &= !ok;
    return ok ? spool_sync_dir(s->dir, err) : err_set(err, "%s: %s", path, strerror(errno));
}

bool spool_files_plan(struct spool_files *s, struct err *err)
{
    if (s->redo)
        return true; /* it is in the journal, under this id */
    s->batch_id = uuid_v7();
    return journal_write(s, err);
}

bool spool_files_save(struct spool_files *s, struct err *err)
{
    return !s->unsaved || journal_write(s, err);
}

void spool_files_commit(struct spool_files *s)
{
    struct spool_file *f;
    s->redo = false;
    s->unsaved = true;
    TAILQ_FOREACH(f, &s->files, link)
    {
        f->done = f->end;
        f->pending = f->pending > f->taken ? f->pending - f->taken : 0;
        f->taken = 0;
        if (f->counted_at <= f->done) {
            f->counted_at = f->done;
            f->pending = 0;
        }
    }
}

static void failed_count(const struct spool_files *s, struct spool_counts *out)
{
    char path[PATH_SIZE];
    path_of(s, FAILED, path);
    DIR *d = opendir(path);
    if (d == NULL)
        return;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        struct stat st;
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        out->failed_files++;
        out->failed_bytes += (uint64_t)st.st_size;
    }
    (void)closedir(d);
}

void spool_files_count(struct spool_files *s, struct spool_counts *out)
{
    struct spool_file *f;
    int looked = 0;
    *out = (struct spool_counts){0};
    TAILQ_FOREACH(f, &s->files, link)
    {
        struct stat st;
        if (fstat(f->reader.fd, &st) != 0)
            continue;
        while (looked < COUNT_MAX && spool_reader_hop(&f->reader, st.st_size, &f->counted_at)) {
            f->pending++;
            looked++;
        }
        out->pending += f->pending;
        if (st.st_size > f->done)
            out->pending_bytes += (uint64_t)(st.st_size - f->done);
    }
    failed_count(s, out);
}

void spool_files_close(struct spool_files *s)
{
    struct spool_file *f;
    while ((f = TAILQ_FIRST(&s->files)) != NULL)
        file_drop(s, f);
    if (s->lock_fd >= 0)
        (void)close(s->lock_fd);
}
