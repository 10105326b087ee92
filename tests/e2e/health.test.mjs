// GET /health and GET /status.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { useQueen } from './lib/queen.mjs';

describe('health', { concurrency: 4 }, () => {
    const c = useQueen();

    it('/health tells the database and the version', async () => {
        const answer = await c.queen.get('/health');
        assert.equal(answer.status, 200);
        assert.match(answer.headers['content-type'], /^application\/json/);
        const { status, database, engine, version } = answer.json;
        assert.deepEqual([status, database], ['healthy', 'connected']);
        assert.ok(typeof engine === 'string' && engine !== '');
        assert.match(version, /^\d+\.\d+\.\d+/);
    });

    it('/status is liveness: status and engine', async () => {
        const answer = await c.queen.get('/status');
        assert.equal(answer.status, 200);
        assert.match(answer.headers['content-type'], /^application\/json/);
        assert.equal(answer.json.status, 'ok');
        assert.equal(answer.json.engine, (await c.queen.get('/health')).json.engine);
    });

    it('every one of many connections is healthy', async () => {
        const answers = await Promise.all(Array.from({ length: 200 }, () => c.queen.get('/health')));
        assert.ok(answers.every((a) => a.status === 200 && a.json.status === 'healthy'));
    });
});
