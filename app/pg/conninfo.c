/* Starting a connection: defaults, the operator's string, what we insist on, rotation of hosts. */
#include "pg/conninfo.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

static size_t list_length(const char *list)
{
    size_t n = 1;
    for (; *list != '\0'; list++)
        n += *list == ',';
    return n;
}

/* Appends element `index` of a comma-separated list. */
static void list_element(struct buf *out, const char *list, size_t index)
{
    while (index-- > 0)
        list = strchr(list, ',') + 1;
    buf_put(out, list, strcspn(list, ","));
}

/* The list, beginning with element `first`; NUL-terminated. */
static void list_rotate(struct buf *out, const char *list, size_t first)
{
    size_t n = list_length(list);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            buf_putc(out, ',');
        list_element(out, list, (first + i) % n);
    }
    buf_putc(out, '\0');
}

struct keywords {
    const char *names[16], *values[16];
    size_t count;
};

static void keyword_add(struct keywords *k, const char *name, const char *value)
{
    k->names[k->count] = name;
    k->values[k->count++] = value;
}

static const char *option_value(const PQconninfoOption *options, const char *keyword)
{
    for (const PQconninfoOption *o = options; o->keyword != NULL; o++)
        if (strcmp(o->keyword, keyword) == 0)
            return o->val != NULL && *o->val != '\0' ? o->val : NULL;
    return NULL;
}

/* host, hostaddr and port are parallel lists; a single port stands for all. A list of ports without
 * hosts is left alone: libpq refuses it with a text of its own. */
static void hosts_rotate(struct keywords *k, const PQconninfoOption *options, unsigned first,
                         struct buf rotated[3])
{
    static const char *const lists[] = {"host", "hostaddr", "port"};
    const char *host = option_value(options, "host");
    const char *hostaddr = option_value(options, "hostaddr");
    size_t n = host != NULL ? list_length(host) : hostaddr != NULL ? list_length(hostaddr) : 1;
    if (n == 1 || first % n == 0)
        return;
    for (size_t i = 0; i < 3; i++) {
        const char *list = option_value(options, lists[i]);
        if (list == NULL || list_length(list) != n)
            continue;
        list_rotate(&rotated[i], list, first % n);
        keyword_add(k, lists[i], rotated[i].p);
    }
}

PGconn *pg_connect_start(const char *conninfo, const char *application_name, unsigned first_host,
                         struct err *err)
{
    PQconninfoOption *options = NULL;
    bool is_string = strchr(conninfo, '=') != NULL || strstr(conninfo, "://") != NULL;
    if (is_string && (options = PQconninfoParse(conninfo, NULL)) == NULL) {
        (void)err_set(err, "the connection string cannot be parsed");
        return NULL;
    }
    struct keywords k = {.count = 0};
    struct buf rotated[3] = {{0}};
    /* libpq: later keywords win. A peer that has gone without a word is noticed within 20 s. */
    keyword_add(&k, "keepalives_idle", "10");
    keyword_add(&k, "keepalives_interval", "5");
    keyword_add(&k, "keepalives_count", "2");
    keyword_add(&k, "tcp_user_timeout", "20000");
    keyword_add(&k, "dbname", conninfo);
    keyword_add(&k, "application_name", application_name);
    keyword_add(&k, "client_encoding", "UTF8");
    if (options != NULL)
        hosts_rotate(&k, options, first_host, rotated);
    PGconn *pg = PQconnectStartParams(k.names, k.values, 1);
    if (pg == NULL)
        die("out of memory for a database connection");
    PQconninfoFree(options);
    for (size_t i = 0; i < 3; i++)
        buf_free(&rotated[i]);
    return pg;
}
