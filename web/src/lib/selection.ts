/** The selection of requests that the address holds, as the commands take it. */
import type { Parameters } from './asked.svelte';
import { route } from './route.svelte';

/** Parameters of the address without a selection. */
export const NOTHING = { from: '', to: '', longer: '', shorter: '' };

/** The selection as parameters of questions; `null` where nothing is selected. */
export function selection(): Parameters | null {
  const [from, to, longer, shorter] = ['from', 'to', 'longer', 'shorter'].map((name) => route.get(name));
  if (!from && !to && !longer && !shorter) return null;
  return { from: from ?? '', to: to ?? '', 'longer-than': longer ?? '', 'shorter-than': shorter ?? '' };
}
