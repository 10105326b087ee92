/* What the parts of the FastCGI server share. Private to app/fcgi. */
#ifndef FCGI_PARTS_H
#define FCGI_PARTS_H

#include "fcgi/acceptor.h"
#include "fcgi/body_memory.h"
#include "fcgi/channel.h"
#include "fcgi/io_pool.h"
#include "fcgi/server.h"

/* Larger than a small body with its record headers and parameters. */
enum { FCGI_PREVIEW_BYTES = 131072 };

struct fcgi_server {
    struct loop *loop;
    struct fcgi_server_config config;
    struct handover handover; /* acceptor and I/O threads to the engine */
    struct io_pool pool;
    struct acceptor acceptor;
    struct body_memory memory;
    struct channel_queue connections; /* by channel.link: adopted and not closed */
    bool stopping;
    bool drained; /* reported */
    struct loop_task drained_task;
    unsigned char preview[FCGI_PREVIEW_BYTES];
};

/* After a connection was closed or the acceptor ended: reports drained() when nothing is left. */
void fcgi_server_check_drained(struct fcgi_server *s);

#endif
