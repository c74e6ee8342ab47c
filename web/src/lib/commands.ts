/** Commands that answers name as the next step, and the views of this page that show the same. */
import { fresh } from './asked.svelte';
import { route } from './route.svelte';

/** Words of a command line, quotes understood as the commands write them. */
export function wordsOf(line: string): string[] {
  const out: string[] = [];
  let word: string | null = null;
  let quoted = false;
  for (let i = 0; i < line.length; i++) {
    const c = line[i]!;
    if (quoted) {
      if (c === "'") quoted = false;
      else word += c;
    } else if (c === "'") {
      quoted = true;
      word ??= '';
    } else if (c === '\\' && i + 1 < line.length) word = (word ?? '') + line[++i];
    else if (c === ' ') {
      if (word !== null) out.push(word);
      word = null;
    } else word = (word ?? '') + c;
  }
  if (word !== null) out.push(word);
  return out;
}

export interface Place {
  /** What a button that leads there says. */
  title: string;
  link: string;
}

/** Where the page shows what a command prints; `null` where it does not. */
export function placeOf(command: string): Place | null {
  const [program, name, ...rest] = wordsOf(command);
  if (program !== 'wakepath') return null;
  const at = rest.indexOf('--kind');
  const kind = at >= 0 ? (rest[at + 1] ?? '') : '';
  const plain = rest.filter((w, i) => !w.startsWith('--') && !(at >= 0 && i === at + 1) && !fresh.folders.includes(w));
  const here = (params: Record<string, string>) => route.view({ kind, ...params });
  switch (name) {
    case 'show': return { title: 'Show the request', link: here({ view: 'request', request: plain[0] ?? 'slowest' }) };
    case 'why': return { title: 'Show why', link: here({ view: 'why' }) };
    case 'forecast': case 'bottleneck': return { title: 'Show what would help', link: here({ view: 'whatif' }) };
    case 'waits': case 'timeline': return { title: 'Show the tasks', link: here({ view: 'tasks' }) };
    case 'open': return { title: 'Show what was in progress', link: here({ show: 'open' }) };
    case 'info': return { title: 'Show what was recorded', link: here({ show: 'recorded' }) };
    case 'requests': return { title: 'Show the requests', link: here({ show: 'kinds' }) };
    default: return null;
  }
}

/** A word as it is typed into a shell, as the server writes them. */
export const typed = (word: string) => (/^[A-Za-z0-9/._\-+:@=%]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** The command that exports into a file, as it is typed. */
export function exporting(form: string, options: string[], file: string, folders: string[]): string {
  return ['wakepath', 'export', '--to', form, ...options, `--output=${file}`, ...folders].map(typed).join(' ');
}

/** The command that makes a bundle of a request. */
export function bundling(request: string, out: string, folders: string[]): string {
  return ['wakepath', 'bundle', ...folders, request, '-o', out].map(typed).join(' ');
}
