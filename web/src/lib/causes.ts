/** Colours and words of causes (`wakepath why`) and of states (`wakepath waits`). The colours are in page.css. */

const COLOUR: Record<string, string> = {
  cpu: 'running', running: 'running',
  preempted: 'preempted', quota: 'preempted',
  lock: 'lock', futex: 'lock', gc: 'lock', safepoint: 'lock',
  network: 'network', packet_loss: 'network', delayed_ack: 'network', late_ack: 'network', slow_reader: 'network', unread: 'network',
  dns: 'dns', unwatched: 'unwatched', unanswered: 'unwatched',
  disk: 'disk', page_fault: 'disk', 'page fault': 'disk',
  timer: 'timer', stopped: 'timer',
  queue: 'queue', queued: 'queue', accept_queue: 'queue', isolation: 'queue',
  task: 'task', input: 'task', 'user input': 'task', interrupt: 'interrupt',
};

/** The name of its colour: `--c-NAME`. */
export function colour(cause: string | null | undefined): string {
  return COLOUR[cause ?? ''] ?? 'unknown';
}

const WORDS: Record<string, string> = {
  cpu: 'computing', preempted: 'waiting for a processor', quota: 'CPU quota used up', futex: 'futex until its timeout',
  packet_loss: 'packets lost', delayed_ack: 'delayed acknowledgement',
  late_ack: 'late acknowledgement', accept_queue: 'accept queue full',
  slow_reader: 'reader too slow', dns: 'name server', unanswered: 'no answer before the timeout',
  page_fault: 'page read in', gc: 'collection of garbage', safepoint: 'stopped by its JVM', task: 'another task', unwatched: 'service not recorded', isolation: 'the recording itself',
  input: 'a person', unknown: 'not known', queue: 'waiting to be picked up', queued: 'waiting to be picked up',
  unread: 'no room to send', running: 'running',
};

/** How a state is found through a wait, as in "running (behind network)": whose state it was. */
const THROUGH: Record<string, string> = { network: 'network, the peer', lock: 'lock, the holder' };

/** `CAUSE`, or `CAUSE at SERVICE`, in words. */
export function causeInWords(value: string): string {
  const at = value.indexOf(' at ');
  return at < 0 ? words(value) : `${words(value.slice(0, at))}${value.slice(at)}`;
}

/** A state of a critical path, and the wait through which it was found, in words. */
export function stateInWords(name: string): string {
  const [, state, wait] = /^(.+) \(behind (.+)\)$/.exec(name) ?? [];
  return state && wait ? `${THROUGH[wait] ?? `${words(wait)}, who ended it`} ${words(state)}` : words(name);
}

/** The state in such a name. */
export const stateOf = (name: string) => name.replace(/ \(behind .+\)$/, '');

/** In words. */
export function words(cause: string | null | undefined): string {
  const name = cause ?? 'unknown';
  return WORDS[name] ?? name;
}
