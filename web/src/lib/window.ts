/** The time that is shown of a recording, in ns from its begin. */
export interface Shown {
  from: number;
  to: number;
}

/** Of a recording no less time is shown (ns): moments since 1970 are not told apart more closely by the numbers of a page. */
const LEAST = 20_000;

/** Time around a point that stays where it is, `factor` times as long; within the recording of `whole` ns. */
export function zoomed(shown: Shown, at: number, factor: number, whole: number, least = LEAST): Shown {
  const length = Math.min(whole, Math.max(least, (shown.to - shown.from) * factor));
  const part = (at - shown.from) / Math.max(1, shown.to - shown.from);
  return within({ from: at - part * length, to: at + (1 - part) * length }, whole);
}

/** Moved by a part of its length. */
export function moved(shown: Shown, part: number, whole: number): Shown {
  const by = (shown.to - shown.from) * part;
  return within({ from: shown.from + by, to: shown.to + by }, whole);
}

function within(shown: Shown, whole: number): Shown {
  const length = Math.min(whole, shown.to - shown.from);
  const from = Math.round(Math.min(Math.max(0, shown.from), whole - length));
  return { from, to: Math.round(from + length) };
}

/** A moment as the commands take it. */
export function moment(ns: number): string {
  return `+${Math.max(0, Math.round(ns))}ns`;
}

/** A moment that this page wrote (ns); `null` where it is another one. */
export function written(text: string): number | null {
  const found = /^\+?(\d+)ns$/.exec(text);
  return found ? Number(found[1]) : null;
}

const UNITS: Record<string, number> = { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9, '': 1e9, m: 60e9, min: 60e9, h: 3600e9 };

/** A moment as people write it (`+1.5s`, `-5m` before the end), in ns from the begin of a recording of `whole` ns; `null` where it is in another form. */
export function momentOf(text: string, whole: number): number | null {
  const found = /^([+-]?)(\d+(?:\.\d+)?)(ns|us|µs|ms|s|min|m|h)$/.exec(text);
  if (!found || found[1] === '') return null;
  const ns = Number(found[2]) * UNITS[found[3]!]!;
  return found[1] === '-' ? Math.max(0, whole - ns) : ns;
}

/** A span of time as people write it (`20ms`), in ns; `null` where it is none. */
export function spanOf(text: string): number | null {
  const found = /^(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|min|m|h)$/.exec(text.trim());
  return found ? Number(found[1]) * UNITS[found[2]!]! : null;
}
