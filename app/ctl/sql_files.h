/* The files of sql/, compiled into queenctl: a release is one binary, and cannot meet the SQL of
 * another release. */
#ifndef CTL_SQL_FILES_H
#define CTL_SQL_FILES_H

struct sql_file {
    const char *path; /* below sql/: "migrations/0001_tables.sql", "functions/log_pop_v1.sql" */
    const char *text;
};

/* Ends with a NULL path. */
extern const struct sql_file sql_files[];

#endif
