// What a JavaScript application of the 1.x client sends, and how it reads the answers. Transport is
// Node's fetch, that is undici, as in that client: strict about 204, keeps connections for 4 s.
import { randomUUID } from 'node:crypto';

const TRIES = 3;
const OVERLOAD_TRIES = 10;

export class RequestError extends Error {
    constructor(message, status, code, retryAfter) {
        super(message);
        this.status = status;
        this.code = code;
        this.retryAfter = retryAfter; // seconds, NaN when not numeric
    }
}

export class JsClient {
    /* retryDelayMs: the first pause after a 5xx or a broken connection, doubled for the next. */
    constructor(url, { headers = {}, retryDelayMs = 1000 } = {}) {
        this.url = url;
        this.headers = headers;
        this.retryDelayMs = retryDelayMs;
        this.admin = new Admin(this);
    }

    async once(method, path, body, timeoutMs) {
        const response = await fetch(this.url + path, {
            method,
            headers: { 'Content-Type': 'application/json', ...this.headers },
            body: body ? JSON.stringify(body) : undefined,
            signal: AbortSignal.timeout(timeoutMs),
        });
        if (response.status === 204) return null;
        if (!response.ok) throw await readError(response);
        if (response.headers.get('content-length') === '0') return null;
        if ((response.headers.get('content-type') ?? '').includes('application/json')) return response.json();
        return parsed(await response.text());
    }

    /* waiting: a long poll, which is patient with 429. */
    async request(method, path, body, { timeoutMs = 30000, waiting = false } = {}) {
        let failures = 0, overloads = 0;
        for (;;) {
            try {
                return await this.once(method, path, body, timeoutMs);
            } catch (error) {
                if (error.status === 429) {
                    if (!waiting && ++overloads >= OVERLOAD_TRIES) throw error;
                    await pause(Number.isFinite(error.retryAfter) ? error.retryAfter * 1000 : Math.min(500 * 2 ** overloads, 30000));
                    continue;
                }
                if (error.status < 500 || error.name === 'TimeoutError' || ++failures >= TRIES) throw error;
                await pause(this.retryDelayMs * 2 ** (failures - 1));
            }
        }
    }

    get(path) {
        return this.request('GET', path);
    }

    post(path, body) {
        return this.request('POST', path, body);
    }

    delete(path) {
        return this.request('DELETE', path);
    }

    // Queues

    async createQueue(queue, options = {}, { namespace = null, task = null } = {}) {
        return thrownIfError(await this.post('/api/v1/configure', { queue, namespace, task, options }));
    }

    async deleteQueue(queue) {
        return thrownIfError(await this.delete(`/api/v1/resources/queues/${encodeURIComponent(queue)}`));
    }

    /* Any failure reads as an empty list. */
    async dlq(queue, { consumerGroup, partition, limit = 100, offset = 0, from, to } = {}) {
        try {
            return await this.get(`/api/v1/dlq?${parameters({ queue, consumerGroup, partition, limit, offset, from, to })}`);
        } catch {
            return { messages: [], total: 0 };
        }
    }

    // Messages

    /* items: payloads, or {data, transactionId, traceId}. Counts what the client counts: a status it
     * does not know is in none of the three. */
    async push(queue, items, { partition } = {}) {
        const sent = items.map((item) => ({
            queue,
            ...(partition === undefined ? {} : { partition }),
            payload: item.data === undefined ? item : item.data,
            transactionId: item.transactionId ?? randomUUID(),
            ...(item.traceId === undefined ? {} : { traceId: item.traceId }),
        }));
        const results = await this.post('/api/v1/push', { items: sent });
        if (!Array.isArray(results)) throw new Error(results?.error ?? 'push: no array');
        const failed = results.find((r) => r.status === 'failed');
        if (failed) throw new Error(failed.error ?? 'Push failed');
        const of = (status) => results.filter((r) => r.status === status).length;
        return { results, sent, queued: of('queued'), duplicates: of('duplicate') };
    }

