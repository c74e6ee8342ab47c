/** Names of a recording may hold anything: what cannot be seen, or turns the text around it, is written as an escape. */

// controls, and marks and overrides of the direction of text
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Names as they are, by how they are shown. */
const originals = new Map<string, string>();

/** How a text is shown. */
export function shown(text: string): string {
  return text.replace(HIDDEN, (c) => (c === '\n' ? c : `\\u{${c.codePointAt(0)?.toString(16)}}`));
}

/** What a document of JSON has where any of its texts may have something hidden: an escape, or the character itself. */
const MAY_HIDE = /\\[ubfnrt]|[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/;

/** A document, its texts as they are shown. Looking at each of them takes longer than reading them: mostly none needs it. */
export function read(json: string): unknown {
  return MAY_HIDE.test(json) ? JSON.parse(json, visible) : JSON.parse(json);
}

function visible(_key: string, value: unknown): unknown {
  if (typeof value !== 'string') return value;
  const text = shown(value);
  if (text !== value) originals.set(text, value);
  return text;
}

/** A text as it is, of one as it is shown. */
export function originally(text: string): string {
  return originals.get(text) ?? text;
}

/** A kind as questions name it: its names as they are. */
export function kindOf(k: { service: string; asked: string }): string {
  return `${originally(k.service)} ${originally(k.asked)}`;
}
