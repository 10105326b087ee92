#include "peer.h"
const struct peer peer_amqp = {.name = "amqp"};
