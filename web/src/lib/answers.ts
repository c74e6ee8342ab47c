/** The parts of the commands' answers that the page shows; docs/schemas has all of them. */
import type { Document } from './asked.svelte';

export interface Brief extends Document {
  from_ns: number | null;
  span_ns: number;
  recordings: number;
  bytes: number;
  rows: number;
  tables: { table: string; rows: number }[];
  hosts: { name: string; kernel_release: string }[];
}

export interface Triage extends Document {
  requests: number | null;
  late: string[];
  findings: { section: string; level: string; sentence: string; next: string | null; since_ns?: number | null }[];
}

export interface Kind {
  service: string;
  asked: string;
  count: number;
  rate_per_s: number | null;
  p50_ns: number;
  p95_ns: number;
  p99_ns: number;
  max_ns: number;
  failed: number;
  left: number;
  reset: number;
  cut: number;
  outcome_unknown: number;
  unreplied: number;
  incomplete: number;
  slowest: string[];
  statuses: [number, number][];
  tiers: { service: string; asked: { asked: string; calls_per_request: number; requests: number }[] }[];
}

/** Something found, in words. */
export interface Sentence {
  sentence: string;
}

export interface Requests extends Document {
  span_ns: number;
  requests: number;
  kinds: Kind[];
  orphans: { service: string; count: number }[];
  full_queues: Sentence[];
  held_replies: Sentence[];
}

export interface One {
  request: string;
  service: string;
  asked: string;
  at_ns: number;
  duration_ns: number;
  status: number;
  failed: boolean | null;
  end: 'answered' | 'client_left' | 'reset' | 'cut' | 'unfinished';
  complete: boolean;
  spans: number;
  largest: { cause: string; service: string; duration_ns: number } | null;
}

export interface Each extends Document {
  found: number;
  slowest: number;
  one_in: number;
  from_ns: number;
  to_ns: number;
  requests: One[];
}

export interface TimeColumn {
  from_ns: number;
  to_ns: number;
  requests: number;
  rate_per_s: number | null;
  paused_ns: number;
  errors: number;
  unfinished: number;
  p50_ns: number | null;
  p99_ns: number | null;
  max_ns: number | null;
}

export interface TimeCell {
  column: number;
  least_ns: number;
  below_ns: number;
  requests: number;
  errors: number;
}

export interface OverTime extends Document {
  from_ns: number;
  to_ns: number;
  requests: number;
  errors: number;
  column_ns: number;
  columns: TimeColumn[];
  bounds_ns: number[];
  cells: TimeCell[];
}

export interface Common extends Document {
  selected: number;
  others: number;
  selected_with_cause: number;
  others_with_cause: number;
  values: { attribute: string; value: string; selected: number; others: number; selected_share: number; others_share: number }[];
  further: number;
}

export interface Calls {
  calls: number;
  failed: number;
  rate_per_s: number | null;
  mean_ns: number;
  p50_ns: number;
  p99_ns: number | null;
  max_ns: number;
}

export interface Service extends Calls {
  service: string;
  entries: number;
  depth: number;
  unwatched: boolean;
  self_ns: number;
  self_unsure_ns: number;
}

export interface Edge extends Calls {
  caller: string;
  service: string;
  calls_per_request: number;
  requests: number;
}

export interface ServiceMap extends Document {
  span_ns: number;
  requests: number;
  incomplete: number;
  services: Service[];
  edges: Edge[];
}

/** What is counted and measured on one side of a comparison. */
export interface Figures {
  count: number;
  rate_per_s: number | null;
  per_request: number;
  mean_ns: number | null;
  p50_ns: number | null;
  p99_ns: number | null;
  max_ns: number | null;
  errors: number;
  slowest: string | null;
}

/** A kind, a service, or the calls between two, on both sides of a comparison. */
export interface Change {
  service: string;
  caller: string;
  asked: string;
  unwatched: boolean;
  more_ns: number | null;
  selected: Figures | null;
  against: Figures | null;
}

/** An interval of a task's time. */
export interface Interval {
  from_ns: number;
  duration_ns: number;
  host: string;
  task: string;
  state: string;
  syscall: string | null;
  by: string | null;
}

/** Waits in a system call; none: page faults, and tasks of the kernel. */
export interface CallWaits {
  syscall: string | null;
  count: number;
  duration_ns: number;
  p50_ns: number;
  p99_ns: number;
  state: string;
  longest: Interval;
}

/** The requests of one side. */
export interface Side {
  name: string;
  span_ns: number;
  requests: number;
  incomplete: number;
}

export interface Compares extends Document {
  selected: Side;
  against: Side;
}

export interface KindsCompared extends Compares {
  kinds: Change[];
}

export interface MapCompared extends Compares {
  services: Change[];
  edges: Change[];
}

export interface OpenCall {
  asked: string;
  remote: string;
  task: string;
  offset_ns: number;
  others: number;
}

export interface Span {
  span: number;
  parent: number | null;
  depth: number;
  host: string;
  service: string;
  task: string;
  flow: string;
  asked: string;
  status: number;
  error: string;
  failed: boolean | null;
  reset: boolean;
  left_ns: number | null;
  offset_ns: number;
  duration_ns: number;
  self_ns: number;
  queued_ns: number;
  between_ns: number | null;
  evidence: string;
  hole: string;
  watched: boolean;
  queued: boolean;
  refused: { task: string; remote: string; why: string; offset_ns: number }[];
  open_calls: OpenCall[];
}

