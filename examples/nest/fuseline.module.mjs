// Fuseline as a NestJS module. Decorators are called as functions here, so that no build step is needed; in TypeScript they are written
// `@Module({})`, `@Inject(FUSE)` as usual.
//
//   npm install fuseline @nestjs/common @nestjs/core reflect-metadata rxjs
//   @Module({ imports: [FuselineModule.forRoot({ source: 'checkout' })], providers: [PayService] })
import { Inject, Module } from '@nestjs/common';
import { createFuseline } from 'fuseline';

/** Token of the one Fuseline of the application: `constructor(@Inject(FUSE) private readonly fuse: Fuseline) {}`. */
export const FUSE = Symbol('fuseline');

export class FuselineModule {
  /** Options are those of `createFuseline`. Global: other modules need not import it. */
  static forRoot(options = {}) {
    return {
      module: FuselineModule,
      global: true,
      providers: [{ provide: FUSE, useFactory: () => createFuseline(options) }],
      exports: [FUSE],
    };
  }

  constructor(fuse) {
    this.fuse = fuse;
  }

  /** With `app.enableShutdownHooks()` also on SIGTERM: sends what still waits. */
  async onApplicationShutdown() {
    await this.fuse.close();
  }
}
Module({})(FuselineModule);
Inject(FUSE)(FuselineModule, undefined, 0);
