/** The service map: where services and the calls between them are drawn, and which is next to which. */
import dagre from '@dagrejs/dagre';
import type { Calls, Edge, Figures, MapCompared, Service, ServiceMap } from './answers';

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
  /** How wide what stands on a line is (pixels). */
  label: number;
  width: number;
  height: number;
}

const callsOf = (f: Figures): Calls => ({ calls: f.count, failed: f.errors, rate_per_s: f.rate_per_s, mean_ns: f.mean_ns ?? 0, p50_ns: f.p50_ns ?? 0, p99_ns: f.p99_ns, max_ns: f.max_ns ?? 0 });

/** The services and calls of both sides of a comparison as one map, each with the figures of now; those that are gone with those that they had. */
export function sidesAsMap(compared: MapCompared): ServiceMap {
  const { schema, version, losses, selected } = compared;
  const services = compared.services.flatMap((c): Service[] => {
    const figures = c.selected ?? c.against;
    return figures ? [{ service: c.service, entries: 0, depth: 0, unwatched: c.unwatched, self_ns: 0, self_unsure_ns: 0, ...callsOf(figures) }] : [];
  });
  const edges = compared.edges.flatMap((c): Edge[] => {
    const figures = c.selected ?? c.against;
    return figures ? [{ caller: c.caller, service: c.service, calls_per_request: figures.per_request, requests: 0, ...callsOf(figures) }] : [];
  });
  return { schema, version, losses, span_ns: selected.span_ns, requests: selected.requests, incomplete: selected.incomplete, services, edges };
}

/** Names of services are distinct, and none has a line break. */
const idOf = (service: string, calls: string) => `${service}\n${calls}`;

/** `label`: how wide what stands on a line is (pixels). */
export function laid(answer: ServiceMap, label: number): Laid {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: 'LR', nodesep: 24, ranksep: label + 18, marginx: 8, marginy: 8 });
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
  return { nodes, ways, label, width, height };
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