export interface Proof {
  span: number | null;
  asked: string;
  task: string;
  offset_ns: number;
  rule: string;
  strength: string;
  verdict: string;
  candidates: {
    kind: string;
    asked: string;
    offset_ns: number | null;
    remains: boolean;
    excluded: { rule: string; says: string; strength: string; cases: number | null }[];
  }[];
  more: number;
}

export interface Show extends Document {
  request: string;
  service: string;
  asked: string;
  wall_ns: number | null;
  duration_ns: number;
  complete: boolean;
  spans: Span[];
  proofs: Proof[] | null;
}

export interface Slice {
  from_ns: number;
  to_ns: number;
  duration_ns: number;
  host: string;
  task: string;
  state: string;
  wait: string | null;
  by: string | null;
  syscall: string | null;
  object: string | null;
  depth: number;
  span: number | null;
  evidence: string;
  reason: string | null;
}

export interface Sum {
  name: string;
  duration_ns: number;
  slices: number;
}

export interface Waits extends Document {
  title: string;
  from_ns: number;
  to_ns: number;
  elapsed_ns: number;
  unknown_ns: number;
  slices: Slice[];
  by_host: Sum[];
  by_task: Sum[];
  by_cause: Sum[];
  by_reason: Sum[];
}

export interface Group {
  label: string;
  found: number;
  count: number;
  is_sample: boolean;
  mean_ns: number;
  incomplete: number;
  unanswered: number;
}

export interface Difference {
  rank: number;
  cause: string;
  text: string;
  service: string;
  host: string;
  more_ns: number;
  share: number;
  slow_ns: number;
  typical_ns: number;
  requests_with: number;
  examples: string[];
}

export interface CallDifference {
  service: string;
  kind: string;
  slow: number;
  typical: number;
  requests_with: number;
}

export interface KindCompared {
  kind: string;
  service: string;
  requests: number;
  sentence: string;
  slow: Group;
  typical: Group;
  more_ns: number;
  differences: Difference[];
  rest_ns: number;
  calls: CallDifference[];
}

export interface Why extends Document {
  mode: string;
  kinds: KindCompared[];
  too_few_kinds: number;
  too_few_requests: number;
  further_kinds: number;
  one_sided: { service: string; kind: string; requests: number }[];
  held_replies: Sentence[];
}

export interface Open extends Document {
  head: string;
  circles: Sentence[];
  full_queues: Sentence[];
  requests: { request: string; service: string; kind: string; age_ns: number; place: string }[];
  open_before: number;
  before_sentence: string | null;
  before: { age_ns: number; process: string; task: string | null; text: string }[];
}

export interface StateSum {
  state: string;
  duration_ns: number;
  count: number;
}

export interface TimePart {
  from_ns: number;
  to_ns: number;
  state: string;
  duration_ns: number;
  count: number;
  by: string | null;
  syscall: string | null;
}

export interface TaskTrack {
  host: string;
  task: string;
  program: string;
  waits: number;
  serves: boolean;
  by_state: StateSum[];
  parts: TimePart[];
}

export interface PathPart {
  from_ns: number;
  to_ns: number;
  host: string;
  task: string;
  state: string;
  duration_ns: number;
  count: number;
}

export interface Held {
  from_ns: number;
  to_ns: number;
  task: string;
  program: string;
  duration_ns: number;
  count: number;
}

export interface Processor {
  host: string;
  cpu: number;
  held_ns: number;
  by_task: { task: string; program: string; duration_ns: number; count: number }[];
  more_tasks: number;
  parts: Held[];
}

export interface Timeline extends Document {
  begin_ns: number;
  end_ns: number;
  from_ns: number;
  to_ns: number;
  column_ns: number;
  more_tasks: number;
  by_state: StateSum[];
  tasks: TaskTrack[];
  path: PathPart[] | null;
  processors: Processor[] | null;
  /** Waits of all tasks that fit the question, by system call; most time first. */
  syscalls: CallWaits[] | null;
  /** Their intervals in order of time: the first ones, and how many more match. */
  events: { events: Interval[]; more: number } | null;
}

export interface Stack {
  host: string;
  service: string;
  program: string;
  cause: string;
  by: string;
  duration_ns: number;
  slices: number;
  others_ns: number;
}

export interface FlameGroup {
  requests: number;
  elapsed_ns: number;
  incomplete: number;
  unanswered: number;
}

export interface Flame extends Document {
  selected: FlameGroup;
  others: FlameGroup | null;
  stacks: Stack[];
}

export interface Figure {
  measured: number;
  replayed: number;
  value: number;
  /** The error bar; null where the recording is too short to know it. */
  low: number | null;
  high: number | null;
}

export interface Forecast extends Document {
  calibration: { holds: boolean };
  arrivals: { why: string };
  unit: string;
  changes: { change: string; done: string[] }[];
  forecast: Partial<Record<'throughput_per_s' | 'mean_ns' | 'p50_ns' | 'p95_ns' | 'p99_ns', Figure | null>>;
  assumptions: string[];
  bottlenecks: { bottleneck: { limits: string[]; gain: number; now: number | null; enough: number | null; changes: string[] } }[];
}

/** Whether a request went wrong, in a word; empty where nothing says so. */
export function trouble(r: { end: string; failed: boolean | null; status: number }): string {
  if (r.end !== 'answered') return r.end.replace('_', ' ');
  return r.failed === true ? (r.status === 0 ? 'failed' : String(r.status)) : '';
}
