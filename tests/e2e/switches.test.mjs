// GET and POST /api/v1/system/kv-timers: the operator's switches, on an instance of their own.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertError, unique, useQueen } from './lib/queen.mjs';

const TARGET = '/api/v1/system/kv-timers';
const ON = { kvEnabled: true, timersScheduleEnabled: true, timersFireEnabled: true };

describe('switches of key/value and timers', () => {
    const c = useQueen({ workers: 2 });
    const state = async () => {
        const { kvEnabled, timersScheduleEnabled, timersFireEnabled } = (await c.queen.get(TARGET)).json;
        return { kvEnabled, timersScheduleEnabled, timersFireEnabled };
    };

    it('all are on at first; a POST touches what it names only', async () => {
        assert.deepEqual(await state(), ON);
        const answer = await c.queen.post(TARGET, { kv: false });
        assert.equal(answer.status, 200, answer.text);
        assert.equal(answer.json.kvEnabled, false);
        assert.deepEqual(await state(), { ...ON, kvEnabled: false });
        await c.queen.post(TARGET, { kv: true, timersSchedule: null });
        assert.deepEqual(await state(), ON);
    });

    it('a paused key/value store answers 503 with Retry-After, and works again', async () => {
        await c.queen.post(TARGET, { kv: false });
        const write = { operations: [{ op: 'put', ns: 'n', key: unique(), value: 1, forever: true }] };
        const answer = await c.queen.post('/api/v1/kv', write);
        assert.equal(answer.status, 503, answer.text);
        assert.ok(Number(answer.headers['retry-after']) >= 1);
        await c.queen.post(TARGET, { kv: true });
        assert.equal((await c.queen.post('/api/v1/kv', write)).status, 200);
    });

    it('nothing to do, a wrong type, no JSON: 400, nothing changes', async () => {
        for (const body of [{}, { kv: null }, { other: true }])
            assertError(await c.queen.post(TARGET, body), 400, /^at least one of kv, timersSchedule, timersFire \(boolean\) is required$/);
        assertError(await c.queen.post(TARGET, { kv: 'false' }), 400, /kv must be a boolean/);
        assertError(await c.queen.post(TARGET, '{'), 400, /^bad body/);
        assertError(await c.queen.post(TARGET, '[]'), 400, /^bad body/);
        assert.deepEqual(await state(), ON);
    });
});
