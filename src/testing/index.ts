export { createMemoryLog } from '../transport/memory.js';
export { createFakeFuseline, type FakeFuseline, type FakeOptions } from './fake.js';
