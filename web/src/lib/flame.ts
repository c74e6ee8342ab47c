/** Stacks as a tree, and its boxes from the top: the wider, the more time. */
import type { Stack } from './answers';

export interface Box {
  /** Names from the host down. */
  path: string[];
  cause: string | null;
  depth: number;
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
  below: Map<string, Node>;
}

const made = (): Node => ({ ns: 0, others: 0, cause: null, below: new Map() });

/** The boxes below `root` (names from the host down), none narrower than `least` of the whole. */
export function boxes(stacks: Stack[], root: string[], least: number): Box[] {
  const top = made();
  for (const s of stacks) {
    const names = [s.host, s.service, s.program, s.cause, s.by].filter((n) => n !== '');
    if (root.some((name, i) => names[i] !== name)) continue;
    let node = top;
    add(node, s);
    names.forEach((name, i) => {
      if (!node.below.has(name)) node.below.set(name, made());
      node = node.below.get(name)!;
      if (i >= 3) node.cause = s.cause;
      add(node, s);
    });
  }
  const out: Box[] = [];
  const whole = Math.max(1, size(top));
  const lay = (node: Node, path: string[], left: number) => {
    let at = left;
    for (const [name, n] of [...node.below].sort((a, b) => size(b[1]) - size(a[1]) || (a[0] < b[0] ? -1 : 1))) {
      const width = size(n) / whole;
      if (width >= least) {
        const down = [...path, name];
        out.push({ path: down, cause: n.cause, depth: path.length, left: at, width, ns: n.ns, others: n.others });
        lay(n, down, at);
      }
      at += width;
    }
  };
  lay(top, [], 0);
  return out;
}

function add(node: Node, s: Stack) {
  node.ns += s.duration_ns;
  node.others += s.others_ns;
}

/** What the width of a box says: the time of the selected ones. */
const size = (node: Node) => node.ns;
