/**
 * Turns totals that somebody else counts into increments: calls `add` with what each total grew by since the last time. Totals only
 * grow, so that a scrape may come at any moment.
 */
export function counterDeltas(
  add: (name: string, by: number) => void,
): (totals: Readonly<Record<string, number>>) => void {
  const told = new Map<string, number>();
  return (totals) => {
    for (const [name, total] of Object.entries(totals)) {
      add(name, total - (told.get(name) ?? 0));
      told.set(name, total);
    }
  };
}
