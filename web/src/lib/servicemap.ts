/** The service map: where services and the calls between them are drawn, and which is next to which. */
import dagre from '@dagrejs/dagre';
import type { Edge, Service, ServiceMap } from './answers';

export const WIDTH = 190;
export const HEIGHT = 62;

export interface Point {
  x: number;
  y: number;
}

/** A service, or the calls from one to another: what requests can be selected by. */
export interface Item {
  id: string;
  service: string;
  /** Whom it calls; empty of a service. */
  calls: string;
  /** Its middle. */
  at: Point;
}

export interface Node extends Item {
  of: Service;
}

export interface Way extends Item {
  of: Edge;
  points: Point[];
}

export interface Laid {
  nodes: Node[];
  ways: Way[];
  width: number;
  height: number;
}

/** Names of services are distinct, and none has a line break. */
const idOf = (service: string, calls: string) => `${service}\n${calls}`;

export function laid(answer: ServiceMap): Laid {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: 'LR', nodesep: 24, ranksep: 110, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const s of answer.services) graph.setNode(s.service, { width: WIDTH, height: HEIGHT });
  for (const e of answer.edges) graph.setEdge(e.caller, e.service);
  dagre.layout(graph);
  const nodes = answer.services.map((of) => ({ id: idOf(of.service, ''), service: of.service, calls: '', at: graph.node(of.service) as Point, of }));
  const ways = answer.edges.map((of) => {
    const points = (graph.edge(of.caller, of.service) as { points: Point[] }).points;
    return { id: idOf(of.caller, of.service), service: of.caller, calls: of.service, at: points[Math.floor(points.length / 2)] ?? { x: 0, y: 0 }, points, of };
  });
  const { width = 10, height = 10 } = graph.graph();
  return { nodes, ways, width, height };
}

/** Whether somebody means it by a name, which may leave out the port. */
export function isCalled(name: string, wanted: string): boolean {
  return name === wanted || (wanted !== '' && name.startsWith(wanted) && /^:\d+$/.test(name.slice(wanted.length)));
}

/** Left to right, then down. */
const inOrder = <T extends Item>(items: T[]) => [...items].sort((a, b) => a.at.x - b.at.x || a.at.y - b.at.y);

/** Where a key leads: right and left along the calls, up and down among services, or among calls; `undefined`: nowhere. */
export function neighbour({ nodes, ways }: Laid, from: Item, key: string): Item | undefined {
  const isWay = from.calls !== '';
  const service = (name: string) => nodes.find((n) => n.service === name);
  const step = (by: number) => {
    const all = inOrder<Item>(isWay ? ways : nodes);
    return all[all.findIndex((i) => i.id === from.id) + by];
  };
  switch (key) {
    // the way with most calls is the first
    case 'ArrowRight': return isWay ? service(from.calls) : ways.find((w) => w.service === from.service);
    case 'ArrowLeft': return isWay ? service(from.service) : ways.find((w) => w.calls === from.service);
    case 'ArrowDown': return step(1);
    case 'ArrowUp': return step(-1);
    case 'Home': return inOrder(nodes)[0];
    case 'End': return inOrder(nodes).at(-1);
    default: return undefined;
  }
}
