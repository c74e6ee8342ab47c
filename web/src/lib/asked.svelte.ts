/** Questions to the server: the answers of commands, and the command that prints each. */
import { query, type Parameters } from './query';
import { read, shown } from './names';

export type { Parameters } from './query';

/** What was lost, as every answer tells it. */
export interface Loss {
  id: string;
  severity: 'info' | 'warning' | 'error';
  count: number;
  host: string | null;
  touches: string[];
  meaning: string;
  remedy: string;
}

/** What every answer has. */
export interface Document {
  schema: string;
  version: string;
  losses: Loss[];
}

/** The folders, and which state of them is shown: changed when they did, so that it is asked for again. */
export const fresh = $state({ stamp: '', folders: [] as string[] });

/** Questions that are open, and when and after how long the last ones were answered (ms): what following a recording costs. */
export const asking = { open: 0, began: 0, ended: 0, took: 0 };

/** How far answers are that are being made: by question, the share that was read. */
export const progress = $state({ read: {} as Record<string, number> });

/** An answer that takes longer (ms) has its progress shown, and so often it is looked at. */
const PATIENCE = 500;

let looks = false;

/** Looks how far answers are, as long as any question is open. */
async function look() {
  if (asking.open === 0) {
    progress.read = {};
    looks = false;
    return;
  }
  try {
    const reply = await fetch('/api/progress');
    const found = (await reply.json()) as { question: string; read: number }[];
    progress.read = Object.fromEntries(found.map((f) => [f.question, f.read]));
  } catch {
    progress.read = {};
  }
  setTimeout(() => void look(), PATIENCE);
}

/** One question, asked again whenever it is another one. */
export class Asked<T extends Document> {
  /** The last answer. */
  body = $state.raw<T | null>(null);
  /** The parameters that it answers: those of the page may be others by now. */
  of = $state.raw<Parameters>({});
  /** The command that gives it. */
  command = $state('');
  /** Why there is none. */
  error = $state('');
  pending = $state(true);
  /** It was answered once, with whatever. */
  answered = $state(false);
  /** As it was asked: its address. */
  question = $state('');
  /** When it was asked (ms, as `performance.now`). */
  began = $state(0);
  /** It was given up before an answer came. */
  stopped = $state(false);
  private attempts = $state(0);
  private abort: AbortController | null = null;

  /** Call while a component is made. `null` asks nothing. */
  constructor(path: string, parameters: () => Parameters | null) {
    // the address changes for much that is no question: only another question is asked
    const written = $derived(JSON.stringify(parameters()));
    $effect(() => {
      const wanted = JSON.parse(written) as Parameters | null;
      // not before it is known which state of the folders is shown
      if (wanted === null || fresh.stamp === '') {
        this.body = null;
        this.command = this.error = '';
        return;
      }
      void this.attempts;
      const abort = (this.abort = new AbortController());
      void this.ask(path, wanted, abort.signal);
      return () => abort.abort();
    });
  }

  /** Waits for the answer no longer. The server may still make it: then asking again finds it. */
  stop() {
    this.abort?.abort();
    this.pending = false;
    this.stopped = this.answered = true;
  }

  /** Asks the same again. */
  again() {
    this.attempts += 1;
  }

  private async ask(path: string, wanted: Parameters, signal: AbortSignal) {
    this.pending = true;
    this.stopped = false;
    this.began = performance.now();
    if (asking.open++ === 0) {
      asking.began = performance.now();
      if (!looks) setTimeout(() => void look(), PATIENCE);
      looks = true;
    }
    try {
      this.question = `/api/${path}?${query(wanted)}`;
      const reply = await fetch(this.question, { signal });
      this.command = shown(decodeURIComponent(reply.headers.get('wakepath-command') ?? ''));
      const body = read(await reply.text());
      if (reply.ok) {
        this.body = body as T;
        this.of = wanted;
        this.error = '';
      } else {
        this.body = null;
        this.error = (body as { error: string }).error;
      }
      this.pending = false;
      this.answered = true;
    } catch (e) {
      if (signal.aborted) return;
      this.body = null;
      this.error = `No answer from wakepath: ${String(e)}. Is it still running?`;
      this.pending = false;
      this.answered = true;
    } finally {
      if (--asking.open === 0) {
        asking.ended = performance.now();
        asking.took = asking.ended - asking.began;
      }
    }
  }
}
