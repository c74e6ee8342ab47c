/** What the selected requests are compared with: another recording, another period, or both. All of it is in the address. */
import { fresh, type Parameters } from './asked.svelte';
import { route } from './route.svelte';

/** Numbers of two folders, this one and the one that it is compared with; `null` where all folders are shown as one. */
export function pair(): { of: string; against: string } | null {
  const [, of, against] = /^(\d+)-(\d+)$/.exec(route.get('compare')) ?? [];
  return of !== undefined && against !== undefined ? { of, against } : null;
}

/** Of two folders that are compared, the one that is shown, as a parameter of questions. */
export function shownFolder(): Parameters {
  const of = pair()?.of;
  return of === undefined ? {} : { of };
}

/** What is compared with, as parameters of questions; `null` where nothing is compared. */
export function against(): Parameters | null {
  const folder = pair()?.against;
  const all = { against: folder ?? '', 'against-from': route.get('against_from'), 'against-to': route.get('against_to') };
  const given = Object.entries(all).filter(([, value]) => value !== '');
  return given.length > 0 ? Object.fromEntries(given) : null;
}

/** Changes of the address that end the comparison. */
export const ALONE = { compare: '', against_from: '', against_to: '' };

/** A folder by its number, as it was given. */
export function folder(number: string): string {
  return fresh.folders[Number(number)] ?? `folder ${number}`;
}
