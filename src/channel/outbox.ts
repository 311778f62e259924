import { parseTransition, type Transition } from '../domain/transition.js';
import type { ScriptReply } from '../redis/script.js';

/**
 * Reads outbox entries. One that cannot be read (a newer version's kind, a foreign hand) stays in Redis and harms no other.
 */
export function readOutbox(channel: string, texts: readonly (string | number)[]): Transition[] {
  return texts.flatMap((text) => {
    try {
      return [parseTransition(channel, String(text))];
    } catch {
      return [];
    }
  });
}

/** A script's reply as its leading integers and the texts that follow. */
export function splitReply(reply: ScriptReply, integers: number): { numbers: number[]; texts: (string | number)[] } {
  const list = Array.isArray(reply) ? reply : [reply];
  return { numbers: list.slice(0, integers).map(Number), texts: list.slice(integers) };
}
