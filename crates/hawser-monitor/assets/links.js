// The table of links, and the form that changes how one is used.

import { send } from './change.js';
import { swatch } from './chart.js';
import { delay, find, h, keep, percent, printable, rate, setClass, setText, size } from './dom.js';

/** Shows the links of a status. */
export function showLinks(status, samples) {
  const all = status.links.reduce((sum, link) => sum + carried(link), 0);
  const paths = status.sessions.flatMap((session) => session.paths);
  const placing = status.connections?.links ?? [];
  const items = status.links.map((link) => ({
    link,
    share: all > 0 ? carried(link) / all : null,
    standing: standing(link, paths, placing),
    slot: samples.slot(link.name),
    isClient: status.role === 'client',
  }));
  keep(find('link-table'), items, ({ link }) => `${link.index} ${link.name}`, makeLink);
}

const carried = ({ traffic }) => traffic.down_bps + traffic.up_bps;

/** The worst that is known of a link, and why. */
function standing(link, paths, placing) {
  if (link.state === 'unused') return { word: 'unused', why: link.reason, kind: '' };
  if (link.state !== 'up') return { word: link.state, why: link.reason, kind: ' bad' };
  const own = paths.filter((path) => path.index === link.index);
  const bad = own.find((path) => path.state === 'dead') ?? own.find((path) => path.state === 'suspect');
  if (bad) return { word: bad.state, why: bad.reason ?? link.reason, kind: ' bad' };
  const placed = placing.find((one) => one.index === link.index);
  if (placed && placed.state !== 'sound') return { word: placed.state, why: link.reason, kind: ' bad' };
  const lesser = own.find((path) => path.standing === 'excluded') ?? own.find((path) => path.standing === 'probing');
  const word = lesser ? `up, ${lesser.standing}` : 'up';
  return { word, why: lesser?.reason ?? link.reason, kind: ' good' };
}

/** One link: a row of what it does, and below it the form, while that is open. */
function makeLink({ link, slot }) {
  const state = h('span', { class: 'badge' });
  const why = h('small');
  const name = h('bdi', {}, printable(link.name));
  const cells = {};
  const cell = (key, label, kind = 'number') => (cells[key] = h('td', { class: kind, 'data-label': label }));
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
  const toggle = () => {
    const opens = below.hidden;
    if (opens) place.replaceChildren(changeForm(now));
    below.hidden = !opens;
    button.setAttribute('aria-expanded', String(opens));
  };
  const update = ({ link, share, standing, isClient }) => {
    now = link;
    const { traffic, allowed } = link;
    setText(state, standing.word);
    setClass(state, `badge${standing.kind}`);
    setText(why, printable(standing.why ?? ''));
    setText(cells.use, allowed ? useWords(allowed) : '–');
    setText(cells.down, rate(traffic.down_bps));
    setText(cells.up, rate(traffic.up_bps));
    setText(cells.share, percent(share));
    setText(cells.rtt, delay(traffic.rtt_ms));
    setText(cells.loss, percent(traffic.up_loss));
    setText(cells.queue, delay(traffic.queue_ms));
    setText(month, allowed ? monthWords(allowed) : '–');
    bar.hidden = !allowed?.allowance_bytes;
    if (!bar.hidden) bar.firstChild.style.width = `${Math.min(100, (100 * used(allowed)) / allowed.allowance_bytes)}%`;
    button.hidden = !isClient || (link.state === 'unused' && !allowed);
  };
  return { node, update };
}

const useWords = ({ up, down }) => (up === down ? up : `up ${up}, down ${down}`);

const used = (allowed) => allowed.sent_bytes + allowed.received_bytes;

function monthWords(allowed) {
  const of = allowed.allowance_bytes ? ` of ${size(allowed.allowance_bytes)}` : '';
  const cost = allowed.cost ? `, ${allowed.cost}` : '';
  const limit = allowed.limit ? `: ${allowed.limit}` : '';
  return printable(`${size(used(allowed))}${of}${cost}${limit}`);
}

/** Says when to use a link, and what it costs. Fields that are left empty change nothing. */
function changeForm(link) {
  const before = { up: link.allowed?.up ?? 'normal', down: link.allowed?.down ?? 'normal' };
  const choice = (name, chosen) =>
    h('select', { name }, ...USES.map((use) => h('option', { selected: use === chosen }, use)));
  const said = h('p', { class: 'said', role: 'status' });
  const field = (label, input) => h('label', {}, `${label} `, input);
  const text = (name, placeholder) => h('input', { name, placeholder, size: 12, autocomplete: 'off' });
  const form = h('form', { class: 'fields', onsubmit: (event) => submit(event) },
    h('fieldset', {}, h('legend', {}, `Use of ${printable(link.name)}`),
      field('Down', choice('down', before.down)),
      field('Up', choice('up', before.up)),
      field('Weight, 1 to 1000', h('input', { name: 'weight', type: 'number', min: 1, max: 1000, placeholder: 'as it is' })),
      field('Price, 0 is free', text('price', '2.5EUR/GB')),
      field('Allowance a month', text('allowance', '10GB or none')),
      h('label', { class: 'check' }, h('input', { name: 'save', type: 'checkbox' }), ' save to the configuration'),
      h('button', {}, 'Apply')), said);
  const submit = (event) => {
    event.preventDefault();
    send(said, linkChange(link.name, before, form.elements));
  };
  return form;
}

/** What was not touched is not said: it may have been changed elsewhere meanwhile. */
function linkChange(name, before, { up, down, weight, price, allowance, save }) {
  const change = { request: 'set-link', name, save: save.checked };
  if (up.value !== before.up) change.up = up.value;
  if (down.value !== before.down) change.down = down.value;
  if (weight.value) change.weight = Number(weight.value);
  if (price.value.trim()) change.price = price.value.trim();
  if (allowance.value.trim()) change.allowance = allowance.value.trim();
  return change;
}

const USES = ['normal', 'prefer', 'backup', 'never'];
