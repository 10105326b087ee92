/* One blocking database connection for a command. */
#include "ctl/ctl.h"

#include "base/logger.h"

#include <string.h>

enum { OLDEST_SERVER = 140000 }; /* as PQserverVersion() counts */

static void connect_notice(void *ignored, const PGresult *r)
{
    (void)ignored;
    const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    logger_info("database", "%s", text != NULL ? text : "(no text)");
}

PGconn *ctl_connect(const struct settings *settings, struct err *err)
{
    const char *url = settings->database_url;
    PQconninfoOption *parsed = NULL;
    /* libpq's own message would quote the string, and with it a password. */
    if ((strchr(url, '=') != NULL || strstr(url, "://") != NULL) &&
        (parsed = PQconninfoParse(url, NULL)) == NULL) {
        (void)err_set(err, "QUEEN_DATABASE_URL cannot be parsed");
        return NULL;
    }
    PQconninfoFree(parsed);
    const char *names[] = {"connect_timeout", "dbname", "application_name", "client_encoding",
                           NULL};
    const char *values[] = {"5", url, "queenctl", "UTF8", NULL};
    PGconn *pg = PQconnectdbParams(names, values, 1);
    if (pg == NULL)
        die("out of memory for a database connection");
    if (PQstatus(pg) != CONNECTION_OK) {
        (void)err_set(err, "%s", PQerrorMessage(pg));
        PQfinish(pg);
        return NULL;
    }
    if (PQserverVersion(pg) < OLDEST_SERVER) {
        (void)err_set(err, "PostgreSQL %s is too old: %d or later is needed",
                      PQparameterStatus(pg, "server_version"), OLDEST_SERVER / 10000);
        PQfinish(pg);
        return NULL;
    }
    PQsetNoticeReceiver(pg, connect_notice, NULL);
    return pg;
}
