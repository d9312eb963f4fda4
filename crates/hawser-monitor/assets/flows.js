// Traffic of applications: streams and flows of packets of sessions, and connections over one link
// each.

import { ask } from './api.js';
import {
  clock,
  delay,
  find,
  h,
  keep,
  percent,
  printable,
  rate,
  setText,
  shortSpan,
  size,
  span,
} from './dom.js';

let status = null;
let placed = [];
/** Bytes that a connection had moved at the last report, and the time of that report. */
let moved = new Map();
const opened = new Set();

/** Shows the flows of a status, and the connections of the latest report. */
export function showFlows(latest) {
  status = latest;
  const wanted = find('filter').value.trim().toLowerCase();
  const isWanted = (flow) =>
    `${flow.program ?? ''} ${flow.destination ?? ''}`.toLowerCase().includes(wanted);
  const flows = [...streams(), ...packets(), ...connections()].filter(isWanted);
  keep(find('flow-table'), flows.slice(0, MOST), (flow) => flow.key, makeFlow);
  const sum = (count) => status.sessions.reduce((all, one) => all + count(one), 0);
  const listed = sum((one) => one.streams.length);
  const packetsUnlisted = sum((one) => one.packet_flow_count - one.packet_flows.length);
  const unlisted = Math.max(0, status.all_sessions.stream_count - listed) + packetsUnlisted;
  const more = Math.max(0, flows.length - MOST) + unlisted;
  const rest = more > 0 ? `and ${more} more` : '';
  setText(find('flow-rest'), flows.length ? rest : 'None.');
  find('flow-table').hidden = flows.length === 0;
}

/** Requests connections and reasons from time to time, while the page is visible. */
export function watchFlows() {
  find('filter').addEventListener('input', () => status && showFlows(status));
  setInterval(() => {
    if (document.hidden || !status) return;
    // A failed request is repeated the next time; the feed reports a daemon that is gone.
    if (status.connections) askPlaced().catch(() => {});
    for (const flow of opened) flow.askWhy();
  }, EVERY);
}

/** Streams, the latest first. */
function streams() {
  return status.sessions.flatMap((session) => {
    const isUsed = (path) => path.state === 'up' && path.standing !== 'excluded';
    const over = session.paths.filter(isUsed).map((path) => path.link);
    const flows = session.streams.map((stream) => ({
      key: `stream ${session.id} ${stream.id}`,
      session: session.id,
      stream: stream.id,
      program: stream.program,
      destination: stream.destination,
      over: over.join(' + ') || '–',
      rate: rate(stream.rate_bps),
      sent: stream.bytes_sent,
      received: stream.bytes_received,
      lasted: span(stream.age_ms),
      isOver: false,
    }));
    return flows.reverse();
  });
}

/** Flows of packets, the latest first. */
function packets() {
  return status.sessions.flatMap((session) =>
    session.packet_flows.map((flow) => ({
      key: `packets ${session.id} ${flow.protocol} ${flow.source} ${flow.destination}`,
      session: session.id,
      packets: flow,
      program: `${flow.protocol} packets`,
      destination: flow.name ? `${flow.name} (${flow.destination})` : flow.destination,
      over: flow.links.map((link) => link.link).join(' + ') || '–',
      rate: rate(flow.rate_bps),
      sent: flow.bytes_sent,
      received: flow.bytes_received,
      lasted: span(flow.age_ms),
      isOver: false,
    })),
  );
}

/** Connections, the latest first, without those over a session, which are among its streams. */
function connections() {
  const state = (one) => (one.state === 'open' ? '' : `, ${one.state}`);
  const isStreamed = (one) =>
    ['gateway', 'peer'].includes(one.why) && !['ended', 'failed'].includes(one.state);
  const flows = placed
    .filter((one) => !isStreamed(one))
    .map((one) => ({
      key: `connection ${one.id}`,
      placed: one,
      program: one.program,
      destination: one.destination,
      over:
        (one.link ?? one.tries[0]?.link ?? (one.why === 'peer' ? 'session' : 'system')) +
        state(one),
      rate: one.state === 'open' ? rate(one.now_bps) : '–',
      sent: one.bytes_sent,
      received: one.bytes_received,
      lasted: one.lasted_ms === null || one.lasted_ms === undefined ? '–' : span(one.lasted_ms),
      isOver: one.state !== 'open' && one.state !== 'connecting',
    }));
  return flows.reverse();
}

