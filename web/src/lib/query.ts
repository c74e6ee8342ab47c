/** Parameters of questions to the server. */

/** By name; a list is given several times. */
export type Parameters = Record<string, string | string[]>;

/** Those that are given, as an address has them. */
export function query(parameters: Parameters): URLSearchParams {
  const each = Object.entries(parameters).flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((v) => [name, v] as [string, string]));
  return new URLSearchParams(each.filter(([, value]) => value !== ''));
}
