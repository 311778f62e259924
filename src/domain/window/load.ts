import type { Policy } from '../policy.js';
import { CallLog } from './call-log.js';
import { CountWindow } from './count-window.js';
import { SequentialWindow } from './sequential-window.js';
import { slotMs, TimeWindow } from './time-window.js';
import type { StoredWindow, WindowModel } from './window.js';

/** The window that a policy judges by. One of another kind, with slots of another length, or of another test, says nothing to it. */
export function loadWindow({ window }: Policy, stored: StoredWindow | undefined): WindowModel {
  switch (window.kind) {
    case 'count':
      return new CountWindow(window.size, stored?.kind === 'count' ? stored.slots : []);
    case 'time': {
      const { spanMs, slots, minCalls } = window;
      const fits = stored?.kind === 'time' && stored.lengthMs === slotMs(spanMs, slots);
      return new TimeWindow(spanMs, slots, minCalls, fits ? stored : undefined);
    }
    case 'log':
      return new CallLog(window, stored?.kind === 'log' ? stored : undefined);
    case 'sequential':
      return new SequentialWindow(window, stored?.kind === 'sequential' ? stored : undefined);
  }
}

/** A window at rest; `undefined`: there is nothing in it. */
export function storeWindow(window: WindowModel): StoredWindow | undefined {
  if (!window.isKept) return undefined;
  if (window instanceof CountWindow) return { kind: 'count', slots: [...window.slots] };
  if (window instanceof SequentialWindow || window instanceof CallLog || window instanceof TimeWindow)
    return window.stored();
  throw new Error(`a window that cannot be stored: ${window.constructor.name}`);
}
