import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { reschedule } from '../../src/channel/agenda.js';
import { override } from '../../src/channel/override.js';
import { recover, settle } from '../../src/channel/recover.js';
import { closeRedis, openRedis, whenReady } from '../../src/redis/client.js';
import { Keys } from '../../src/redis/keys.js';
import { sharedRedisUrl, startRedis, uniquePrefix } from '../support/redis.js';
import { startTcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/wait.js';
import { batchOf, bench, C10, channelOn, FRESH_MS, policyOf } from './support.js';

const unblock = { action: 'unblock', forMs: 0, actor: 'ann', note: '' } as const;

describe('a call of a script when Redis or the way to it fails', () => {
  it('7.01 counts a failure once, although its answer was lost and the call was made again', async () => {
    const { port } = new URL(sharedRedisUrl());
    const proxy = await startTcpProxy({ port: Number(port) });
    const client = openRedis(proxy.url, 'commands');
    onTestFinished(() => closeRedis(client));
    await whenReady(client);
    const keys = new Keys(uniquePrefix());
    const channel = channelOn({ client, keys });
    const policy = policyOf({ rate: 0 });
    await channel.record('F', policy);
    const batch = batchOf('FS');
    const swallowed = proxy.swallowReplyTo(/evalsha/i);
    const first = channel.send(batch, policy).catch((error: Error) => error);
    await swallowed;
    // The client sends it again by itself, or refuses and we do: either way it is the same batch at the same positions.
    const answer = await first;
    await until(() => channel.send(batch, policy), { what: 'the repeated call to be answered' });
    expect(await client.lrange(channel.names[0], 0, -1)).toEqual(['0', '0', '1']);
    if (!(answer instanceof Error)) expect(answer.result).toMatchObject({ duplicate: 2, counted: 0 });
  });

  it('7.01 hands back a block whose answer was lost, to be announced by whoever asks again', async () => {
    const { port } = new URL(sharedRedisUrl());
    const proxy = await startTcpProxy({ port: Number(port) });
    const client = openRedis(proxy.url, 'commands');
    onTestFinished(() => closeRedis(client));
    await whenReady(client);
    const channel = channelOn({ client, keys: new Keys(uniquePrefix()) });
    await channel.record('S');
    const batch = batchOf('FFF');
    const swallowed = proxy.swallowReplyTo(/evalsha/i);
    void channel.send(batch).catch(() => {});
    await swallowed;
    const again = await until(() => channel.send(batch), { what: 'the repeated call to be answered' });
    expect(again.result).toMatchObject({ pushed: 0, blocked: true });
    expect(again.outbox).toMatchObject([{ kind: 'blocked' }]);
  });

  it('7.03 runs every script also where the server has forgotten it', async () => {
    const env = await bench((await startRedis()).url);
    const { client, keys } = env;
    const channel = channelOn(env);
    const flush = () => client.script('FLUSH');
    await flush();
    const { outbox } = await channel.record('FFF');
    expect(outbox).toMatchObject([{ kind: 'blocked' }]);
    await flush();
    expect((await recover(client, keys, 'C', C10, FRESH_MS)).outbox.length).toBe(1);
    await flush();
    expect(await override(client, keys, 'C', C10, FRESH_MS, unblock)).toMatchObject({ pushed: 1, blocked: false });
    await flush();
    expect(await settle(client, keys, 'C', [outbox[0]!.epoch])).toMatchObject({ left: 1 });
    await flush();
    expect(await reschedule(client, keys, 'C', '1', 0)).toBe(false);
    await flush();
    const many = await Promise.all(Array.from({ length: 20 }, () => channel.record('S')));
    expect(many.length).toBe(20);
  });

  it('7.09 is refused whole when Redis is out of memory, and counts once it has room again', async () => {
    const server = await startRedis();
    const env = await bench(server.url);
    const channel = channelOn(env);
    await channel.record('FF');
    const names = env.keys.channel('C');
    const everything = () => Promise.all(names.map((key) => env.client.dumpBuffer(key)));
    const before = await everything();
    await env.client.config('SET', 'maxmemory', '1');
    const deciding = batchOf('F');
    await expect(channel.send(deciding)).rejects.toThrow(/OOM/);
    await expect(override(env.client, env.keys, 'C', C10, FRESH_MS, { ...unblock, action: 'block' })).rejects.toThrow(
      /OOM/,
    );
    await expect(recover(env.client, env.keys, 'C', C10, FRESH_MS)).rejects.toThrow(/OOM/);
    expect(await everything()).toEqual(before);
    await env.client.config('SET', 'maxmemory', '0');
    expect((await channel.send(deciding)).result).toMatchObject({ blocked: true, recorded: 3, pushed: 1 });
  });

  it('7.13 changes nothing on a server that became a replica, and goes on when it is a primary again', async () => {
    const [a, b] = [await startRedis(), await startRedis()];
    const env = await bench(a.url);
    const admin = new Redis(a.url);
    onTestFinished(() => admin.disconnect());
    const channel = channelOn(env);
    await channel.record('FF');
    const before = await env.client.lrange(channel.names[0], 0, -1);
    await admin.config('SET', 'replica-serve-stale-data', 'yes');
    const other = new Redis(b.url);
    onTestFinished(() => other.disconnect());
    await admin.call('REPLICAOF', '127.0.0.1', '1');
    const deciding = batchOf('F');
    // The message contains the code rather than beginning with it, or the connection is being made anew.
    await expect(channel.send(deciding)).rejects.toThrow(/READONLY|Connection|Stream isn't writeable/i);
    expect(await admin.lrange(channel.names[0], 0, -1)).toEqual(before);
    await admin.call('REPLICAOF', 'NO', 'ONE');
    const answer = await until(() => channel.send(deciding), { what: 'the primary to take the batch' });
    expect(answer.result).toMatchObject({ blocked: true, recorded: 3 });
  });
});
