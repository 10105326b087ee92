/* Other brokers as the scenarios see them: a session is one connection, a peer is the protocol that
 * it speaks. Queues are numbered; each is a stream or queue of its own at the broker, with one
 * consumer group. */
#ifndef PEERS_PEER_H
#define PEERS_PEER_H

#include "../bench.h"
#include "../window.h"

struct run;

/* One connection. The peer's read() reports through the session_* functions below. */
struct session {
    struct connection connection;
    struct run *run;
    int number;
    bool ready; /* the handshake is done */
    /* Called after what has arrived was read, once the session is ready. */
    void (*progress)(struct session *s);

    /* Requests without an answer: messages published and queues declared; acks of a consumer. */
    int unconfirmed;

    /* Of a producer. */
    uint64_t turn, sent_us;

    /* Of a consumer. */
    int queue;              /* the one that the next request is for */
    bool wait;              /* requests wait at the broker for messages */
    bool fetching, fetched; /* a request is open; and was answered in full */
    bool leaving, left;     /* see peer.leave */
    int got;                /* messages that the open request brought */
    int pending;            /* messages received and not acked */
    int acked;              /* messages that the last ack was for */
    int empty;              /* requests in a row that brought nothing */
    uint64_t fetch_sent_us;

    void *wire; /* of the protocol */
};

/* A protocol. The functions append to the connection's output; the scenario flushes it. */
struct peer {
    const char *name;
    bool subscribes; /* the broker sends without requests: a consumer keeps its queues */
    /* What a client says first. read() answers the rest of the handshake and sets ready. */
    void (*hello)(struct session *s);
    /* Makes a durable queue with its consumer group if it is not there; adds to unconfirmed. */
    void (*declare)(struct session *s, int queue);
    void (*publish)(struct session *s, int queue, struct slice payload);
    /* Asks for up to run->b->batch messages of s->queue. With peer.subscribes: for as many as
     * that at a time, acks make room for more; a consumer calls it once a queue. Acks of a
     * subscribing peer have no answer. */
    void (*fetch)(struct session *s);
    /* Acknowledges all messages not acked yet; adds the answers to come to unconfirmed. */
    void (*ack)(struct session *s);
    /* Ends a consumer in order, so that its acks have arrived; session_left() follows. NULL: its
     * acks are confirmed anyway. */
    void (*leave)(struct session *s);
    /* Reads one unit of the protocol at the start of `in`; returns its length, 0 = not complete. */
    size_t (*read)(struct session *s, struct slice in);
};
extern const struct peer peer_redis, peer_nats, peer_amqp;

/* A scenario over sessions. */
struct peer_scenario {
    const char *name;
    const char *help;
    void (*start)(struct run *run);
    /* The window is closed: is everything that was begun finished? */
    bool (*finished)(const struct run *run);
};
extern const struct peer_scenario peer_scenario_push, peer_scenario_cycle, peer_scenario_drain;

/* One run of the generator. */
struct run {
    struct bench bench;
    struct bench *b; /* it */
    const struct peer *peer;
    const struct peer_scenario *scenario;
    struct window window;
    struct loop_timer grace; /* for what is unfinished when the window closes */
    int warmup_s;
    struct session setup; /* declares the queues before the scenario starts */
    struct session *sessions;
    int count;       /* of sessions */
    uint64_t expect; /* messages to be consumed, 0 = unknown */
    /* Over the whole run, also outside of the window. */
    uint64_t published, confirmed, received, consumed;
};

/* Makes the run's sessions and starts their handshakes. */
void run_sessions(struct run *run, int count, void (*progress)(struct session *));
/* Stops the loop when the window is closed and the scenario has finished. */
void run_settle(struct run *run);

/* Connects and starts the handshake. */
void session_start(struct session *s, struct run *run, int number,
                   void (*progress)(struct session *));
/* The state machine of a consumer: its progress() when the handshake is done. */
void consumer_progress(struct session *s);

/* What read() reports: `count` requests were answered well; */
void session_confirmed(struct session *s, int count);
/* a request was answered by an error, or something else is wrong: counted, the first is printed; */
void session_failed(struct session *s, struct slice text);
/* a message arrived; */
void session_message(struct session *s, struct slice payload);
/* the open request is answered in full; */
void session_fetched(struct session *s);
/* the consumer has left. */
void session_left(struct session *s);

#endif