    /* The names go into the path as they are: this client does not encode them. */
    popPath(queue, options) {
        const query = {
            batch: options.batch ?? 1,
            wait: options.wait ?? false,
            timeout: options.timeoutMs ?? 30000,
            consumerGroup: options.consumerGroup,
            namespace: options.namespace,
            task: options.task,
            subscriptionMode: options.subscriptionMode,
            subscriptionFrom: options.subscriptionFrom,
            autoAck: options.autoAck === true ? true : undefined,
            partitions: options.partitions > 1 ? options.partitions : undefined,
            conflation: options.conflation === true ? true : undefined,
        };
        const lane = options.partition !== undefined && options.partition !== 'Default' ? `/partition/${options.partition}` : '';
        return `/api/v1/pop${queue === null ? '' : `/queue/${queue}${lane}`}?${parameters(query)}`;
    }

    async popAnswer(queue, options) {
        const answer = await this.request('GET', this.popPath(queue, options), undefined, {
            timeoutMs: (options.timeoutMs ?? 30000) + 5000,
            waiting: options.wait === true,
        });
        if (options.conflation === true && !(answer?.conflation === true || answer?.conflationConflict === true)) throw new Error('conflation_unsupported');
        return answer;
    }

    async pop(queue, options = {}) {
        try {
            return (await this.popAnswer(queue, options))?.messages ?? [];
        } catch (error) {
            if (options.conflation === true) throw error;
            return [];
        }
    }

    /* The consume loop: pops with wait, gives each message to the handler, completes it, and marks the
     * one whose handler threw as failed and leaves the rest of its batch. Ends after limit messages,
     * or at the first empty poll when stopWhenEmpty; any error of a pop that is not a timeout ends it. */
    async consume(queue, options, handler) {
        let handled = 0;
        while (handled < options.limit) {
            let answer;
            try {
                answer = await this.popAnswer(queue, { wait: true, timeoutMs: 2000, ...options, autoAck: false });
            } catch (error) {
                if (error.name === 'TimeoutError' || /timeout/.test(error.message)) continue;
                throw error;
            }
            const messages = answer?.messages ?? [];
            if (messages.length === 0 && options.stopWhenEmpty) break;
            for (const message of messages) {
                handled++;
                try {
                    await handler(message, this);
                } catch (error) {
                    await this.ack(message, false, { consumerGroup: options.consumerGroup, error: error.message });
                    break;
                }
                const result = await this.ack(message, true, { consumerGroup: options.consumerGroup });
                if (!result.success) throw new Error(result.error);
            }
        }
        return handled;
    }

    async ack(message, status = true, { consumerGroup = null, error = null } = {}) {
        const results = await this.post('/api/v1/ack', ackItem(message, status, error, { consumerGroup: consumerGroup ?? null }));
        return readAcks(results, 1)[0];
    }

    async ackBatch(messages, status = true, { consumerGroup = null, error = null } = {}) {
        const acknowledgments = messages.map((m) => ackItem(m, m.status ?? status, m.error ?? error));
        return readAcks(await this.post('/api/v1/ack/batch', { acknowledgments, consumerGroup }), messages.length);
    }

    /* One call per distinct lease; any 2xx is a success to this client. */
    renew(messages) {
        const leases = [...new Set(messages.map((m) => m.leaseId))];
        return Promise.all(leases.map(async (lease) => {
            const answer = await this.post(`/api/v1/lease/${lease}/extend`, {});
            return { leaseId: lease, newExpiresAt: answer.leaseId ? answer.newExpiresAt : answer.lease_expires_at };
        }));
    }

    trace(message, { data, traceName = null, eventType, consumerGroup = null }) {
        const traceNames = traceName === null ? null : [traceName].flat();
        return this.post('/api/v1/traces', { transactionId: message.transactionId, partitionId: message.partitionId, consumerGroup, traceNames, eventType, data });
    }

    transaction() {
        return new Transaction(this);
    }

    // Key/value

    async kv(...operations) {
        const answer = await this.post('/api/v1/kv', { operations });
        if (answer.ok === false) return answer;
        if (answer.results?.length !== operations.length) throw new Error('kv: results do not match the operations');
        operations.forEach((o, i) => {
            if (!o.op.startsWith('get') && typeof answer.results[i].applied !== 'boolean') throw new Error(`kv: no "applied" for ${o.op}`);
        });
        return answer.results;
    }

