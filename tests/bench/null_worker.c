/* The FastCGI ceiling: our server library with a handler that answers at once. Started like a
 * worker, with the listening socket as standard input. */
#include "base/logger.h"
#include "fcgi/server.h"

#include <stdlib.h>

static void null_handle(struct request *r, void *owner)
{
    struct buf body = {0};
    (void)owner;
    BUF_PUT_LITERAL(&body, "{\"status\":\"ok\"}");
    request_answer(r, 200, NULL, (struct slice){0}, &body);
}

int main(void)
{
    struct err err;
    struct loop *loop = loop_new();
    struct fcgi_server *server;
    struct fcgi_server_config config = {.listen_fd = 0,
                                        .io_threads = 1,
                                        .max_body_bytes = 1 << 20,
                                        .max_connections = 4096,
                                        .max_body_memory = 64 << 20,
                                        .handle = null_handle};
    logger_init("null-worker", LOGGER_WARN);
    if (!fcgi_server_start(loop, &config, &server, &err)) {
        logger_error("null-worker", "%s", err.text);
        return EXIT_FAILURE;
    }
    loop_run(loop);
    return EXIT_SUCCESS;
}
