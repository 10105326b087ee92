// A bounded load whose every step is recorded, and the promises that must hold whatever is killed under it.
//
// Each producer owns its partitions and pushes 0, 1, 2, ... to each, one request at a time, repeating a
// request that was not answered with 201 under the same transaction ids: so what is stored must be exactly
// 0..n-1 in order. Consumers pop and ack whole batches, repeating an ack whose outcome they do not know.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { Client } from '../../e2e/lib/http.mjs';

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/* Short, so that a batch whose consumer never heard of it comes back soon. */
const LEASE_SECONDS = 3;
const GROUP = 'chaos';

export class Load {
    constructor(instance, { producers = 4, partitionsEach = 3, consumers = 8, itemsEach = 4, patienceMs = 30000 } = {}) {
        this.instance = instance;
        this.queue = `chaos-${randomBytes(6).toString('hex')}`;
        this.client = new Client(instance.url, { timeoutMs: 40000 });
        this.producers = producers;
        this.partitionsEach = partitionsEach;
        this.consumers = consumers;
        this.itemsEach = itemsEach;
        this.patienceMs = patienceMs; // how long finish() waits for the last delivery
        this.partitions = new Map(); // name -> {pushed, seen, acked: first seq not acknowledged by a 200}
        this.violations = [];
        this.counts = { pushes: 0, pushRepeats: 0, pops: 0, popErrors: 0, acks: 0, ackRepeats: 0, refused: 0 };
        this.pushedAt = 0; // start of the last push that got its 201
        this.ackedAt = 0; // start of the last pop whose batch got its 200
        this.producing = true;
        this.consuming = true;
    }

    start() {
        this.tasks = [
            ...Array.from({ length: this.producers }, (_, i) => this.produce(i)),
            ...Array.from({ length: this.consumers }, () => this.consume()),
        ];
    }

    partition(name) {
        if (!this.partitions.has(name)) this.partitions.set(name, { pushed: 0, seen: 0, acked: 0 });
        return this.partitions.get(name);
    }

    async produce(number) {
        const names = Array.from({ length: this.partitionsEach }, (_, i) => `p${number}-${i}`);
        while (this.producing) {
            const items = names.flatMap((name) => Array.from({ length: this.itemsEach }, (_, i) => {
                const seq = this.partition(name).pushed + i;
                return { queue: this.queue, partition: name, transactionId: `${name}:${seq}`, payload: { seq } };
            }));
            await this.pushUntilStored(items);
            for (const name of names) this.partition(name).pushed += this.itemsEach;
            await sleep(5);
        }
    }

    async pushUntilStored(items) {
        for (;;) {
            const started = Date.now();
            const answer = await this.client.push(items).catch(() => null);
            if (answer?.status === 201) {
                const results = answer.json();
                if (results.every((r) => r.status === 'queued' || r.status === 'duplicate')) {
                    this.counts.pushes++;
                    this.pushedAt = started;
                    return;
                }
            } else if (answer && answer.status < 500) {
                this.violations.push(`push answered ${answer.status} ${answer.body}`);
                return;
            }
            this.counts.pushRepeats++;
            await sleep(50);
        }
    }

    async consume() {
        while (this.consuming) {
            const started = Date.now();
            const known = new Map([...this.partitions].map(([name, p]) => [name, p.acked]));
            const answer = await this.client.pop(this.queue, { consumerGroup: GROUP, batch: 50, partitions: 2, wait: true, timeout: 1000, leaseSeconds: LEASE_SECONDS }).catch(() => null);
            this.counts.pops++;
            if (answer?.status === 204) continue;
            if (answer?.status !== 200) {
                if (answer && answer.status < 500) this.violations.push(`pop answered ${answer.status} ${answer.body}`);
                this.counts.popErrors++;
                await sleep(50);
                continue;
            }
            const { leaseId, messages } = answer.json();
            const batches = groupBy(messages, (m) => m.partition);
            for (const [name, batch] of batches) this.check(name, batch, known.get(name) ?? 0);
            if (await this.ackUntilKnown(leaseId, messages, batches)) this.ackedAt = started;
        }
    }

