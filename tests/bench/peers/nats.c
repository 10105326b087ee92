#include "peer.h"
const struct peer peer_nats = {.name = "nats"};
