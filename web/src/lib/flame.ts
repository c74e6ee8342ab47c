/** Stacks as a tree, and its boxes from the top: the wider, the more time. */
import type { Stack } from './answers';

/** Levels of a stack, from the top. */
export const LEVELS = ['host', 'service', 'program', 'cause', 'waited for'];
/** The level of causes: from here on boxes have a cause's colour. */
const CAUSE = 3;

/** A name at a level: what is the same in all stacks that have it. */
export interface Frame {
  level: number;
  name: string;
}

export interface Box {
  id: string;
  /** Names from where the drawing begins: the host, or the frame that callers and callees are asked of, nearest first. */
  path: string[];
  level: number;
  cause: string | null;
  /** From the top of the drawing. */
  row: number;
  /** The box that it stands on, towards where the drawing begins; empty of the first. */
  inner: string;
  /** Whether it stands above what it stands on. */
  isCaller: boolean;
  /** From 0 to 1. */
  left: number;
  width: number;
  ns: number;
  others: number;
}

interface Node {
  ns: number;
  others: number;
  cause: string | null;
  level: number;
  below: Map<string, Node>;
}

const made = (level: number): Node => ({ ns: 0, others: 0, cause: null, level, below: new Map() });
const namesOf = (s: Stack) => [s.host, s.service, s.program, s.cause, s.by].filter((n) => n !== '');

function add(node: Node, s: Stack) {
  node.ns += s.duration_ns;
  node.others += s.others_ns;
}

/** A tree of stacks; `frames` gives the names of one from where the drawing begins, each with its level. */
function tree(stacks: Stack[], frames: (names: string[]) => Frame[] | null): Node {
  const top = made(-1);
  for (const s of stacks) {
    const all = frames(namesOf(s));
    if (all === null) continue;
    let node = top;
    add(node, s);
    for (const { level, name } of all) {
      if (!node.below.has(name)) node.below.set(name, made(level));
      node = node.below.get(name)!;
      if (level >= CAUSE) node.cause = s.cause;
      add(node, s);
    }
  }
  return top;
}

/** The boxes of a tree, none narrower than `least` of it, `row` of the first level and which way the next ones lie. */
function laid(top: Node, least: number, row: number, step: 1 | -1, first: string): Box[] {
  const out: Box[] = [];
  const whole = Math.max(1, top.ns);
  const lay = (node: Node, path: string[], inner: string, left: number) => {
    let at = left;
    for (const [name, n] of [...node.below].sort((a, b) => b[1].ns - a[1].ns || (a[0] < b[0] ? -1 : 1))) {
      const width = n.ns / whole;
      if (width >= least) {
        const down = [...path, name];
        const id = JSON.stringify([step, ...down]);
        const { level, cause, ns, others } = n;
        out.push({ id, path: down, level, cause, row: row + step * path.length, inner, isCaller: step < 0, left: at, width, ns, others });
        lay(n, down, id, at);
      }
      at += width;
    }
  };
  lay(top, [], first, 0);
  return out;
}

/** The boxes below `root` (names from the host down), none narrower than `least` of the whole. */
export function boxes(stacks: Stack[], root: string[], least: number): Box[] {
  const inside = (names: string[]) => (root.every((name, i) => names[i] === name) ? names.map((name, level) => ({ name, level })) : null);
  return laid(tree(stacks, inside), least, 0, 1, '');
}

/** A frame in the middle; above it whose time it was, nearest first, and below it what that went to. */
export function sandwich(stacks: Stack[], frame: Frame, least: number): Box[] {
  const has = (names: string[]) => names[frame.level] === frame.name;
  const callers = tree(stacks, (names) => (has(names) ? names.slice(0, frame.level).map((name, level) => ({ name, level })).reverse() : null));
  const callees = tree(stacks, (names) => (has(names) ? names.map((name, level) => ({ name, level })).slice(frame.level + 1) : null));
  if (callees.ns === 0) return [];
  const cause = frame.level === CAUSE ? frame.name : null;
  const id = JSON.stringify([0, frame.name]);
  const { level, name } = frame;
  const middle: Box = { id, path: [name], level, cause, row: level, inner: '', isCaller: false, left: 0, width: 1, ns: callees.ns, others: callees.others };
  return [middle, ...laid(callers, least, level - 1, -1, id), ...laid(callees, least, level + 1, 1, id)];
}

/** All frames, those with most time first. */
export function frames(stacks: Stack[]): (Frame & { ns: number })[] {
  const found = new Map<string, Frame & { ns: number }>();
  for (const s of stacks) {
    namesOf(s).forEach((name, level) => {
      const key = JSON.stringify([level, name]);
      const frame = found.get(key) ?? { level, name, ns: 0 };
      frame.ns += s.duration_ns;
      found.set(key, frame);
    });
  }
  return [...found.values()].sort((a, b) => b.ns - a.ns || a.level - b.level || (a.name < b.name ? -1 : 1));
}

/** The box that a key leads to from `from`; `undefined` where there is none. */
export function neighbour(all: Box[], from: Box, key: string): Box | undefined {
  const row = all.filter((o) => o.row === from.row);
  const i = row.indexOf(from);
  const inner = all.find((o) => o.id === from.inner);
  const above = all.find((o) => o.inner === from.id && o.isCaller);
  const below = all.find((o) => o.inner === from.id && !o.isCaller);
  switch (key) {
    case 'ArrowRight':
      return row[i + 1];
    case 'ArrowLeft':
      return row[i - 1];
    case 'ArrowDown':
      return from.isCaller ? inner : below;
    case 'ArrowUp':
      return from.isCaller || from.inner === '' ? above : inner;
    case 'Home':
      return all[0];
    default:
      return undefined;
  }
}
