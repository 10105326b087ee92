// docs/clients.md: every route of its tables exists, with that method.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { describe, it } from 'node:test';
import { checkout } from '../lib/instance.mjs';
import { unique, useQueen, ZERO_UUID } from '../lib/queen.mjs';

const ROW = /^\| .* \| `(GET|POST|PUT|DELETE) (\/\S+)` \| /;

describe('the page about clients', () => {
    const c = useQueen();
    const routes = fs.readFileSync(path.join(checkout, 'docs/clients.md'), 'utf8').split('\n').map((l) => ROW.exec(l)).filter(Boolean);

    it('has its tables', () => assert.ok(routes.length > 50, `${routes.length} routes found`));

    for (const [, method, pattern] of routes) {
        it(`${method} ${pattern}`, async () => {
            const target = pattern.replace(/:(\w+)/g, (_, name) => (/id$/i.test(name) ? ZERO_UUID : unique(name)));
            // No body: a route that needs one refuses it, and no switch of the shared instance is touched.
            const answer = await c.queen.request(method, target, { headers: { 'Content-Type': 'application/json' } });
            assert.notEqual(answer.status, 405, answer.text);
            assert.ok(answer.status < 500, answer.text);
            if (answer.status === 404) assert.notEqual(answer.json.code, 'no_such_route', `${method} ${target}`);
        });
    }
});
