/* Cancelling a running statement without waiting for it. Private to app/pg. */
#ifndef PG_CANCEL_H
#define PG_CANCEL_H

#include <libpq-fe.h>

/* Asks the server to cancel what the connection runs. The connection may be closed at once. A
 * cancellation that cannot be sent is not an error: the statement then ends by itself. */
void cancel_send(PGconn *pg);

#endif
