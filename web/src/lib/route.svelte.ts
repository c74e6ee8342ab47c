/** Parameters that every view has: which requests are selected, what they are compared with, and how times are written. */
const HELD = ['last', 'kind', 'from', 'to', 'longer', 'shorter', 'service', 'calls', 'with', 'clock', 'compare', 'against_from', 'against_to'];

/** What the page shows, all of it in the address: a link leads to the same view, and Back to the one before. */
class Route {
  private params = $state.raw(new URLSearchParams(location.search));

  constructor() {
    addEventListener('popstate', () => (this.params = new URLSearchParams(location.search)));
  }

  /** The value of a parameter, empty where it is not given. */
  get(name: string): string {
    return this.params.get(name) ?? '';
  }

  /** The address of the same view with some parameters changed; empty ones are left out. */
  link(changes: Record<string, string>, from: URLSearchParams = this.params): string {
    const next = new URLSearchParams(from);
    for (const [name, value] of Object.entries(changes)) {
      if (value === '') next.delete(name);
      else next.set(name, value);
    }
    const query = next.toString();
    return query === '' ? '/' : `/?${query}`;
  }

  /** The address of a view with these parameters and what is selected, which holds in every view. */
  view(params: Record<string, string>): string {
    const kept = Object.fromEntries(HELD.map((name) => [name, this.get(name)]));
    return this.link({ ...params, ...Object.fromEntries(Object.entries(kept).filter(([name]) => params[name] === undefined)) }, new URLSearchParams());
  }

  /** Goes there; with `replace`, Back does not lead back. */
  go(link: string, replace = false) {
    if (replace) history.replaceState(null, '', link);
    else history.pushState(null, '', link);
    this.params = new URLSearchParams(location.search);
  }
}

export const route = new Route();

/** For links within the page: goes there without loading it anew, unless a new tab is asked for. */
export function follow(event: MouseEvent) {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.currentTarget as Element).getAttribute('href');
  if (!link) return;
  event.preventDefault();
  route.go(link);
}
