import { beforeAll, describe, expect, it } from 'vitest';
import { releaseAtEnd } from './releasers.js';
import { until } from './wait.js';

describe('what a test opened is released when that test has finished', () => {
  const opened: string[] = [];
  const released: string[] = [];
  const open = (name: string) => {
    opened.push(name);
    releaseAtEnd(async () => void released.push(name));
  };

  beforeAll(() => open('the file'));

  it.concurrent('the longer of two at the same time', async () => {
    open('long 1');
    await until(() => opened.includes('short'), { what: 'the other to have begun' });
    open('long 2');
    await until(() => released.length, { what: 'the other to have ended' });
    expect(released).toEqual(['short']);
  });

  it.concurrent('the shorter, begun later', async () => {
    open('short');
  });

  it('in reverse, and nothing of the file', () => {
    expect(released).toEqual(['short', 'long 2', 'long 1']);
  });
});
