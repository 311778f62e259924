// How many outcomes a second one worker judges from a filled log, against one script call per outcome.

import { closeRedis, openRedis, whenReady } from '../dist/src/redis/client.js';
import { IN_FLIGHT, oneCallEach, SHARDS, scriptOfToday, worker } from './contenders.mjs';
import { alternate, median, ratios, spread, whole } from './figures.mjs';
import { CHANNELS, entries, FAILURES, outcomes, PER_ENTRY } from './load.mjs';

const ROUNDS = 5;
const IN_LOG = 400_000;
/** The others are slower, and their speed does not depend on how many there are. */
const BY_CALL = 20_000;
/** Entries of one read: 2,000 outcomes, and what a worker may read if nobody says otherwise. */
const SMALL_READ = 20;
const DEFAULT_READ = 2_000;

/** @returns {Promise<boolean>} whether every promise was kept */
export async function throughput(url) {
  const client = openRedis(url, 'commands');
  await whenReady(client);
  const all = outcomes(IN_LOG);
  const packed = entries(all, SHARDS);
  const few = all.slice(0, BY_CALL);
  const bytes = median(packed.map(([, json]) => Buffer.byteLength(json)));
  let largest = 0;
  const onRead = (count) => {
    largest = Math.max(largest, count);
  };

  console.log(
    `throughput: ${CHANNELS.length} channels, ${FAILURES * 100} % failures, ${whole(IN_LOG)} outcomes in ${whole(packed.length)} entries of ` +
      `${PER_ENTRY} (${whole(bytes)} bytes) over ${SHARDS} shards; calls with ${IN_FLIGHT} in flight; median of ${ROUNDS} rounds`,
  );
  const small = `worker, ${SMALL_READ} entries = ${whole(SMALL_READ * PER_ENTRY)} outcomes a read`;
  const large = 'worker, reads of its own choice';
  const perOutcome = 'record.lua, one call per outcome';
  const today = 'script of today, one call per outcome';
  const log = { client, url, packed, count: IN_LOG };
  const figures = await alternate(
    {
      [small]: () => worker({ ...log, maxCount: SMALL_READ }),
      [perOutcome]: () => oneCallEach(client, few),
      [large]: () => worker({ ...log, maxCount: DEFAULT_READ, onRead }),
      [today]: () => scriptOfToday(client, few),
    },
    ROUNDS,
  );
  for (const [name, values] of Object.entries(figures)) {
    const { min, median: middle, max } = spread(values);
    console.log(`  ${name.padEnd(46)} ${whole(middle).padStart(10)} outcomes/s  (${whole(min)} to ${whole(max)})`);
  }
  console.log(`  (its own choice: up to ${largest} entries, about ${whole((largest * bytes) / 1024)} KiB)`);
  const kept = [
    promise(figures, small, perOutcome, 5),
    promise(figures, small, today, 3),
    promise(figures, large, perOutcome, 5),
    promise(figures, large, today, 3),
  ];
  await closeRedis(client);
  return kept.every(Boolean);
}

function promise(figures, one, other, least) {
  const { min, median: middle, max } = spread(ratios(figures, one, other));
  const kept = middle >= least;
  console.log(
    `  ${kept ? 'ok  ' : 'FAIL'} ${one} / ${other}: ${middle.toFixed(1)} times (${min.toFixed(1)} to ${max.toFixed(1)}), wanted ${least}`,
  );
  return kept;
}
