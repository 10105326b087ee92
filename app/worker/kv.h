/* Key/value routes; called by routes.c. */
#ifndef WORKER_KV_H
#define WORKER_KV_H

#include "worker/worker.h"

void kv_handle_batch(struct worker *w, struct request *r);
/* ns and key come from the path, decoded; the key may hold slashes. */
void kv_handle_get(struct worker *w, struct request *r, struct slice ns, struct slice key);
void kv_handle_put(struct worker *w, struct request *r, struct slice ns, struct slice key);
void kv_handle_delete(struct worker *w, struct request *r, struct slice ns, struct slice key);
void kv_handle_namespaces(struct worker *w, struct request *r);
void kv_handle_list(struct worker *w, struct request *r);

#endif
