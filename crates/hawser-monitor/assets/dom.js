// Elements, and texts for quantities. All text becomes text nodes: much of it is untrusted.

import { DELAY, RATE } from './chart.js';

/** An element. Properties that begin with `on` are listeners, the others attributes; false and null
 * leave an attribute out. */
export function h(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, '');
    else if (value !== false && value !== null && value !== undefined)
      made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const find = (id) => document.getElementById(id);

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setClass(node, name) {
  if (node.className !== name) node.className = name;
}

/** Returns an untrusted name without characters that move or hide the text beside them. */
export const printable = (text) =>
  String(text ?? '').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\u{fffd}');

/** Makes the children of `parent` those of `items`, in this order. Existing children stay and are
 * updated, so that they keep the focus. `make(item)` returns `{ node, update(item) }`. */
export function keep(parent, items, keyOf, make) {
  const former = parent.kept ?? new Map();
  const now = new Map();
  for (const item of items) {
    const key = keyOf(item);
    const one = former.get(key) ?? make(item);
    one.update(item);
    now.set(key, one);
  }
  for (const [key, one] of former) if (!now.has(key)) one.node.remove();
  const nodes = new Set([...now.values()].map((one) => one.node));
  let next = [...parent.children].find((child) => nodes.has(child)) ?? null;
  for (const { node } of now.values()) {
    if (node === next) next = node.nextElementSibling;
    else parent.insertBefore(node, next);
  }
  parent.kept = now;
}

/** Puts these options into a select, and keeps the choice if possible. */
export function setChoices(select, words) {
  const { value } = select;
  if ([...select.options].map((option) => option.value).join('\n') === words.join('\n')) return;
  select.replaceChildren(...words.map((word) => h('option', { value: word }, printable(word))));
  if (words.includes(value)) select.value = value;
}

/** Puts the current value into a field, unless the user is editing it. */
export function offer(field, value) {
  const isNew = field.dataset.shown === undefined;
  if ((isNew || !isChanged(field)) && field.value !== value) field.value = value;
  field.dataset.shown = value;
}

/** Whether the user has changed a field's offered value. */
export const isChanged = (field) => field.value !== field.dataset.shown;

export const rate = (bits) => RATE.format(bits);

export const delay = (ms) => (ms === null || ms === undefined ? '–' : DELAY.format(ms));

export const percent = (part) =>
  part === null || part === undefined ? '–' : `${(part * 100).toFixed(1)} %`;

/** A count in at most seven characters: `512 B`, `12.3 kB`, `1.20 MB`. */
export function size(bytes) {
  if (bytes < 1e3) return `${bytes} B`;
  let value = bytes;
  let unit = '';
  for (const larger of ['kB', 'MB', 'GB', 'TB', 'PB', 'EB']) {
    if (value < 999.5) break;
    value /= 1e3;
    unit = larger;
  }
  return `${value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${unit}`;
}

/** A span in its two largest units: `3d 4h`, `12m 05s`, `7s`. */
export function span(ms) {
  const s = Math.floor(ms / 1000);
  const two = (number) => String(number).padStart(2, '0');
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${two(Math.floor(s / 60) % 60)}m`;
  return `${Math.floor(s / 86400)}d ${Math.floor(s / 3600) % 24}h`;
}

/** Short spans: `280 ms`, `1.2 s`. */
export const shortSpan = (ms) =>
  ms < 999.5 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;

/** The time of day here, to the second. */
export const clock = (unixMs) => new Date(unixMs).toLocaleTimeString('en-GB');
