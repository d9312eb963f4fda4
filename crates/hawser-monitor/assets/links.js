// The table of links, and the form that changes the use of a link.

import { sendFields } from './change.js';
import { swatch } from './chart.js';
import {
  clock,
  delay,
  find,
  h,
  isChanged,
  keep,
  offer,
  percent,
  printable,
  rate,
  setClass,
  setText,
  size,
} from './dom.js';

/** Shows the links of a status. */
export function showLinks(status, samples) {
  const all = status.links.reduce((sum, link) => sum + carried(link), 0);
  const items = status.links.map((link) => ({
    link,
    share: all > 0 ? carried(link) / all : null,
    slot: samples.slot(link.name),
    isClient: status.role === 'client',
  }));
  keep(find('link-table'), items, ({ link }) => `${link.index} ${link.name}`, makeLink);
}

const carried = ({ traffic }) => traffic.down_bps + traffic.up_bps;

/** The state of a link in words, with the time since when it is unusable. */
function stateWords({ state, since_unix_ms }) {
  const isTold = since_unix_ms != null && !FINE.includes(state);
  return isTold ? `${state} since ${clock(since_unix_ms)}` : state;
}

function stateClass({ state }) {
  if (state === 'up') return 'badge good';
  return FINE.includes(state) ? 'badge' : 'badge bad';
}

/** One link: a row of its figures, and below it the form, while that is open. */
function makeLink({ link, slot }) {
  const state = h('span', { class: 'badge' });
  const why = h('small');
  const name = h('bdi', {}, printable(link.name));
  const cells = {};
  const cell = (key, label, kind = 'number') =>
    (cells[key] = h('td', { class: kind, 'data-label': label }));
  const bar = h('span', { class: 'bar', 'aria-hidden': 'true' }, h('i'));
  const month = h('span');
  const button = h('button', { 'aria-expanded': 'false', onclick: () => toggle() }, 'Change');
  button.setAttribute('aria-label', `Change the use of ${printable(link.name)}`);
  const head = h('th', { scope: 'row' }, swatch(slot), name, ' ', state, ' ', why);
  const row = h('tr', {}, head, cell('use', 'Use', 'words'), cell('down', 'Down'), cell('up', 'Up'),
    cell('share', 'Share'), cell('rtt', 'RTT'), cell('loss', 'Loss up'), cell('queue', 'Queue'),
    cell('month', 'This month', 'words'), h('td', { class: 'act' }, button));
  cells.month.append(month, bar);
  const place = h('td', { colspan: 10 });
  const below = h('tr', { class: 'below', hidden: true }, place);
  const node = h('tbody', {}, row, below);
  let now = link;
  let form = null;
  const toggle = () => {
    const opens = below.hidden;
    form = opens ? changeForm(now) : null;
    if (form) place.replaceChildren(form.node);
    below.hidden = !opens;
    button.setAttribute('aria-expanded', String(opens));
  };
  const update = ({ link, share, isClient }) => {
    now = link;
    form?.update(link);
    const { traffic, allowed } = link;
    setText(state, stateWords(link));
    setClass(state, stateClass(link));
    setText(why, printable([link.reason, signalWords(link)].filter(Boolean).join('; ')));
    setText(cells.use, allowed ? useWords(allowed) : '–');
    setText(cells.down, rate(traffic.down_bps));
    setText(cells.up, rate(traffic.up_bps));
    setText(cells.share, percent(share));
    setText(cells.rtt, delay(traffic.rtt_ms));
    setText(cells.loss, percent(traffic.up_loss));
    setText(cells.queue, delay(traffic.queue_ms));
    setText(month, allowed ? monthWords(allowed) : '–');
    bar.hidden = !allowed?.allowance_bytes;
    if (!bar.hidden)
      bar.firstChild.style.width = `${Math.min(100, (100 * used(allowed)) / allowed.allowance_bytes)}%`;
    button.hidden = !isClient || (link.state === 'unused' && !allowed);
  };
  return { node, update };
}

const signalWords = ({ rank, signal }) =>
  [rank && `rank ${rank}`, signal && `signal ${signal.dbm} dBm`].filter(Boolean).join(', ');

const useWords = ({ up, down }) => (up === down ? up : `up ${up}, down ${down}`);

const used = (allowed) => allowed.sent_bytes + allowed.received_bytes;

function monthWords(allowed) {
  const of = allowed.allowance_bytes ? ` of ${size(allowed.allowance_bytes)}` : '';
  const cost = allowed.cost ? `, ${allowed.cost}` : '';
  const limit = allowed.limit ? `: ${allowed.limit}` : '';
  return printable(`${size(used(allowed))}${of}${cost}${limit}`);
}

/** Updates the form for the use and the cost of a link to the current values, except fields that
 * the user is editing. */
function changeForm(link) {
  const choice = (name) => h('select', { name }, ...USES.map((use) => h('option', {}, use)));
  const said = h('p', { class: 'said', role: 'status' });
  const field = (label, input) => h('label', {}, `${label} `, input);
  const text = (name) => h('input', { name, size: 12, autocomplete: 'off', required: true });
  const node = h(
    'form',
    { class: 'fields', onsubmit: (event) => submit(event) },
    h(
      'fieldset',
      {},
      h('legend', {}, `Use of ${printable(link.name)}`),
      field('Down', choice('down')),
      field('Up', choice('up')),
      field(
        'Weight, 1 to 1000',
        h('input', { name: 'weight', type: 'number', min: 1, max: 1000, placeholder: 'not said' }),
      ),
      field('Price, as 2.5EUR/GB; 0 is free', text('price')),
      field('Allowance a month, as 10GB, or none', text('allowance')),
      h(
        'label',
        { class: 'check' },
        h('input', { name: 'save', type: 'checkbox' }),
        ' save to the configuration',
      ),
      h('button', {}, 'Apply'),
    ),
    said,
  );
  const update = ({ allowed }) => {
    for (const [name, value] of Object.entries(offered(allowed))) offer(node.elements[name], value);
  };
  const submit = (event) => {
    event.preventDefault();
    const changed = FIELDS.map((name) => node.elements[name]).filter(
      (field) => field.value.trim() && isChanged(field),
    );
    if (changed.length)
      sendFields(said, changed, [linkChange(link.name, changed, node.elements.save.checked)]);
    else setText(said, 'Nothing was changed.');
  };
  update(link);
  return { node, update };
}

/** The form's values for a link. Without rule and use they are the defaults. */
const offered = (allowed) => ({
  down: allowed?.down ?? 'normal',
  up: allowed?.up ?? 'normal',
  weight: String(allowed ? (allowed.weight ?? '') : 1),
  price: allowed?.price ?? '0',
  allowance: amount(allowed?.allowance_bytes),
});

/** Bytes as in the configuration, without rounding. */
function amount(bytes) {
  if (!bytes) return 'none';
  const [unit, factor] = AMOUNTS.find(([, factor]) => bytes % factor === 0);
  return `${bytes / factor}${unit}`;
}

/** Unchanged fields are not sent: they may have been changed elsewhere meanwhile. */
function linkChange(name, changed, save) {
  const change = { request: 'set-link', name, save };
  for (const field of changed) change[field.name] = field.value.trim();
  if (change.weight) change.weight = Number(change.weight);
  return change;
}

const FINE = ['up', 'unused'];
const FIELDS = ['down', 'up', 'weight', 'price', 'allowance'];
const USES = ['normal', 'prefer', 'backup', 'never'];
const AMOUNTS = [['GB', 1e9], ['MB', 1e6], ['kB', 1e3], ['B', 1]];
