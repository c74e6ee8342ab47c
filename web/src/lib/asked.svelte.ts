/** Questions to the server: the answers of commands, and the command that prints each. */
import { read, shown } from './names';

/** By name; a list is given several times. */
export type Parameters = Record<string, string | string[]>;

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

  /** Call while a component is made. `null` asks nothing. */
  constructor(path: string, parameters: () => Parameters | null) {
    $effect(() => {
      const wanted = parameters();
      // not before it is known which state of the folders is shown
      if (wanted === null || fresh.stamp === '') {
        this.body = null;
        this.command = this.error = '';
        return;
      }
      const abort = new AbortController();
      void this.ask(path, wanted, abort.signal);
      return () => abort.abort();
    });
  }

  private async ask(path: string, wanted: Parameters, signal: AbortSignal) {
    this.pending = true;
    if (asking.open++ === 0) asking.began = performance.now();
    try {
      const each = Object.entries(wanted).flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((v) => [name, v] as [string, string]));
      const given = each.filter(([, value]) => value !== '');
      const reply = await fetch(`/api/${path}?${new URLSearchParams(given)}`, { signal });
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
    } catch (e) {
      if (signal.aborted) return;
      this.body = null;
      this.error = `No answer from wakepath: ${String(e)}. Is it still running?`;
      this.pending = false;
    } finally {
      if (--asking.open === 0) {
        asking.ended = performance.now();
        asking.took = asking.ended - asking.began;
      }
    }
  }
}