    // Timers

    timerOperation(queue, timerKey, delayMs, payload, { partition, txn = randomUUID() } = {}) {
        return { op: 'schedule', queue, timerKey, delayMs, txn, payload: Buffer.from(JSON.stringify(payload)).toString('base64'), ...(partition ? { partition } : {}) };
    }

    async schedule(...args) {
        return (await this.post('/api/v1/timers', { operations: [this.timerOperation(...args)] })).results[0];
    }

    cancelTimer(queue, timerKey, txn) {
        return this.delete(`${timerPath(queue, timerKey)}?${parameters({ txn })}`);
    }

    peekTimer(queue, timerKey) {
        return this.get(timerPath(queue, timerKey));
    }

    listTimers(queue, { after = '', limit = 100 } = {}) {
        return this.get(`/api/v1/timers/${encodeURIComponent(queue)}?${parameters({ after, limit })}`);
    }

    // Consumer groups

    deleteConsumerGroup(group, deleteMetadata = true) {
        return this.delete(`${groupPath(group)}?deleteMetadata=${deleteMetadata}`);
    }

    updateConsumerGroupTimestamp(group, timestamp) {
        return this.post(`${groupPath(group)}/subscription`, { subscriptionTimestamp: timestamp });
    }
}

/* Message and trace addresses go into paths as they are; names are encoded. */
class Admin {
    constructor(client) {
        this.c = client;
    }

    getOverview = () => this.c.get('/api/v1/resources/overview');
    getNamespaces = () => this.c.get('/api/v1/resources/namespaces');
    getTasks = () => this.c.get('/api/v1/resources/tasks');
    listQueues = (p) => this.c.get(`/api/v1/resources/queues?${parameters(p)}`);
    getQueue = (queue) => this.c.get(`/api/v1/resources/queues/${encodeURIComponent(queue)}`);
    getQueueDepth = (queue, group) => this.c.get(`/api/v1/resources/queues/${encodeURIComponent(queue)}/depth?${parameters({ group })}`);
    clearQueue = (queue, partition) => this.c.delete(`/api/v1/queues/${encodeURIComponent(queue)}/clear?${parameters({ partition })}`);
    getPartitions = (p) => this.c.get(`/api/v1/resources/partitions?${parameters(p)}`);
    listMessages = (p) => this.c.get(`/api/v1/messages?${parameters(p)}`);
    getMessage = (partitionId, transactionId) => this.c.get(`/api/v1/messages/${partitionId}/${transactionId}`);
    deleteMessage = (partitionId, transactionId) => this.c.delete(`/api/v1/messages/${partitionId}/${transactionId}`);
    retryMessage = (partitionId, transactionId) => this.c.post(`/api/v1/messages/${partitionId}/${transactionId}/retry`, {});
    moveMessageToDLQ = (partitionId, transactionId) => this.c.post(`/api/v1/messages/${partitionId}/${transactionId}/dlq`, {});
    getTraceNames = (p) => this.c.get(`/api/v1/traces/names?${parameters(p)}`);
    getTracesByName = (name, p) => this.c.get(`/api/v1/traces/by-name/${encodeURIComponent(name)}?${parameters(p)}`);
    getTracesForMessage = (partitionId, transactionId) => this.c.get(`/api/v1/traces/${partitionId}/${transactionId}`);
    getStatus = (p) => this.c.get(`/api/v1/status?${parameters(p)}`);
    getQueueStats = (p) => this.c.get(`/api/v1/status/queues?${parameters(p)}`);
    getQueueDetail = (queue, p) => this.c.get(`/api/v1/status/queues/${encodeURIComponent(queue)}?${parameters(p)}`);
    getAnalytics = (p) => this.c.get(`/api/v1/status/analytics?${parameters(p)}`);
    listConsumerGroups = () => this.c.get('/api/v1/consumer-groups');
    getConsumerGroup = (group) => this.c.get(groupPath(group));
    getLaggingConsumers = (minLagSeconds = 60) => this.c.get(`/api/v1/consumer-groups/lagging?${parameters({ minLagSeconds })}`);
    deleteConsumerGroupForQueue = (group, queue, deleteMetadata = true) =>
        this.c.delete(`${groupPath(group)}/queues/${encodeURIComponent(queue)}?deleteMetadata=${deleteMetadata}`);
    seekConsumerGroup = (group, queue, to) => this.c.post(`${groupPath(group)}/queues/${encodeURIComponent(queue)}/seek`, to);
    refreshConsumerStats = () => this.c.post('/api/v1/stats/refresh', {});
    health = () => this.c.get('/health');
    metrics = () => this.c.get('/metrics');
    getMaintenanceMode = () => this.c.get('/api/v1/system/maintenance');
    setMaintenanceMode = (enabled) => this.c.post('/api/v1/system/maintenance', { enabled });
    getPopMaintenanceMode = () => this.c.get('/api/v1/system/maintenance/pop');
    setPopMaintenanceMode = (enabled) => this.c.post('/api/v1/system/maintenance/pop', { enabled });
    getSystemMetrics = (p) => this.c.get(`/api/v1/analytics/system-metrics?${parameters(p)}`);
    getWorkerMetrics = (p) => this.c.get(`/api/v1/analytics/worker-metrics?${parameters(p)}`);
    getPostgresStats = () => this.c.get('/api/v1/analytics/postgres-stats');
}

