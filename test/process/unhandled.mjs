// A worker with a bug, for drain.test.ts: once it runs, something throws where nobody catches.
import { runProcess } from '../../dist/src/process/run.js';
import { loadSettings } from '../../dist/src/settings/load.js';

setTimeout(() => {
  if (process.argv[2] === 'throws') throw new Error('a bug');
  void Promise.reject(new Error('a bug'));
}, 300);
await runProcess(['alerts'], loadSettings());
