/** The search box: what is selected as chips, what a text asks for, and what a recording has to choose from. */
import type { Common, Requests } from './answers';
import { folder, pair } from './compare';
import { kindOf, originally, shown } from './names';
import { attributes } from './selection';
import { route } from './route.svelte';
import { causeInWords } from './causes';
import { count, duration } from './units';
import { spanOf } from './window';

/** Changes of the address. */
export type Changes = Record<string, string>;

export interface Chip {
  /** What it is about. */
  name: string;
  value: string;
  /** Without it. */
  without: Changes;
}

export interface Choice {
  name: string;
  value: string;
  /** How many have it, in words. */
  detail: string;
  changes: Changes;
}

/** Names that a text may begin with, and what each is in the address: a parameter, or an attribute of `with`. */
const NAMES: Record<string, { parameter?: string; attribute?: string }> = {
  kind: { parameter: 'kind' },
  service: { parameter: 'service' },
  calls: { parameter: 'calls' },
  slower: { parameter: 'longer' },
  faster: { parameter: 'shorter' },
  from: { parameter: 'from' },
  to: { parameter: 'to' },
  status: { attribute: 'reply' },
  reply: { attribute: 'reply' },
  outcome: { attribute: 'outcome' },
  client: { attribute: 'client' },
  sql: { attribute: 'call' },
  call: { attribute: 'call' },
  path: { attribute: 'kind' },
  process: { attribute: 'process' },
  host: { attribute: 'host' },
  cause: { attribute: 'cause' },
};
/** What chips of parameters are called. */
const TITLES: Record<string, string> = { kind: 'kind', service: 'through', calls: 'which calls', longer: 'slower than', shorter: 'faster than' };
/** What chips of periods are called, by the names of their ends in the address. */
const PERIODS = [['begun', 'from', 'to'], ['compared with those begun', 'against_from', 'against_to']] as const;
const LABELS: Record<string, string> = { reply: 'status', call: 'call', kind: 'path', cause: 'main cause' };
/** Choices that are shown. */
const SHOWN = 12;

/** What is selected. */
export function chips(): Chip[] {
  const parameters = Object.keys(TITLES).filter((name) => route.get(name) !== '');
  const of = (name: string): Chip => {
    const ns = name === 'longer' || name === 'shorter' ? spanOf(route.get(name)) : null;
    const value = ns !== null ? duration(Math.round(ns)) : shown(route.get(name));
    return { name: TITLES[name]!, value, without: name === 'service' ? { service: '', calls: '' } : { [name]: '' } };
  };
  const periods = PERIODS.flatMap(([name, first, last]): Chip[] => {
    const [from, to] = [first, last].map((end) => {
      const moment = /^\+(\d+)ns$/.exec(route.get(end));
      return moment ? `+${duration(Number(moment[1]))}` : shown(route.get(end));
    });
    const value = from && to ? `${from} to ${to}` : from ? `from ${from}` : to ? `before ${to}` : '';
    return value === '' ? [] : [{ name, value, without: first === 'from' ? { from: '', to: '', against_from: '', against_to: '' } : { [first]: '', [last]: '' } }];
  });
  const all = attributes();
  const having = all.map((w): Chip => {
    const [name, value] = [w.slice(0, w.indexOf('=')), w.slice(w.indexOf('=') + 1)];
    return { name: LABELS[name] ?? name, value: name === 'cause' ? causeInWords(shown(value)) : shown(value), without: { with: all.filter((o) => o !== w).join('\n') } };
  });
  const two = pair();
  const compared: Chip[] = two ? [{ name: 'compared', value: `${folder(two.of)} with ${folder(two.against)}`, without: { compare: '', against_from: '', against_to: '' } }] : [];
  return [...compared, ...parameters.map(of), ...periods, ...having];
}

/** The address's `with`, and this. */
function having(attribute: string, value: string): Changes {
  const wanted = `${attribute}=${originally(value)}`;
  return { with: [...attributes().filter((w) => w !== wanted), wanted].join('\n') };
}

