// The API under test as functions, and what most tests share: names of their own, waiting, exact
// shapes. Answers are never interpreted beyond JSON: tests look at status, headers and bytes.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import http from 'node:http';
import { after, before } from 'node:test';
import { startInstance } from './instance.mjs';

export const QUEUE_MODE = '__QUEUE_MODE__';
export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
export const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
export const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$/;
export const ZERO_UUID = '00000000-0000-0000-0000-000000000000';

export const ERROR_LEASE = 'invalid or expired lease';
export const ERROR_COMMITTED = 'already committed: the cursor moved past this message before this ack';
export const ERROR_UNRESOLVABLE =
    'unresolvable: transaction not in the ack window (hash purged or never pushed); if leased, the message redelivers';

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/* Calls fn until it gives a truthy value, and returns that. */
export async function until(fn, what, timeoutMs = 20000) {
    const deadline = Date.now() + timeoutMs;
    for (;;) {
        const value = await fn();
        if (value) return value;
        if (Date.now() > deadline) throw new Error(`did not happen within ${timeoutMs} ms: ${what}`);
        await sleep(50);
    }
}

/* A name that no other test uses. */
export function unique(prefix = 'q') {
    return `${prefix}-${randomBytes(6).toString('hex')}`;
}

export class Queen {
    constructor(instance) {
        this.instance = instance;
        this.url = new URL(instance.url);
        this.agent = new http.Agent({ keepAlive: true, maxSockets: Infinity });
    }

    close() {
        this.agent.destroy();
    }

    /* target goes out as it is: percent-encoding is the caller's business. body: string, Buffer, or
     * an iterable of chunks (sent chunked). signal: aborting it destroys the connection. */
    request(method, target, { headers = {}, body, signal, agent = this.agent } = {}) {
        return new Promise((resolve, reject) => {
            const sent = { ...headers };
            const chunks = body !== undefined && typeof body !== 'string' && !Buffer.isBuffer(body);
            if (body !== undefined && !chunks) sent['Content-Length'] = Buffer.byteLength(body);
            const request = http.request(
                { host: this.url.hostname, port: this.url.port, method, path: target, headers: sent, agent, signal },
                (response) => {
                    const parts = [];
                    response.on('data', (part) => parts.push(part));
                    response.on('error', reject);
                    response.on('end', () => resolve(new Answer(response, Buffer.concat(parts))));
                },
            );
            request.on('error', reject);
            if (chunks) {
                for (const chunk of body) request.write(chunk);
                request.end();
            } else request.end(body);
        });
    }

    get(target, options) {
        return this.request('GET', target, options);
    }

    post(target, body, options = {}) {
        return this.request('POST', target, {
            ...options,
            headers: { 'Content-Type': 'application/json', ...options.headers },
            body: typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body),
        });
    }

    pushItems(items) {
        return this.post('/api/v1/push', { items });
    }

    /* Pushes one message per transaction id (payload {"t": id}) and expects all of them queued. */
    async push(queue, transactionIds, partition = 'Default') {
        const items = transactionIds.map((t) => ({ queue, partition, transactionId: t, payload: { t } }));
        const answer = await this.pushItems(items);
        assert.equal(answer.status, 201, answer.text);
        assert.deepEqual(answer.json.map((r) => r.status), transactionIds.map(() => 'queued'), answer.text);
        return answer.json;
    }

    pop(queue, parameters = {}, options) {
        return this.get(`/api/v1/pop/queue/${encodeURIComponent(queue)}${query(parameters)}`, options);
    }

    popPartition(queue, partition, parameters = {}, options) {
        const target = `/api/v1/pop/queue/${encodeURIComponent(queue)}/partition/${encodeURIComponent(partition)}`;
        return this.get(`${target}${query(parameters)}`, options);
    }

    popDiscover(parameters, options) {
        return this.get(`/api/v1/pop${query(parameters)}`, options);
    }

    /* A pop that must deliver exactly these transaction ids, in this order. Waits for them up to
     * waitMs (0: they must be there at once). */
    async take(queue, transactionIds, parameters = {}, { waitMs = 0 } = {}) {
        const waiting = waitMs > 0 ? { wait: true, timeout: waitMs } : {};
        const answer = await this.pop(queue, { ...waiting, ...parameters });
        assert.equal(answer.status, 200, `pop of ${queue} gave ${answer.status} ${answer.text}, expected ${transactionIds}`);
        assert.deepEqual(answer.json.messages.map((m) => m.transactionId), transactionIds);
        return new Batch(this, answer.json);
    }

    async nothing(queue, parameters = {}) {
        const answer = await this.pop(queue, parameters);
        assert.equal(answer.status, 204, `pop of ${queue} gave ${answer.status} ${answer.text}, expected 204`);
    }

    ack(item, options) {
        return this.post('/api/v1/ack', item, options);
    }

    ackBatch(acknowledgments, consumerGroup, options) {
        return this.post('/api/v1/ack/batch', { consumerGroup, acknowledgments }, options);
    }

    extend(leaseId, body = '{}') {
        return this.post(`/api/v1/lease/${encodeURIComponent(leaseId)}/extend`, body);
    }

    async configure(queue, options = {}, rest = {}) {
        const answer = await this.post('/api/v1/configure', { queue, options, ...rest });
        assert.equal(answer.status, 200, answer.text);
        return answer.json;
    }

    delete(queue) {
        return this.request('DELETE', `/api/v1/resources/queues/${encodeURIComponent(queue)}`);
    }

    dlq(parameters) {
        return this.get(`/api/v1/dlq${query(parameters)}`);
    }

    /* The counters of all processes of the instance, summed (app/shm/counters.def). */
    async counters() {
        return (await this.status()).counters;
    }

    async status() {
        return JSON.parse(await this.instance.queenctl('status', '--json'));
    }
}

