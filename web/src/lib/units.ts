/** Numbers as the command line writes them. */

function three(value: number): string {
  const size = Math.abs(value);
  if (size >= 99.95) return value.toFixed(0);
  return value.toFixed(size >= 9.995 ? 1 : 2);
}

/** A span of time: `12.3 ms`, `4.05 s`, `2m 05s`. */
export function duration(ns: number): string {
  const size = Math.abs(ns);
  if (size === 0) return '0 s';
  if (size < 1000) return `${ns} ns`;
  if (size < 99_950_000_000) {
    for (const [unit, name] of [[1e9, 's'], [1e6, 'ms']] as const) {
      if (size >= unit * 0.9995) return `${three(ns / unit)} ${name}`;
    }
    return `${three(ns / 1e3)} µs`;
  }
  const seconds = Math.round(size / 1e9);
  const two = (n: number) => String(Math.floor(n)).padStart(2, '0');
  const sign = ns < 0 ? '-' : '';
  if (seconds < 3600) return `${sign}${Math.floor(seconds / 60)}m ${two(seconds % 60)}s`;
  if (seconds < 86_400) return `${sign}${Math.floor(seconds / 3600)}h ${two((seconds % 3600) / 60)}m`;
  return `${sign}${Math.floor(seconds / 86_400)}d ${two((seconds % 86_400) / 3600)}h`;
}

/** A moment since the beginning, in seconds, so exact that it can be looked for. */
export function seconds(ns: number): string {
  return `${(ns / 1e9).toFixed(6)} s`;
}

/** A count: `1 234 567`. */
export function count(n: number): string {
  return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

export function counted(n: number, one: string, many: string): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** A size: `12.3 MB`. */
export function bytes(n: number): string {
  const unit = [[1e12, 'TB'], [1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB']].find(([size]) => n >= (size as number) * 0.9995) as [number, string] | undefined;
  return unit ? `${three(n / unit[0])} ${unit[1]}` : `${n} B`;
}

/** So many a second. */
export function rate(perSecond: number | null): string {
  if (perSecond === null) return '-';
  const unit = [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']].find(([n]) => perSecond >= (n as number) * 0.9995) as [number, string] | undefined;
  return unit ? `${three(perSecond / unit[0])} ${unit[1]}/s` : `${three(perSecond)} /s`;
}

export function share(part: number): string {
  const size = Math.abs(part);
  if (size < 0.0005) return '0 %';
  return `${(part * 100).toFixed(size < 0.1 ? 1 : 0)} %`;
}

/** A moment of the common time line, in UTC as the command line writes it. */
export function wall(ns: number): string {
  return new Date(ns / 1e6).toISOString().replace('T', ' ').replace('Z', ' UTC');
}
