import { describe, expect, it } from 'vitest';
import { FeedPosition } from '../../src/reader/follow.js';

describe('a place in the feed', () => {
  const entries = (...ids: string[]) => ids.map((id) => ({ id }));

  it('tells entries that are gone from those already seen', () => {
    const position = new FeedPosition();
    position.jump({ id: '5-0', added: 3, removed: 2 });
    expect(position.lost({ id: '7-0', added: 5, removed: 3 }, position.mark()!)).toBeUndefined();
    expect(position.lost({ id: '7-0', added: 5, removed: 4 }, position.mark()!)).toContain('trimmed');
    position.advance(entries('6-0', '7-0'));
    expect(position.lost({ id: '7-0', added: 5, removed: 5 }, position.mark()!)).toBeUndefined();
  });

  it('still finds out after the follower has read on behind the hole', () => {
    const position = new FeedPosition();
    position.jump({ id: '5-0', added: 3, removed: 0 });
    position.advance(entries('9-0', '10-0'));
    expect(position.lost({ id: '10-0', added: 5, removed: 3 }, position.mark()!)).toBeUndefined();
    expect(position.lost({ id: '10-0', added: 8, removed: 3 }, position.mark()!)).toContain('trimmed');
  });

  it('notices a feed that was deleted, also when a new one has taken its place; an answer that is merely old is none', () => {
    const position = new FeedPosition();
    position.jump({ id: '5-0', added: 3, removed: 0 });
    const before = position.mark()!;
    expect(position.lost({ id: '0-0', added: 0, removed: 0 }, before)).toContain('deleted');
    expect(position.lost({ id: '9-0', added: 1, removed: 0 }, before)).toContain('deleted');
    position.advance(entries('6-0'));
    expect(position.lost({ id: '5-0', added: 3, removed: 0 }, before)).toBeUndefined();
  });
});
