/**
 * Page's sequential test (CUSUM) on success and failure: each failure adds to a score, each success takes from it, never below 0; at the
 * limit the channel is blocked. The steps are the log likelihood ratios of "failing" against "healthy", in whole units, so that Lua and
 * TypeScript compute the same. E. S. Page, "Continuous inspection schemes", Biometrika 41 (1954).
 */
export type SequentialTest = {
  /** What a failure adds, and a success takes away. */
  readonly up: number;
  readonly down: number;
  /** Blocked at this score. */
  readonly limit: number;
};

export const FALSE_BLOCKS_PATTERN = /^\d{1,5}(?:\.\d{1,3})? per (?:thousand|million|billion)$/;
const PER = { thousand: 1e3, million: 1e6, billion: 1e9 } as const;
/** The steps keep the ratio of the likelihoods this well: within it a healthy channel's score still falls, however near failing is. */
const RATIO_WITHIN = 0.01;

/** False blocks per call; `undefined`: not such a text, or not from 1 per billion to 10 per thousand. */
export function parseFalseBlocks(text: string): number | undefined {
  const match = FALSE_BLOCKS_PATTERN.test(text) ? /^(\S+) per (\w+)$/.exec(text) : null;
  if (match === null) return undefined;
  const share = Number(match[1]) / PER[match[2] as keyof typeof PER];
  return share >= 1e-9 && share <= 0.01 ? share : undefined;
}

/** The text that {@link parseFalseBlocks} reads back, to the last bit, if such a text was where it came from. @param share false blocks per call */
export function formatFalseBlocks(share: number): string {
  const texts = Object.entries(PER).map(([name, calls]) => `${Number((share * calls).toFixed(3))} per ${name}`);
  const exact = texts.filter((text) => parseFalseBlocks(text) === share);
  return exact.find((text) => !text.startsWith('0.')) ?? exact[0] ?? texts.at(-1)!;
}

const made = new Map<string, SequentialTest>();

/**
 * The test whose false blocks, on a channel that is exactly `healthy`, are at most `falseBlocks` per call: the smallest such limit.
 *
 * @param healthy, failing shares of successes, between 0 and 1, `failing` below `healthy`
 */
export function sequentialTest(healthy: number, failing: number, falseBlocks: number): SequentialTest {
  const name = `${healthy} ${failing} ${falseBlocks}`;
  const found = made.get(name);
  if (found) return found;
  const failure = Math.log((1 - failing) / (1 - healthy));
  const success = Math.log(healthy / failing);
  const { up, down } = wholeSteps(failure, success);
  const isRare = (limit: number) => callsToBlock({ up, down, limit }, healthy) * falseBlocks >= 1;
  let [low, high] = [0, up];
  while (!isRare(high)) [low, high] = [high, 2 * high];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (isRare(middle)) high = middle;
    else low = middle;
  }
  const test = { up, down, limit: high };
  if (made.size >= 1_000) made.clear();
  made.set(name, test);
  return test;
}

/** The smallest whole numbers that are to each other as the two steps are. Small, because the chain has as many states as the limit. */
function wholeSteps(failure: number, success: number): { up: number; down: number } {
  for (let parts = 1; ; parts += 1) {
    const unit = Math.min(failure, success) / parts;
    const [up, down] = [Math.round(failure / unit), Math.round(success / unit)];
    if (Math.abs((up * success) / (down * failure) - 1) <= RATIO_WITHIN) return { up, down };
  }
}

/**
 * How many calls it takes on average until the test blocks, from score 0, at a steady share of successes: exact, from the Markov chain of
 * the score. With L(s) calls left at score s: L(s) = 1 + p L(max(0, s - down)) + (1 - p) L(s + up), and L(s) = 0 from the limit on.
 *
 * @param successes share of successes, 0 to 1; at 1 the answer is Infinity
 */
export function callsToBlock({ up, down, limit }: SequentialTest, successes: number): number {
  // From the highest score down, each L(s) is written as a constant and shares of the `down` scores below it: `rows[s][i]` is that of
  // L(s - down + i). What the equation says of higher scores is put in from theirs; what it then says of L(s) itself is divided out.
  const rows: Float64Array[] = new Array(limit);
  const constants = new Float64Array(limit);
  for (let s = limit - 1; s >= 0; s -= 1) {
    /** Shares of L(s - down) to L(s + up). */
    const shares = new Float64Array(down + up + 1);
    let constant = 1;
    shares[Math.max(0, down - s)]! += successes;
    if (s + up < limit) shares[down + up]! += 1 - successes;
    for (let k = Math.min(s + up, limit - 1); k > s; k -= 1) {
      const share = shares[down + k - s]!;
      if (share === 0) continue;
      constant += share * constants[k]!;
      const theirs = rows[k]!;
      for (let i = 0; i < down; i += 1) shares[k - s + i]! += share * theirs[i]!;
    }
    const left = 1 - shares[down]!;
    constants[s] = constant / left;
    rows[s] = shares.slice(0, down).map((share) => share / left);
  }
  return constants[0]!;
}

/** Failures in a row, from score 0, after which the test blocks. */
export function failuresToBlock({ up, limit }: SequentialTest): number {
  return Math.ceil(limit / up);
}
