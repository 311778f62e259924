// A service of a Nest application that calls a channel behind a guard. What Nest does not know becomes an HttpException, which any
// controller above turns into the answer.
import { Inject, Injectable, ServiceUnavailableException } from '@nestjs/common';
import { FUSE } from './fuseline.module.mjs';

export class PayService {
  constructor(fuse) {
    this.fuse = fuse;
  }

  /** @param {(call: { signal: AbortSignal }) => Promise<{ code: string }>} callGateway */
  pay(channel, callGateway) {
    return this.fuse.guard(channel, callGateway, {
      success: ({ code }) => code === 'OK',
      timeout: 3_000,
      fallback: (reason) => {
        if (reason.code !== 'CHANNEL_BLOCKED') throw reason; // it may have charged: nothing to be tried elsewhere
        throw new ServiceUnavailableException(`${channel} takes no payments at the moment`, { cause: reason });
      },
    });
  }
}
Injectable()(PayService);
Inject(FUSE)(PayService, undefined, 0);
