// What the Go client sends (escaped path segments, booleans as words, stats/refresh without a body)
// and decodes: typed structs with RFC 3339 times, payloads that old versions wrap into objects.
import { bool, defaulted, integer, json, list, nullable, optional, rfc3339, string, struct } from './typed.mjs';

const message = struct({
    id: string,
    transactionId: string,
    traceId: optional(string),
    partitionId: string,
    partition: string,
    leaseId: string,
    consumerGroup: string,
    queue: optional(string),
    data: json,
    createdAt: rfc3339,
    errorMessage: optional(string),
    retryCount: optional(integer),
    producerSub: optional(string),
});

const popResponse = struct({
    messages: list(message),
    conflation: optional(bool),
    conflationConflict: optional(bool),
    autopilot: optional(struct({ partitions: integer, batch: integer, waitMs: integer })),
});

const deadLetters = struct({
    messages: list(struct({ id: string, transactionId: string, partitionId: string, queue: string, partition: string, consumerGroup: string, errorMessage: optional(string), retryCount: integer, data: json, createdAt: rfc3339, failedAt: rfc3339 })),
    total: integer,
});

const renewal = struct({ leaseId: string, success: bool, newExpiresAt: nullable(rfc3339) });

const depth = struct({ pending: integer, processing: defaulted(integer, 0), ready: defaulted(integer, 0), partitionsPending: integer, conflation: defaulted(bool, false), effectivePending: defaulted(integer, 0) });

export class GoClient {
    /* queen: the fixture's raw client (lib/queen.mjs). */
    constructor(queen) {
        this.queen = queen;
    }

    /* A payload that is no object is wrapped, as old versions do. */
    push(queue, payloads, partition) {
        const items = payloads.map((p, i) => ({
            queue,
            ...(partition === undefined ? {} : { partition }),
            payload: p !== null && typeof p === 'object' && !Array.isArray(p) ? p : { data: p },
            transactionId: `go-${i}`,
        }));
        return this.queen.post('/api/v1/push', { items });
    }

    async pop(queue, parameters) {
        const answer = await this.queen.pop(queue, parameters);
        return answer.status === 204 ? { messages: [] } : popResponse(answer.json, 'pop');
    }

    async popPartition(queue, partition, parameters) {
        const answer = await this.queen.popPartition(queue, partition, parameters);
        return answer.status === 204 ? { messages: [] } : popResponse(answer.json, 'pop');
    }

    async renew(leaseId) {
        return renewal((await this.queen.post(`/api/v1/lease/${encodeURIComponent(leaseId)}/extend`, '{}')).json, 'renew');
    }

    configure(body) {
        return this.queen.post('/api/v1/configure', body);
    }

    async depth(queue, group) {
        const query = group === undefined ? '' : `?group=${encodeURIComponent(group)}`;
        return depth((await this.queen.get(`/api/v1/resources/queues/${encodeURIComponent(queue)}/depth${query}`)).json, 'depth');
    }

    async dlq(parameters) {
        return deadLetters((await this.queen.dlq(parameters)).json, 'dlq');
    }

    seekPartition(group, queue, partition, body) {
        const path = ['consumer-groups', group, 'queues', queue, 'partitions', partition, 'seek'].map(encodeURIComponent).join('/');
        return this.queen.post(`/api/v1/${path}`, body);
    }

    seek(group, queue, body) {
        return this.queen.post(`/api/v1/consumer-groups/${encodeURIComponent(group)}/queues/${encodeURIComponent(queue)}/seek`, body);
    }

    message(partitionId, transactionId) {
        return this.queen.get(`/api/v1/messages/${partitionId}/${encodeURIComponent(transactionId)}`);
    }
}
