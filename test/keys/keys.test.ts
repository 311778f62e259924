import { describe, expect, it } from 'vitest';
import { Keys } from '../../src/redis/keys.js';
import { readPage } from './page.js';

describe('docs/keys.md', () => {
  const rows = readPage();

  it('has one row for each key that the code can name, and no other', () => {
    const keys = new Keys();
    const getters = [
      'workers',
      'log',
      'shards',
      'feed',
      'incidents',
      'audit',
      'floors',
      'load',
      'dead',
      'agenda',
      'config',
      'configHistory',
    ] as const;
    const known = Object.getOwnPropertyNames(Keys.prototype).sort();
    expect(known, 'a new member of Keys belongs into this test, and its row into the page').toEqual(
      [
        'constructor',
        'channel',
        'blocked',
        'state',
        'permits',
        'outcomes',
        'lease',
        'stats',
        'told',
        'queues',
        ...getters,
      ].sort(),
    );
    const names = [
      ...keys.channel('微信支付'),
      ...[
        keys.blocked('A'),
        keys.state('A'),
        keys.permits('A'),
        keys.outcomes(0),
        keys.lease(12),
        keys.stats('host-1-ab'),
        keys.told('ops'),
      ],
      ...[`${keys.queues}:notify:meta`, ...getters.map((name) => keys[name])],
    ];
    const rowsOf = (name: string) => rows.filter(({ pattern }) => pattern.test(name)).map((row) => row.name);
    expect(names.filter((name) => rowsOf(name).length !== 1).map((name) => [name, rowsOf(name)])).toEqual([]);
    const unused = rows.filter(({ pattern }) => !names.some((name) => pattern.test(name)));
    expect(unused.map(({ name }) => name)).toEqual([]);
  });

  it('describes the fields of every hash and stream that holds more than one kind of them', () => {
    const described = rows.filter(({ fields }) => fields !== undefined).map(({ name }) => name);
    expect(described).toEqual([
      'channel_slots:{C}',
      'channel_state:{C}',
      'channel_fence:{C}',
      'fuseline:outcomes:{n}',
      'fuseline:shards',
      'fuseline:transitions',
      'fuseline:incidents',
      'fuseline:audit',
      'fuseline:load',
      'fuseline:dead',
      'fuseline:told:R',
    ]);
  });
});
