/** The selection of requests that the address holds, as the commands take it. */
import type { Parameters } from './asked.svelte';
import { within } from './live.svelte';
import { route } from './route.svelte';

/** Parameters of the address, and the options of the commands that they become. */
const OPTIONS = { from: 'from', to: 'to', longer: 'longer-than', shorter: 'shorter-than', service: 'service', calls: 'calls' } as const;

/** Parameters of the address without a selection. */
export const NOTHING = Object.fromEntries(Object.keys(OPTIONS).map((name) => [name, '']));

function given(names: readonly (keyof typeof OPTIONS)[]): Record<string, string> {
  const values = names.map((name) => [OPTIONS[name], route.get(name)] as const);
  const all = Object.fromEntries(values.filter(([, value]) => value !== ''));
  // a call is of a service: without it, the commands know no such selection
  if (all.service === undefined) delete all.calls;
  return all;
}

/** The selection as parameters of questions; `null` where nothing is selected. */
export function selection(): Parameters | null {
  const all = given(Object.keys(OPTIONS) as (keyof typeof OPTIONS)[]);
  return Object.keys(all).length > 0 ? all : null;
}

/** The part of the recording that is shown, and of it what is selected. */
export function selected(): Parameters {
  return { ...within(), ...selection() };
}

/** Which service the selected requests pass through, and which one it calls. */
export function passing(): Parameters {
  return given(['service', 'calls']);
}
