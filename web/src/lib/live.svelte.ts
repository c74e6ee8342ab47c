/** Reading along with a recording that goes on: which part of it is shown, and whether the page follows it. */
import { asking, fresh, type Parameters } from './asked.svelte';
import { shownFolder } from './compare';
import { route } from './route.svelte';

/** Parts of a recording before its end, as the commands take them. */
export const PARTS = [
  { last: '', title: 'All' },
  { last: '15m', title: '15 min' },
  { last: '5m', title: '5 min' },
  { last: '1m', title: '1 min' },
];

/** How often the folders are looked at (ms). */
export const LOOK_EVERY = 2000;
/** The page rests so many times as long as its last answers took: following must not keep a processor busy. */
const REST = 3;

/** The part that is shown, and of two compared folders which one, as parameters of questions about requests. */
export function within(): Parameters {
  const last = route.get('last');
  return { ...shownFolder(), ...(last !== '' && PARTS.some((p) => p.last === last) ? { from: `-${last}` } : {}) };
}

class Live {
  /** A recorder writes into the folders now. */
  writes = $state(false);
  paused = $state(false);
  /** The server no longer answers. */
  gone = $state(false);
  /** The newest state of the folders. */
  newest = $state('');
  version = $state('');
  /** A recorder wrote when it was looked last: what it wrote since is still to be read. */
  private wrote = false;

  /** Looks whether the folders changed, and asks everything again where the page follows them. */
  async look() {
    try {
      const reply = await fetch('/api/recording');
      const body = (await reply.json()) as { folders: string[]; stamp: string; version: string; live: boolean };
      this.gone = !reply.ok;
      if (!reply.ok) return;
      if (body.folders.join('\0') !== fresh.folders.join('\0')) fresh.folders = body.folders;
      this.version = body.version;
      this.newest = body.stamp;
      this.writes = body.live;
      const follows = (body.live || this.wrote) && !this.paused;
      if (fresh.stamp === '' || (follows && this.rested())) {
        fresh.stamp = body.stamp;
        this.wrote = body.live;
      }
    } catch {
      this.gone = true;
    }
  }

  private rested(): boolean {
    return asking.open === 0 && performance.now() - asking.ended >= REST * asking.took;
  }

  /** Shows the newest state now. */
  read() {
    fresh.stamp = this.newest;
  }
}

export const live = new Live();
