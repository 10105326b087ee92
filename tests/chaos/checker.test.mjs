// The checks of the load themselves: a database that is made to lose, repeat or reorder must be noticed.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startInstance } from '../e2e/lib/instance.mjs';
import { Load, sleep } from './lib/load.mjs';

describe('the load notices', () => {
    let instance;
    before(async () => {
        instance = await startInstance({ workers: 1 });
    }, { timeout: 120000 });
    after(async () => {
        await instance?.stop();
    }, { timeout: 120000 });

    async function sabotaged(trigger, name, pattern) {
        const load = new Load(instance, { patienceMs: 4000 });
        load.start();
        await load.servesAgain(Date.now(), 10000);
        await instance.psql(trigger);
        await sleep(1500);
        await instance.psql(`drop trigger sabotage on ${name}`);
        await assert.rejects(load.finish(), (error) => {
            assert.match(error.message, pattern);
            return true;
        });
    }

    it('an acknowledged message that comes back', { timeout: 60000 }, () => sabotaged(
        `create function public.keep_cursor() returns trigger language plpgsql as $$ begin new.committed := old.committed; return new; end $$;
         create trigger sabotage before update of committed on queen.log_consumers for each row execute function public.keep_cursor()`,
        'queen.log_consumers', /delivered again; everything below/));

    it('a stored message that is gone', { timeout: 60000 }, () => sabotaged(
        `create function public.lose() returns trigger language plpgsql as $$ begin return null; end $$;
         create trigger sabotage before insert on queen.log_segments for each row execute function public.lose()`,
        'queen.log_segments', /delivered before|never delivered|order within a batch/));
});