/* Acks carry no lease of their own: the leases of the messages stand in requiredLeases. */
class Transaction {
    constructor(client) {
        this.client = client;
        this.operations = [];
        this.leases = new Set();
        this.riders = {};
    }

    push(queue, items, { partition } = {}) {
        const sent = items.map((payload) => ({ queue, ...(partition === undefined ? {} : { partition }), payload, transactionId: randomUUID() }));
        this.operations.push({ type: 'push', items: sent });
        return this;
    }

    ack(messages, status = 'completed', { consumerGroup } = {}) {
        for (const message of [messages].flat()) {
            this.operations.push({ type: 'ack', transactionId: message.transactionId, partitionId: message.partitionId, status, ...(consumerGroup ? { consumerGroup } : {}) });
            if (message.leaseId) this.leases.add(message.leaseId);
        }
        return this;
    }

    kv(...operations) {
        this.riders.kv = [...(this.riders.kv ?? []), ...operations];
        return this;
    }

    timer(...args) {
        this.riders.timers = [...(this.riders.timers ?? []), this.client.timerOperation(...args)];
        return this;
    }

    /* A lost key/value precondition is a value, everything else that failed is thrown. */
    async commit() {
        const answer = await this.client.post('/api/v1/transaction', { operations: this.operations, requiredLeases: [...this.leases], ...this.riders });
        if (answer.success || answer.reason === 'kv_precondition') return answer;
        throw Object.assign(new Error(answer.error), { reason: answer.reason });
    }
}

const groupPath = (group) => `/api/v1/consumer-groups/${encodeURIComponent(group)}`;
const timerPath = (queue, key) => `/api/v1/timers/${encodeURIComponent(queue)}/${encodeURIComponent(key)}`;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function parameters(values = {}) {
    return new URLSearchParams(Object.entries(values).filter(([, v]) => v !== undefined && v !== null));
}

function parsed(text) {
    try {
        return JSON.parse(text);
    } catch {
        return null;
    }
}

async function readError(response) {
    const text = await response.text();
    const body = parsed(text);
    return new RequestError(body?.error ?? text, response.status, body?.code, Number(response.headers.get('retry-after') ?? NaN));
}

function thrownIfError(answer) {
    if (answer?.error) throw new Error(answer.error);
    return answer;
}

function ackItem(message, status, error, more = {}) {
    return {
        transactionId: message.transactionId || message.id,
        partitionId: message.partitionId,
        status: status === true ? 'completed' : status === false ? 'failed' : status,
        error,
        ...more,
        ...(message.leaseId ? { leaseId: message.leaseId } : {}),
    };
}

/* An array of exactly the request's length; an error text makes a failure of an item that says success. */
function readAcks(results, length) {
    if (!Array.isArray(results)) throw new Error(results?.error ?? 'ack: no array');
    if (results.length !== length) throw new Error(`ack: ${results.length} results for ${length} items`);
    return results.map((r) => ({ ...r, success: r.success === true && !r.error }));
}