/** What a text asks for; `null` where it says nothing that is understood. */
export function asked(text: string): Changes | null {
  const given = text.trim();
  const limit = /^([<>])\s*(.+)$/.exec(given);
  if (limit) return spanOf(limit[2]!) === null ? null : { [limit[1] === '>' ? 'longer' : 'shorter']: limit[2]!.replace(/\s/g, '') };
  if (given === 'failed') return having('outcome', 'error');
  const [, name = '', value = ''] = /^(\w+):\s*(.*)$/.exec(given) ?? [];
  const is = NAMES[name];
  if (!is || value === '') return null;
  if (name === 'slower' || name === 'faster') return spanOf(value) === null ? null : { [is.parameter!]: value.replace(/\s/g, '') };
  if (is.parameter) return { [is.parameter]: originally(value) };
  // of statements and paths a part is enough
  const partly = name === 'sql' || name === 'call' || name === 'path';
  return having(is.attribute!, partly && !value.includes('*') ? `*${value}*` : value);
}

/** All that a recording has to choose from, the most frequent of each first. */
export function choices(requests: Requests | null, common: Common | null): Choice[] {
  const out: Choice[] = [];
  const kinds = requests?.kinds ?? [];
  const wrong = kinds.reduce((n, k) => n + k.failed + k.left + k.reset + k.cut, 0);
  if (wrong > 0) out.push({ name: 'failed', value: '', detail: count(wrong), changes: having('outcome', 'error') });
  for (const k of kinds) out.push({ name: 'kind', value: `${k.asked} at ${k.service}`, detail: `${count(k.count)}, p99 ${duration(k.p99_ns)}`, changes: { kind: kindOf(k) } });
  const sum = (pairs: [string, number][]) => {
    const sums = new Map<string, number>();
    for (const [name, n] of pairs) sums.set(name, (sums.get(name) ?? 0) + n);
    return [...sums].sort((a, b) => b[1] - a[1]);
  };
  for (const [value, n] of sum(kinds.flatMap((k) => k.tiers.map((t): [string, number] => [t.service, k.count])))) {
    out.push({ name: 'service', value, detail: count(n), changes: { service: originally(value), calls: '' } });
  }
  for (const [value, n] of sum(kinds.flatMap((k) => k.statuses.map(([status, n]): [string, number] => [String(status), n]))).filter(([status]) => status !== '0')) {
    out.push({ name: 'status', value, detail: count(n), changes: having('reply', value) });
  }
  for (const [value, n] of sum(kinds.flatMap((k) => k.tiers.flatMap((t) => t.asked.map((a): [string, number] => [`${a.asked} at ${t.service}`, a.requests]))))) {
    out.push({ name: 'call', value, detail: `in ${count(n)}`, changes: having('call', value) });
  }
  const causes = (common?.values ?? []).filter((v) => v.attribute === 'cause');
  const found = (v: { selected: number; others: number }) => v.selected + v.others;
  // everywhere, then service by service
  for (const [value, n] of sum(causes.map((v): [string, number] => [v.value.split(' at ')[0]!, found(v)]))) {
    out.push({ name: 'cause', value, detail: `${causeInWords(value)}, ${count(n)}`, changes: having('cause', value) });
  }
  for (const v of causes) out.push({ name: 'cause', value: v.value, detail: count(found(v)), changes: having('cause', v.value) });
  for (const v of common?.values ?? []) {
    if (v.attribute === 'client' || v.attribute === 'process' || v.attribute === 'host') {
      out.push({ name: v.attribute, value: v.value, detail: count(found(v)), changes: having(v.attribute, v.value) });
    }
  }
  return out;
}

/** Of all choices those that a text may mean. */
export function matching(all: Choice[], text: string): Choice[] {
  const [, name = '', rest = text] = /^(\w+):\s*(.*)$/.exec(text.trim()) ?? [];
  const names = name === 'sql' ? ['call'] : name === 'path' ? ['kind'] : name === 'reply' ? ['status'] : name === 'calls' ? ['service'] : [name];
  const wanted = (NAMES[name] ? rest : text).trim().toLowerCase();
  const fits = all.filter((c) => (!NAMES[name] || names.includes(c.name)) && (wanted === '' || c.value.toLowerCase().includes(wanted) || c.name.startsWith(wanted)));
  if (wanted !== '' || NAMES[name]) return fits.slice(0, SHOWN);
  // of each some, so that it is seen what there is
  const seen = new Map<string, number>();
  return fits.filter((c) => {
    const n = (seen.get(c.name) ?? 0) + 1;
    seen.set(c.name, n);
    return n <= 3;
  });
}
