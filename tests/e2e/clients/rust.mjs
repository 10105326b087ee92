// What the Rust client sends (absent optionals are left out, statuses are canonical words) and the
// types it decodes into: every key without optional() or defaulted() must be there.
import { bool, defaulted, integer, json, list, nullable, optional, string, struct, word } from './typed.mjs';

const pushResult = struct({
    index: integer,
    message_id: string,
    transaction_id: string,
    queueName: string,
    status: word('queued', 'duplicate', 'error', 'buffered', 'failed'),
    offset: optional(integer),
});

const message = struct({
    id: string,
    transactionId: string,
    data: json,
    createdAt: string,
    partitionId: string,
    partition: string,
    leaseId: string,
    consumerGroup: string,
    traceId: optional(string),
    producerSub: optional(string),
});

export const popResponse = struct({
    success: defaulted(bool, true),
    queue: defaulted(string, ''),
    partition: defaulted(string, ''),
    partitionId: defaulted(string, ''),
    leaseId: defaulted(string, ''),
    consumerGroup: defaulted(string, ''),
    messages: defaulted(list(message), []),
    partitionsClaimed: defaulted(integer, 0),
});

const ackResult = struct({
    index: integer,
    transactionId: string,
    success: bool,
    error: nullable(string),
    leaseReleased: bool,
    dlq: bool,
    noop: bool,
});

const transactionResponse = struct({
    transactionId: string,
    success: bool,
    error: optional(string),
    results: defaulted(list(struct({ index: integer, type: string })), []),
});

export class RustClient {
    /* queen: the fixture's raw client (lib/queen.mjs). */
    constructor(queen) {
        this.queen = queen;
    }

    async push(items) {
        const answer = await this.queen.post('/api/v1/push', { items });
        return list(pushResult)(answer.json, 'push');
    }

    /* A 204 is an answer of which everything has its default. */
    async pop(queue, parameters, options) {
        const answer = await this.queen.pop(queue, parameters, options);
        return popResponse(answer.body.length === 0 ? {} : answer.json, 'pop');
    }

    async ack(acknowledgments, consumerGroup) {
        const answer = await this.queen.post('/api/v1/ack/batch', { acknowledgments, ...(consumerGroup ? { consumerGroup } : {}) });
        return list(ackResult)(answer.json, 'ack');
    }

    async transaction(operations, requiredLeases = []) {
        const answer = await this.queen.post('/api/v1/transaction', { operations, requiredLeases });
        return transactionResponse(answer.json, 'transaction');
    }
}
