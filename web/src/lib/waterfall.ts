/** Rows of a request's waterfall: its spans as a tree, with siblings that are alike collapsed into one row. */
import type { Slice, Span } from './answers';

/** So many alike next to each other become one row. */
const ALIKE_MIN = 3;

export interface Row {
  /** A name for it that stays the same when other rows open: the first span's number. */
  key: string;
  /** One span, or several alike. */
  spans: Span[];
  depth: number;
  /** Of several alike: whether each has a row below. */
  open: boolean;
}

/** Rows from top to bottom; `opened` has the keys of those that are shown one by one. */
export function rows(spans: Span[], opened: ReadonlySet<string>): Row[] {
  const children = new Map<number | null, Span[]>();
  for (const s of spans) children.set(s.parent, [...(children.get(s.parent) ?? []), s]);
  const out: Row[] = [];
  const leaf = (s: Span) => !children.has(s.span);
  const alike = (a: Span, b: Span) => a.service === b.service && a.asked === b.asked && a.failed === b.failed && leaf(a) && leaf(b) && a.hole === b.hole;
  const add = (of: Span[], depth: number) => {
    for (let i = 0; i < of.length; ) {
      const first = of[i]!;
      let end = i + 1;
      while (end < of.length && alike(first, of[end]!)) end++;
      const run = of.slice(i, end);
      const key = String(first.span);
      const grouped = run.length >= ALIKE_MIN;
      if (grouped) out.push({ key: `x${key}`, spans: run, depth, open: opened.has(`x${key}`) });
      if (!grouped || opened.has(`x${key}`)) {
        for (const s of run) {
          out.push({ key: String(s.span), spans: [s], depth: depth + (grouped ? 1 : 0), open: false });
          add(children.get(s.span) ?? [], depth + 1);
        }
      }
      i = end;
    }
  };
  add(children.get(null) ?? [], 0);
  return out;
}

/** A part of the critical path as it is drawn. */
export interface Drawn {
  /** Of the request's length, 0 to 1. */
  from: number;
  to: number;
  slice: Slice;
}

/** The slices that lie in each span, in order of time; those too short for `parts` of the width are joined to the longest near them. */
export function drawn(slices: Slice[], begin: number, length: number, parts: number): Map<number, Drawn[]> {
  const out = new Map<number, Drawn[]>();
  for (const slice of slices) {
    if (slice.span === null) continue;
    const from = (slice.from_ns - begin) / length;
    const to = (slice.to_ns - begin) / length;
    const of = out.get(slice.span) ?? [];
    const last = of.at(-1);
    const cell = (at: number) => Math.floor(at * parts);
    if (last && cell(last.from) === cell(from) && cell(from) === cell(to)) {
      last.to = to;
      if (slice.duration_ns > last.slice.duration_ns) last.slice = slice;
    } else {
      of.push({ from, to, slice });
    }
    out.set(slice.span, of);
  }
  return out;
}
