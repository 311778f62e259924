import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * What takes long begins first, so that none of it runs alone at the end. In a fresh clone, where no run was measured, vitest has
 * only sizes to go by: the longest tests are not in the largest files.
 */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const byTimeOrSize = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => /\/test\/(slow|kafka|process|transport)\//.test(moduleId);
    return [...byTimeOrSize.filter(isLong), ...byTimeOrSize.filter((file) => !isLong(file))];
  }
}

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/global-setup.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    pool: 'forks',
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
  },
});
