/**
 * A matcher for a glob in which `*` stands for any run of characters, none included, and nothing else is special. Each piece
 * between stars is looked for once, from left to right, and never again: taking the first place that fits is always right when
 * only the last piece is tied to the end, so there is nothing to go back to, whatever the pattern.
 */
export function glob(pattern: string): (text: string) => boolean {
  const pieces = pattern.split('*');
  if (pieces.length === 1) return (text) => text === pattern;
  const first = pieces[0]!;
  const last = pieces.at(-1)!;
  const middle = pieces.slice(1, -1).filter((piece) => piece !== '');
  return (text) => {
    if (!text.startsWith(first) || !text.endsWith(last)) return false;
    const end = text.length - last.length;
    let at = first.length;
    for (const piece of middle) {
      const found = text.indexOf(piece, at);
      if (found < 0) return false;
      at = found + piece.length;
    }
    return at <= end;
  };
}

/** Whether a name in the rules is a pattern: a star anywhere makes it one. */
export function isPattern(name: string): boolean {
  return name.includes('*');
}
