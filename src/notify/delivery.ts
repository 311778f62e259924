import { z } from 'zod';
import { Message } from '../alert/message.js';
import { Transition } from '../domain/transition.js';

/**
 * The data of one job in `deliver-<receiver>`: facts and text, frozen at fan-out. It carries the receiver's name and never its URL
 * or secret, because job data is clear text that dashboards show.
 */
export const DeliveryData = z.object({
  v: z.literal(1),
  receiver: z.string(),
  /** The job's id, and what the receiver sees as the message's id on every attempt. */
  id: z.string(),
  transition: Transition,
  message: Message,
});
export type DeliveryData = z.infer<typeof DeliveryData>;
