/** Arrows of a waterfall. */
import type { Slice } from './answers';
import type { Row } from './waterfall';

export interface Arrow {
  /** A call, or a step of the critical path from one span to another. */
  kind: 'call' | 'path';
  /** When, from the request's begin. */
  ns: number;
  /** Rows. */
  from: number;
  to: number;
}

/** More would be a surface. */
const MOST = 1000;
/** Of alike siblings in one row, so many have an arrow. */
const ALIKE = 20;

/** From the rows that are shown; `begin`: the request's (ns since 1970). */
export function arrows(rows: Row[], slices: Slice[], begin: number): Arrow[] {
  const row = new Map<number, number>();
  rows.forEach((r, i) => r.spans.forEach((s) => row.set(s.span, i)));
  const out: Arrow[] = [];
  rows.forEach((r, to) => {
    // those of a row that is open have rows of their own
    for (const s of r.open ? [] : r.spans.slice(0, ALIKE)) {
      const from = s.parent === null ? undefined : row.get(s.parent);
      if (from !== undefined && from !== to) out.push({ kind: 'call', ns: Math.max(0, s.offset_ns), from, to });
    }
  });
  let last: Slice | null = null;
  for (const s of slices) {
    const [from, to] = [last?.span, s.span].map((n) => (n === null || n === undefined ? undefined : row.get(n)));
    if (from !== undefined && to !== undefined && from !== to) out.push({ kind: 'path', ns: s.from_ns - begin, from, to });
    last = s;
  }
  return out.slice(0, MOST);
}
