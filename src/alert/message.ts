import { z } from 'zod';

const Line = z.object({ label: z.string(), value: z.string() });

/**
 * What people read, frozen when the event is fanned out, in the receiver's language and time zone. Plain text of single lines; an
 * adapter escapes it for its vendor.
 */
export const Message = z.object({
  title: z.string(),
  lines: z.array(Line),
  /** Added when the receiver was never told that the block began: then one message tells both. */
  untold: Line,
  /** Whether the receiver's `mentions` are called: for the beginning of a block, one that waits for a hand, and a group that runs out of channels. */
  mention: z.boolean(),
});
export type Message = z.infer<typeof Message>;

/** The lines to show, with the one about an untold block where that applies. */
export function linesOf(message: Message, untold: boolean): Message['lines'] {
  return untold ? [...message.lines, message.untold] : message.lines;
}

/** The message as plain text, one line each. */
export function plainText(message: Message, untold: boolean): string {
  return [message.title, ...linesOf(message, untold).map(({ label, value }) => `${label}: ${value}`)].join('\n');
}
