// Changes that the user asks for.

import { ask } from './api.js';
import { printable, setText } from './dom.js';

/** Requests a change, and shows its outcome. Returns whether it was made. */
export async function send(said, ...requests) {
  said.classList.remove('bad');
  setText(said, '…');
  try {
    let saved = null;
    for (const request of requests) saved = (await ask(request)).saved ?? saved;
    setText(said, saved ? `Done, and saved to ${printable(saved)}.` : 'Done.');
    return true;
  } catch (error) {
    said.classList.add('bad');
    setText(said, `Not done: ${printable(error.message)}.`);
    return false;
  }
}

/** Requests the change entered in fields. Afterwards the fields show the current values again. */
export async function sendFields(said, fields, requests) {
  const values = fields.map((field) => field.value);
  if (!(await send(said, ...requests))) return;
  fields.forEach((field, at) => (field.dataset.shown = values[at]));
}