/* A delivered batch and the acks of it. */
export class Batch {
    constructor(queen, json) {
        this.queen = queen;
        this.json = json;
        this.messages = json.messages;
        this.leaseId = json.leaseId;
        this.partitionId = json.partitionId;
        this.consumerGroup = json.consumerGroup;
    }

    /* Acknowledges in one call: [[transactionId, status, error], ...]; extra replaces keys of every item. */
    async ack(marks, extra = {}) {
        const items = marks.map(([transactionId, status, error]) => {
            const message = this.messages.find((m) => m.transactionId === transactionId);
            const item = { transactionId, partitionId: message?.partitionId ?? this.partitionId, leaseId: this.leaseId };
            if (status !== undefined) item.status = status;
            if (error !== undefined) item.error = error;
            return { ...item, ...extra };
        });
        const answer = await this.queen.ackBatch(items, this.consumerGroup);
        assert.equal(answer.status, 200, answer.text);
        assertAckShape(answer, items);
        return answer.json;
    }

    /* Waits until the lease is over by the database's clock. */
    async expired() {
        await until(async () => {
            const live = await this.queen.instance.psql(
                `select count(*) from queen.log_consumers where worker_id = '${this.leaseId}' and lease_expires_at >= clock_timestamp()`);
            return String(live).trim() === '0';
        }, 'the lease expires');
    }

    /* Completes every message and expects it to work. */
    async complete() {
        const results = await this.ack(this.messages.map((m) => [m.transactionId, 'completed']));
        for (const r of results) assert.deepEqual([r.success, r.error], [true, null]);
        return results;
    }
}

export class Answer {
    constructor(response, body) {
        this.status = response.statusCode;
        this.headers = response.headers;
        this.rawHeaders = response.rawHeaders;
        this.body = body;
    }

    get text() {
        return this.body.toString('utf8');
    }

    get json() {
        try {
            return JSON.parse(this.text);
        } catch (error) {
            throw new Error(`answer ${this.status} is not JSON (${error.message}): ${this.text.slice(0, 300)}`);
        }
    }
}

export function query(parameters) {
    const pairs = Object.entries(parameters).filter(([, v]) => v !== undefined);
    if (pairs.length === 0) return '';
    return `?${pairs.map(([k, v]) => `${encodeURIComponent(k)}=${encodeURIComponent(v)}`).join('&')}`;
}

export const ACK_KEYS = ['index', 'transactionId', 'success', 'error', 'leaseReleased', 'dlq', 'noop'];

/* One element per item in request order, with exactly the contract's keys in its order. */
export function assertAckShape(answer, items) {
    assert.match(answer.headers['content-type'], /^application\/json/);
    const results = answer.json;
    assert.ok(Array.isArray(results), answer.text);
    assert.equal(results.length, items.length);
    results.forEach((result, i) => {
        assert.deepEqual(Object.keys(result), ACK_KEYS);
        assert.equal(result.index, i);
        assert.equal(result.transactionId, items[i].transactionId);
        assert.equal(typeof result.success, 'boolean');
        assert.equal(typeof result.leaseReleased, 'boolean');
        assert.equal(typeof result.dlq, 'boolean');
        assert.equal(typeof result.noop, 'boolean');
        if (result.success) assert.equal(result.error, null);
        else assert.ok(typeof result.error === 'string' && result.error !== '', answer.text);
    });
}

/* {"error": "..."} as JSON, with this status, naming what it is about. */
export function assertError(answer, status, pattern) {
    assert.equal(answer.status, status, `${answer.status} ${answer.text.slice(0, 300)}`);
    assert.match(answer.headers['content-type'] ?? '', /^application\/json/);
    assert.equal(typeof answer.json.error, 'string', answer.text);
    if (pattern) assert.match(answer.json.error, pattern);
}

/* Gives every test of a file the shared instance (QUEEN_TEST_URL and QUEEN_TEST_RUN_DIR, when a
 * runner started one) or one of the file's own with these settings. */
export function useQueen(settings) {
    const context = {};
    before(async () => {
        context.instance = await startInstance(settings ?? { shared: true });
        context.queen = new Queen(context.instance);
    }, { timeout: 120000 });
    after(async () => {
        context.queen?.close();
        await context.instance?.stop();
    }, { timeout: 60000 });
    return context;
}
