/** Files that the server writes as the browser stores them: the page holds none of it, and looks how far it is. */
import { fresh } from './asked.svelte';
import { shown } from './names';
import { query, type Parameters } from './query';

type Stage = '' | 'waiting' | 'writing' | 'done' | 'failed';
interface Entry { mark: string; stage: Exclude<Stage, ''>; bytes: number; read: number | null; said: string | null }

/** How often it is looked at (ms), and after how many looks a download that the server does not know has failed. */
const EVERY = 400;
const LOOKS_MAX = 15;

/** One file that can be downloaded, again and again. */
export class Download {
  stage = $state<Stage>('');
  /** Bytes that were sent. */
  bytes = $state(0);
  /** Share of the recording that was read, where that is known. */
  read = $state<number | null>(null);
  /** At its end: what was written, or why it was not. */
  said = $state('');
  private mark = '';

  get open(): boolean {
    return this.stage === 'waiting' || this.stage === 'writing';
  }

  /** Says no more of one that is over. */
  clear() {
    if (!this.open) this.stage = '';
  }

  /** Asks the browser to store a file under a name: `path` is below /api/download/. */
  start(path: string, parameters: Parameters, name: string) {
    this.mark = [...crypto.getRandomValues(new Uint8Array(12))].map((b) => b.toString(16).padStart(2, '0')).join('');
    [this.stage, this.bytes, this.read, this.said] = ['waiting', 0, null, ''];
    const link = document.createElement('a');
    link.href = `/api/download/${path}?${query({ ...parameters, mark: this.mark })}`;
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    void this.look(this.mark, LOOKS_MAX);
  }

  private async look(mark: string, left: number) {
    let found: Entry | undefined;
    try {
      const reply = await fetch('/api/downloads');
      if (!reply.ok) throw new Error(((await reply.json()) as { error: string }).error);
      found = ((await reply.json()) as Entry[]).find((e) => e.mark === mark);
    } catch (e) {
      if (this.mark === mark) [this.stage, this.said] = ['failed', `No answer from wakepath: ${String(e)}. Is it still running?`];
      return;
    }
    if (this.mark !== mark) return;
    if (found) [this.stage, this.bytes, this.read, this.said] = [found.stage, found.bytes, found.read, shown(found.said ?? '')];
    else if (left === 0) [this.stage, this.said] = ['failed', 'The browser did not ask for the file. Does it block downloads?'];
    if (this.open) setTimeout(() => void this.look(mark, found ? LOOKS_MAX : left - 1), EVERY);
  }
}

/** Parameters as options of a command, and the folders that it is about. */
export function optionsOf(parameters: Parameters): { options: string[]; folders: string[] } {
  const each = [...query(parameters)];
  const of = each.find(([name]) => name === 'of')?.[1];
  const folders = of === undefined ? fresh.folders : fresh.folders.filter((_, i) => String(i) === of);
  return { options: each.filter(([name]) => name !== 'of').map(([name, value]) => `--${name}=${value}`), folders };
}
