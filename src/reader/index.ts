export type { Transition } from '../domain/transition.js';
export { createReader, type Reader, type ReaderOptions } from './reader.js';
export type { ByChannel, Selection, SelectOptions } from './select.js';
export type { ChannelState, GapEvent, ReaderLogger, ReaderStatus } from './types.js';
