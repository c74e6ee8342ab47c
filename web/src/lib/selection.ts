/** The selection of requests that the address holds, as the commands take it. */
import type { Parameters } from './asked.svelte';
import { shownFolder } from './compare';
import { within } from './live.svelte';
import { route } from './route.svelte';

/** Parameters of the address, and the options of the commands that they become. */
const OPTIONS = { from: 'from', to: 'to', longer: 'longer-than', shorter: 'shorter-than', service: 'service', calls: 'calls' } as const;
/** What a request's other attributes are to be: one `ATTRIBUTE=VALUE` a line. */
const WITH = 'with';

/** Parameters of the address without a selection. */
export const NOTHING = Object.fromEntries([...Object.keys(OPTIONS), WITH].map((name) => [name, '']));

function given(names: readonly (keyof typeof OPTIONS)[]): Record<string, string> {
  const values = names.map((name) => [OPTIONS[name], route.get(name)] as const);
  const all = Object.fromEntries(values.filter(([, value]) => value !== ''));
  // a call is of a service: without it, the commands know no such selection
  if (all.service === undefined) delete all.calls;
  return all;
}

/** What the address asks of other attributes. */
export function attributes(): string[] {
  return route.get(WITH).split('\n').filter((w) => w !== '');
}

const others = (): Parameters => (attributes().length > 0 ? { with: attributes() } : {});

/** The selection as parameters of questions; `null` where nothing is selected. */
export function selection(): Parameters | null {
  const all = { ...given(Object.keys(OPTIONS) as (keyof typeof OPTIONS)[]), ...others() };
  return Object.keys(all).length > 0 ? all : null;
}

/** The part of the recording that is shown, and of it what is selected. */
export function selected(): Parameters {
  return { ...within(), ...selection() };
}

/** What is selected whenever it began, however long it took: what plots of time and duration show. */
export function passing(): Parameters {
  return { ...given(['service', 'calls']), ...others() };
}

/** When the selected ones began, as parameters of questions. */
export function period(): Parameters {
  return { ...within(), ...given(['from', 'to']) };
}

/** The period that is brushed alone. */
export function brushed(): Parameters {
  return { ...shownFolder(), ...given(['from', 'to']) };
}

/** The address with an attribute asked for besides, or no longer. */
export function toggled(attribute: string, value: string): string {
  const wanted = `${attribute}=${value}`;
  const now = attributes();
  const next = now.includes(wanted) ? now.filter((w) => w !== wanted) : [...now, wanted];
  return route.link({ [WITH]: next.join('\n') });
}
