/** Marks of an axis of time, and of durations. */
import { duration } from './units';

/** Steps of a clock (ns): what people count in. */
const STEPS = [1e3, 1e6, 1e9].flatMap((unit) => [1, 2, 5, 10, 20, 50, 100, 200, 500].map((n) => n * unit)).filter((n) => n <= 1e9);
const LONGER = [2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400].map((n) => n * 1e9);

export interface Tick {
  /** ns from the recording's begin. */
  at: number;
  text: string;
}

/** The step between marks of a span (ns), so that there are at most `most`. */
export function step(span: number, most: number): number {
  const least = span / Math.max(1, most);
  return [...STEPS, ...LONGER].find((s) => s >= least) ?? Math.ceil(least / 86_400e9) * 86_400e9;
}

/** Marks between two times (ns from the recording's begin), at most `most`. `begin` (ns since 1970) is where the recording began; with `clock` they are times of day in UTC. */
export function ticks(from: number, to: number, most: number, begin: number, clock: boolean): Tick[] {
  const by = step(Math.max(1, to - from), most);
  // of a time of day round ones, which need not be round from the begin; what a number cannot hold exactly is not shown
  const shift = clock ? ((begin % by) + by) % by : 0;
  const out: Tick[] = [];
  for (let at = Math.ceil((from + shift) / by) * by - shift; at <= to; at += by) {
    if (at >= from) out.push({ at, text: clock ? time(begin + at, by) : `+${duration(Math.round(at))}` });
  }
  return out;
}

/** A time of day in UTC, as exactly as a step (ns) needs. */
export function time(ns: number, by: number): string {
  const text = new Date(ns / 1e6).toISOString();
  return by >= 60e9 ? text.slice(11, 16) : by >= 1e9 ? text.slice(11, 19) : text.slice(11, 23);
}

/** Round durations between two (ns) for an axis of logarithms: powers of ten, and where there are hardly any, steps of 1, 2 and 5. */
export function powers(low: number, high: number): number[] {
  const of = (steps: number[]) => {
    const out: number[] = [];
    for (let ten = 10 ** Math.floor(Math.log10(Math.max(1, low)) + 1e-9); ten <= high; ten *= 10) {
      out.push(...steps.map((s) => s * ten).filter((ns) => ns >= low * 0.999999 && ns <= high * 1.000001));
    }
    return out;
  };
  const tens = of([1]);
  return tens.length >= 2 ? tens : of([1, 2, 5]);
}

/** Of marks in order those that have room: so far from each other (pixels). */
export function apart(marks: number[], at: (mark: number) => number, least: number): number[] {
  const out: number[] = [];
  for (const mark of marks) if (out.length === 0 || Math.abs(at(mark) - at(out.at(-1)!)) >= least) out.push(mark);
  return out;
}
