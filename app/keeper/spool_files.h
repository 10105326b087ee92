/* The files of the spool as one stream of records, and how far it has been drained. */
#ifndef KEEPER_SPOOL_FILES_H
#define KEEPER_SPOOL_FILES_H

#include "log/spool.h"

#include <sys/queue.h>

struct spool_file {
    TAILQ_ENTRY(spool_file) link;
    char name[SPOOL_NAME_SIZE];
    struct spool_reader reader;
    int64_t done; /* everything before it is drained */
    int64_t end;  /* of the batch being drained; done when it has none of this file */
    int64_t torn;
    struct spool_record head; /* the next record, when has_head */
    bool has_head, broken;
    int64_t counted_at; /* pending counts the records from done up to here */
    uint64_t pending;
    uint64_t taken; /* records of the batch */
};

struct spool_files {
    char dir[PATH_MAX];
    int lock_fd;                    /* whoever holds it drains */
    TAILQ_HEAD(, spool_file) files; /* oldest first */
    size_t count;
    struct uuid batch_id; /* names the batch, also after a restart */
    bool unsaved;         /* a commit that the journal does not know */
    bool redo; /* the journal names a batch that may be committed: take exactly that one */
};

/* Makes the directory when needed. */
MUST_CHECK bool spool_files_open(struct spool_files *s, const char *dir, struct err *err);
/* Takes the lock and reads the journal. False: somebody else drains this directory. */
MUST_CHECK bool spool_files_lock(struct spool_files *s);
/* Looks for new files; removes those that are drained and have no writer. */
void spool_files_scan(struct spool_files *s);

/* The next record over all files, oldest first; NULL when there is none (of the batch to redo). Its
 * bytes are valid until it is taken. */
struct spool_file *spool_files_peek(struct spool_files *s);
void spool_files_take(struct spool_file *f);

/* Makes what has been taken the batch: durable before anything of it is sent. */
MUST_CHECK bool spool_files_plan(struct spool_files *s, struct err *err);
/* The batch is committed. To be followed by the next plan, or else by a save. */
void spool_files_commit(struct spool_files *s);
MUST_CHECK bool spool_files_save(struct spool_files *s, struct err *err);

struct spool_counts {
    uint64_t pending, pending_bytes, failed_files, failed_bytes;
};
/* Looks at a bounded number of records at a time. */
void spool_files_count(struct spool_files *s, struct spool_counts *out);

void spool_files_close(struct spool_files *s);

#endif
