/* The push spool: messages that PostgreSQL could not take yet, in append-only files of one
 * directory per host.
 *
 * File, little-endian: "QUEENSP1" | u64 salt | records.
 * Record: u32 mark | u32 body length | u64 XXH3 of length and body, seeded with the file's salt
 *   | body: i64 time | 16 B message id | u16 queue | u16 partition | u16 transaction id (lengths)
 *   | queue | partition | transaction id | payload
 * The salt is random: no payload can hold bytes that pass for a record of its file.
 *
 * A file belongs to its writer while that holds flock(2) on it; the kernel drops the lock when the
 * writer dies. Whoever holds the lock may delete the file. Names sort by age. */
#ifndef LOG_SPOOL_H
#define LOG_SPOOL_H

#include "base/buf.h"
#include "base/settings.h"
#include "base/uuid.h"

#include <limits.h>

#define SPOOL_SUFFIX     ".spool"
#define SPOOL_NAME_SIZE  64
#define SPOOL_HEADER     16 /* of a file */
#define SPOOL_RECORD_MIN 16 /* header of a record */
/* A longer body is damage: the largest request body and its names are far below. */
#define SPOOL_BODY_MAX (1200u * 1024u * 1024u)

struct spool_record {
    int64_t time_us; /* clock_wall_us() when it was accepted */
    struct uuid message_id;
    struct slice queue, partition, transaction_id; /* at most 65535 bytes each: dies otherwise */
    struct slice payload;
};

/* Appends the record, not sealed yet: the writer does that. */
void spool_put(struct buf *out, const struct spool_record *record);

/* Writes one file after the other. One thread. */
struct spool_writer {
    char dir[PATH_MAX];
    int fd; /* -1 = no file open */
    uint64_t salt;
    int64_t size;    /* of what is durable */
    int64_t last_us; /* of the newest file's name */
};

/* dir is made when it is not there (0700). Nothing is opened yet. */
MUST_CHECK bool spool_writer_open(struct spool_writer *w, const char *dir, struct err *err);
/* Makes records (from spool_put) durable: all of them or, with err, none. After a failure the next
 * call begins a new file, so that what is durable is never written over. Changes the bytes. */
MUST_CHECK bool spool_writer_append(struct spool_writer *w, struct buf *records, struct err *err);
/* Ends the current file, if there is one: whoever drains may delete it then. */
void spool_writer_close(struct spool_writer *w);

/* Reads one file from any record's offset on. */
struct spool_reader {
    int fd;
    bool owned; /* no writer any more: this process holds the lock, the file does not grow */
    bool has_salt;
    uint64_t salt;
    int64_t at;      /* where the next record begins */
    int64_t skipped; /* bytes of damage between records so far */
    struct buf window;
    int64_t window_at; /* offset of the window's first byte */
};

enum spool_result {
    SPOOL_RECORD, /* one record; its slices are valid until the next call */
    SPOOL_END,    /* no further whole record (now, unless owned) */
    SPOOL_ERROR,  /* the file cannot be read */
};

/* Opens for reading and takes the lock when no writer has it. False with err when it cannot be
 * read; a file without a whole header reads as empty, one with a foreign header as all damage. */
MUST_CHECK bool spool_reader_open(struct spool_reader *r, const char *path, struct err *err);
/* Tries again to become the owner; true when it is. */
bool spool_reader_own(struct spool_reader *r);
void spool_reader_seek(struct spool_reader *r, int64_t at);
/* The next record; damage before it is skipped when the file is owned. A tail without a whole
 * record is the end: *torn (may be NULL) says how many bytes it has. */
MUST_CHECK enum spool_result spool_reader_next(struct spool_reader *r, struct spool_record *out,
                                               int64_t *torn, struct err *err);
/* Whether a whole record seems to begin at *at, by its header alone; moves *at behind it. For
 * counting. */
MUST_CHECK bool spool_reader_hop(const struct spool_reader *r, int64_t size, int64_t *at);
/* Gives the lock back. */
void spool_reader_close(struct spool_reader *r);

/* FILE_BUFFER_DIR, else "<run_dir>/spool". */
void spool_path(const struct settings *settings, char *out, size_t size);

/* Makes a rename or a removal in the directory durable. */
MUST_CHECK bool spool_sync_dir(const char *dir, struct err *err);

#endif