async function askPlaced() {
  const { placed: report } = await ask({ request: 'why', connections: MOST_PLACED });
  const now = performance.now();
  const next = new Map();
  placed = (report?.connections ?? []).map((one) => {
    const bytes = one.bytes_sent + one.bytes_received;
    next.set(one.id, { bytes, now });
    const former = moved.get(one.id);
    const since = former && ((bytes - former.bytes) * 8000) / (now - former.now);
    return { ...one, now_bps: Math.max(0, since ?? one.rate_bps) };
  });
  moved = next;
}

/** One flow: a row, and below it the reasons for its links, while that part is open. */
function makeFlow(first) {
  const cell = (label, kind) => h('td', { class: kind, 'data-label': label });
  const name = (text) => h('bdi', {}, printable(text));
  const over = cell('Link', 'words');
  const numbers = ['Rate', 'Sent', 'Received', 'For'].map((label) => cell(label, 'number'));
  const button = h('button', { 'aria-expanded': 'false', onclick: () => toggle() }, 'Why');
  button.setAttribute('aria-label', `Why this way to ${printable(first.destination ?? 'nowhere')}`);
  const to = cell('Destination', 'words');
  to.append(name(first.destination ?? '–'));
  const program = name(first.program ?? '?');
  const row = h('tr', {}, h('th', { scope: 'row' }, program), to, over, ...numbers,
    h('td', { class: 'act' }, button));
  const place = h('td', { colspan: 8 });
  const below = h('tr', { class: 'below', hidden: true }, place);
  const node = h('tbody', {}, row, below);
  let now = first;
  const self = {
    node,
    async askWhy() {
      if (!node.isConnected) return opened.delete(self);
      if (now.placed) return place.replaceChildren(...whyPlaced(now.placed));
      try {
        const report = await ask({ request: 'why', session: now.session, stream: now.stream });
        const [session] = report.sessions;
        place.replaceChildren(
          ...(now.packets ? whyPackets(now.packets, session) : whyStream(session)),
        );
      } catch (error) {
        place.replaceChildren(h('p', {}, printable(error.message)));
      }
    },
    update(flow) {
      now = flow;
      node.className = flow.isOver ? 'over' : '';
      setText(program, printable(flow.program ?? '?'));
      setText(over, printable(flow.over));
      [flow.rate, size(flow.sent), size(flow.received), flow.lasted].forEach((text, at) =>
        setText(numbers[at], text),
      );
    },
  };
  const toggle = () => {
    below.hidden = !below.hidden;
    button.setAttribute('aria-expanded', String(!below.hidden));
    if (below.hidden) return opened.delete(self);
    opened.add(self);
    place.replaceChildren('…');
    self.askWhy();
  };
  return self;
}

/** Reasons why the links of a stream were used or not. */
function whyStream(session) {
  if (!session) return [h('p', {}, 'Nothing is known of it any more.')];
  const chunks = (list) =>
    list.map((one) => `${one.chunks} since ${one.meaning}`).join('; ') || '–';
  const rows = session.links.map((link) => [
    link.link,
    percent(link.share),
    size(link.bytes_sent),
    chunks(link.chosen),
    chunks(link.passed_over),
    link.held_back.map((one) => `${shortSpan(one.span_ms)} since ${one.meaning}`).join('; ') || '–',
  ]);
  const parts = [h('p', {}, `${session.scheduler} chose for what was sent from here:`)];
  if (session.links.every((link) => link.chunks === 0)) {
    parts[0].textContent = 'Nothing was sent yet, so that no link was chosen.';
  } else {
    parts.push(
      table(
        [
          'Link',
          'Share',
          'Sent',
          'Chunks that it got',
          'Chunks that others got',
          'Ready and unused',
        ],
        rows,
      ),
    );
  }
  if (session.bytes_received > 0) {
    const other = status.role === 'client' ? 'the gateway' : 'the client';
    parts.push(
      h(
        'p',
        {},
        `${size(session.bytes_received)} came the other way; ${other} chose the links for that.`,
      ),
    );
  }
  return parts;
}

