// make bench-smoke: ten seconds of push, pop and ack on an instance of its own, one line of figures.
import { startInstance } from '../e2e/lib/instance.mjs';
import { describe, measure } from './measure.mjs';

const instance = await startInstance({ workers: 2 });
try {
    const m = await measure(instance, { scenario: 'cycle', queues: 100, connections: 64, batch: 100, seconds: 10, warmup: 2 });
    console.log(`bench-smoke: ${describe(m)}`);
    if (m.load.loadgen.errors > 0) process.exitCode = 1;
} finally {
    await instance.stop();
}