    check(name, batch, ackedBefore) {
        const partition = this.partition(name);
        const seqs = batch.map((m) => m.data.seq);
        if (seqs.some((seq, i) => seq !== seqs[0] + i)) this.violations.push(`${name}: order within a batch: ${seqs}`);
        if (seqs[0] < ackedBefore) this.violations.push(`${name}: ${seqs[0]} delivered again; everything below ${ackedBefore} had its 200 before the pop was sent`);
        if (seqs[0] > partition.seen) this.violations.push(`${name}: ${seqs[0]} delivered before ${partition.seen}`);
        partition.seen = Math.max(partition.seen, seqs.at(-1) + 1);
    }

    async ackUntilKnown(leaseId, messages, batches) {
        const items = messages.map((m) => ({ transactionId: m.transactionId, partitionId: m.partitionId, leaseId, status: 'completed' }));
        for (;;) {
            const answer = await this.client.ack(items, GROUP).catch(() => null);
            if (answer?.status === 200) {
                const results = answer.json();
                let all = true;
                for (const [name, batch] of batches) {
                    const failed = results.filter((r) => !r.success && batch.some((m) => m.transactionId === r.transactionId));
                    if (failed.length === 0) this.partition(name).acked = Math.max(this.partition(name).acked, batch.at(-1).data.seq + 1);
                    else {
                        all = false;
                        this.counts.refused++; // the lease expired meanwhile, or the flush failed: it redelivers
                    }
                }
                this.counts.acks++;
                return all;
            }
            if (answer && answer.status < 500) {
                this.violations.push(`ack answered ${answer.status} ${answer.body}`);
                return false;
            }
            this.counts.ackRepeats++;
            await sleep(50);
        }
    }

    /* Waits until a push and a whole pop and ack, both begun after `since`, have succeeded. */
    async servesAgain(since, withinMs) {
        while (!(this.pushedAt > since && this.ackedAt > since)) {
            if (Date.now() > since + withinMs) {
                assert.fail(`not serving ${withinMs} ms after the kill: last push ${this.pushedAt - since} ms, last ack ${this.ackedAt - since} ms; ${JSON.stringify(this.counts)}`);
            }
            await sleep(20);
        }
        return Math.max(this.pushedAt, this.ackedAt) - since;
    }

    /* Ends the load: what was pushed must all be delivered, and acknowledged. */
    async finish() {
        this.producing = false;
        await Promise.all(this.tasks.slice(0, this.producers));
        const open = () => [...this.partitions].filter(([, p]) => p.seen < p.pushed);
        const deadline = Date.now() + this.patienceMs;
        const drained = async () => open().length === 0 && (await this.behind()) === '0';
        while (!(await drained())) {
            if (Date.now() > deadline) break;
            await sleep(200);
        }
        this.consuming = false;
        await Promise.all(this.tasks);
        this.client.close();
        assert.equal(this.violations.length, 0, `${this.violations.length} violations: ${this.violations.slice(0, 5).join('; ')}; ${JSON.stringify(this.counts)}`);
        assert.equal(open().length, 0, `pushed with a 201 and never delivered: ${JSON.stringify(open())}`);
        await this.checkStored();
        assert.ok(this.counts.pushes > 20 && this.counts.acks > 20, `the load did something: ${JSON.stringify(this.counts)}`);
        return this.counts;
    }

    /* Partitions whose cursor has not reached the end. */
    behind() {
        return this.instance.psql(`select count(*) from queen.log_consumers c join queen.log_partitions p on p.id = c.partition_id
            join queen.queues q on q.id = p.queue_id where q.name = '${this.queue}' and c.consumer_group = '${GROUP}' and c.committed < p.last_offset`);
    }

    /* Every message is stored once: offsets are gapless, so their number is the number of messages. */
    async checkStored() {
        const rows = await this.instance.psql(`select p.name, p.last_offset + 1 from queen.log_partitions p
            join queen.queues q on q.id = p.queue_id where q.name = '${this.queue}' order by 1`);
        const stored = Object.fromEntries(rows.split('\n').map((line) => line.split('|')).map(([name, n]) => [name, Number(n)]));
        assert.deepEqual(stored, Object.fromEntries([...this.partitions].map(([name, p]) => [name, p.pushed]).sort()));
    }
}

function groupBy(list, key) {
    const groups = new Map();
    for (const item of list) {
        if (!groups.has(key(item))) groups.set(key(item), []);
        groups.get(key(item)).push(item);
    }
    return groups;
}