/** Links that have carried a flow of packets, and the reasons. */
function whyPackets(flow, session) {
  const same = (one) => ['protocol', 'source', 'destination'].every((it) => one[it] === flow[it]);
  // The report gives reasons only for the flows with the most bytes.
  const told = session?.packet_flows?.find(same) ?? flow;
  const rows = told.links.map((link) => [
    link.link,
    size(link.bytes_sent),
    size(link.bytes_copied),
    size(link.bytes_received),
    (link.chosen ?? []).map((one) => `${one.chunks} since ${one.meaning}`).join('; ') || '–',
  ]);
  const counts = [
    [told.dropped, 'dropped here since a queue stood'],
    [told.marked, 'marked here instead'],
    [told.lost, 'lost on the way here'],
    [told.late, 'late'],
  ].filter(([count]) => count > 0);
  const text =
    `From ${told.source}, placed as ${told.placed}: ${told.packets_sent} packets sent, ` +
    `${told.packets_received} received` +
    counts.map(([count, what]) => `, ${count} ${what}`).join('');
  return [
    h('p', {}, printable(`${text}.`)),
    table(['Link', 'Sent', 'As copies', 'Received', 'Packets that it got'], rows),
  ];
}

/** The decision on a connection, and its outcome. */
function whyPlaced(one) {
  const first = one.tries[0]?.link ?? one.candidates[0]?.link;
  const who = one.in_kernel ? `The kernel’s program, by ${one.scheduler},` : one.scheduler;
  const chose =
    first && one.candidates.length
      ? `${who} chose ${first}`
      : 'It went as the system’s routes have it';
  const user = one.user === null || one.user === undefined ? '' : `, run by user ${one.user}`;
  const parts = [
    h(
      'p',
      {},
      printable(
        `${clock(one.at_unix_ms)}: ${one.program ?? 'an unknown program'}${user}, to ${one.destination} by ` +
          `${one.protocol}, ${one.class}; expected to send ${size(one.expected_up_bytes)} and receive ` +
          `${size(one.expected_down_bytes)}. ${chose}, because ${one.meaning}.`,
      ),
    ),
  ];
  if (one.candidates.length) parts.push(candidates(one.candidates));
  if (one.rules.length) {
    const rules = one.rules.map(
      (rule) =>
        `${rule.field} ${rule.value} by ${rule.number} (${rule.source}${rule.name ? ` ${rule.name}` : ''})`,
    );
    parts.push(h('p', {}, printable(`Rules: ${rules.join(', ')}.`)));
  }
  if (one.tries.length > 1 || one.error) {
    const tries = one.tries.map(
      (it) =>
        `${it.link ?? 'the system’s routes'} after ${shortSpan(it.after_ms)} (${it.error ?? it.state})`,
    );
    parts.push(
      h('p', {}, printable(`Tried: ${tries.join(', ')}.${one.error ? ` ${one.error}.` : ''}`)),
    );
  }
  return parts;
}

function candidates(list) {
  const known = (bits) => (bits > 0 ? rate(bits) : '?');
  const rows = list.map((it) => [
    it.standing === 'equal' ? it.link : `${it.link} (${it.standing})`,
    known(it.up_bps),
    known(it.down_bps),
    delay(it.latency_ms),
    String(it.active),
    size(it.up_bytes + it.down_bytes),
    shortSpan(it.finish_ms),
    shortSpan(it.answer_ms),
  ]);
  return table(['Link', 'Up', 'Down', 'RTT', 'Active', 'To come', 'Done in', 'Answer in'], rows);
}

function table(heads, rows) {
  const head = h('tr', {}, ...heads.map((text) => h('th', { scope: 'col' }, text)));
  const line = ([link, ...rest]) =>
    h(
      'tr',
      {},
      h('th', { scope: 'row' }, h('bdi', {}, printable(link))),
      ...rest.map((text, at) => h('td', { 'data-label': heads[at + 1] }, printable(text))),
    );
  return h(
    'table',
    { class: 'cards inner' },
    h('thead', {}, head),
    h('tbody', {}, ...rows.map(line)),
  );
}

/** Limit of rows. */
const MOST = 100;
/** Limit of requested connections. */
const MOST_PLACED = 40;
const EVERY = 2000;
