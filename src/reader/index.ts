export type { Transition } from '../domain/transition.js';
export type { Trial } from '../domain/trial.js';
export type { Reader, ReaderOptions } from './api.js';
export { createReader } from './reader.js';
export type { ByChannel, Selection, SelectOptions } from './select.js';
export type { ChannelState, GapEvent, ReaderLogger, ReaderStatus } from './types.js';
