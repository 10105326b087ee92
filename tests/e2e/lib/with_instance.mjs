// node tests/e2e/lib/with_instance.mjs COMMAND ...: starts one instance for a whole run, names it in
// QUEEN_TEST_URL and QUEEN_TEST_RUN_DIR, runs the command, stops the instance; exit code of the command.
import { spawn } from 'node:child_process';
import { startInstance } from './instance.mjs';

const [program, ...args] = process.argv.slice(2);
const instance = await startInstance();
const child = spawn(program, args, {
    stdio: 'inherit',
    env: { ...process.env, QUEEN_TEST_URL: instance.url, QUEEN_TEST_RUN_DIR: instance.runDir },
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
const code = await new Promise((resolve) => {
    child.once('error', (error) => {
        console.error(error.message);
        resolve(127);
    });
    child.once('exit', (status) => resolve(status ?? 1));
});
await instance.stop();
process.exit(code);
