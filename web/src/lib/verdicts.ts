/** What triage found, as cards, in its order, the gravest first: of each what is the matter before how it is known. */
import type { Triage } from './answers';

export type Finding = Triage['findings'][number];
export type Severity = 'problem' | 'slow' | 'note' | 'unknown' | 'good';

/** In words, and how it is drawn: never by colour alone. */
export const SEVERITIES: Record<Severity, { word: string; shape: string }> = {
  problem: { word: 'Problem', shape: 'M8 1 15 15H1z' },
  slow: { word: 'Slow', shape: 'M8 1 15 8 8 15 1 8z' },
  note: { word: 'Note', shape: 'M2 2h12v12H2z' },
  unknown: { word: 'Not known', shape: 'M8 1a7 7 0 1 0 0 14A7 7 0 1 0 8 1m0 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 1 1 0-9' },
  good: { word: 'Good', shape: 'M1 8l3-3 3 3 6-6 2 2-8 9z' },
};

const ABOUT: Record<string, string> = { slow: 'what is slow', fails: 'what fails', hangs: 'what hangs', limits: 'what limits', trust: 'how far to trust it' };

export interface Card {
  severity: Severity;
  about: string;
  /** Its first sentence. */
  head: string;
  /** The others. */
  rest: string;
  next: string | null;
  since_ns: number | null;
}

function severityOf(f: Finding): Severity {
  if (f.level === 'bad') return 'problem';
  if (f.level === 'unknown') return 'unknown';
  if (f.level === 'good') return 'good';
  return f.section === 'slow' ? 'slow' : 'note';
}

/** The first sentence of a text, and the others. A full stop within a number, a path or a statement ends none. */
export function halves(text: string): [string, string] {
  const at = /[.:] (?=[A-Z0-9])/.exec(text);
  return at ? [text.slice(0, at.index + 1), text.slice(at.index + 2)] : [text, ''];
}

export function cards(findings: Finding[]): Card[] {
  return findings.map((f): Card => {
    const [head, rest] = halves(f.sentence);
    return { severity: severityOf(f), about: ABOUT[f.section] ?? f.section, head, rest, next: f.next, since_ns: f.since_ns ?? null };
  });
}
