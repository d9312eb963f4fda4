// The dashboard: stores and shows the daemon's messages.

import { follow, takeToken, useToken } from './api.js';
import { DELAY, RATE, TimeChart } from './chart.js';
import { find, printable, rate, setClass, setText, size, span } from './dom.js';
import { addEvent, clearEvents, showEvents } from './events.js';
import { showFlows, watchFlows } from './flows.js';
import { showLinks } from './links.js';
import { showPolicy } from './policy.js';
import { Samples } from './samples.js';

const state = { samples: new Samples(), status: null, policy: null, seconds: 120 };
const charts = {
  down: new TimeChart(find('chart-down'), { title: 'Down', unit: RATE, stacked: true }),
  up: new TimeChart(find('chart-up'), { title: 'Up', unit: RATE, stacked: true }),
  rtt: new TimeChart(find('chart-rtt'), { title: 'RTT', unit: DELAY, stacked: false }),
};

const handlers = {
  connected() {
    clearEvents();
    show({ refused: false });
  },
  lost(why, ms) {
    setClass(find('connection'), 'badge bad');
    const wait = ms < 1000 ? 'at once' : `in ${Math.round(ms / 1000)} s`;
    setText(find('connection'), `not connected, next try ${wait}`);
    const again = document.createElement('button');
    again.textContent = 'Try now';
    again.addEventListener('click', () => tryNow());
    // Shown once, not with every try: screen readers would read it aloud each time.
    const text = `Not connected: ${why}. What is shown is old. Trying again by itself.`;
    if (find('notice').dataset.text !== text) {
      find('notice').dataset.text = text;
      find('notice').replaceChildren(text, ' ', again);
    }
  },
  refused() {
    setClass(find('connection'), 'badge bad');
    setText(find('connection'), 'no token');
    quiet();
    show({ refused: true });
  },
  history(report) {
    state.samples.begin(report);
    paint();
  },
  policy(policy) {
    state.policy = policy;
    paint();
  },
  status(status) {
    state.status = status;
    state.samples.add(status);
    setClass(find('connection'), 'badge good');
    setText(find('connection'), 'live');
    quiet();
    paint();
  },
  event(event) {
    addEvent(event);
    paint();
  },
};

function quiet() {
  delete find('notice').dataset.text;
  if (find('notice').firstChild) find('notice').replaceChildren();
}

function show({ refused }) {
  find('refused').hidden = !refused;
  find('main').hidden = refused;
}

let isPainting = false;

/** Shows everything at the next frame; an invisible page is not drawn. */
function paint() {
  if (isPainting) return;
  isPainting = true;
  requestAnimationFrame(() => {
    isPainting = false;
    drawCharts();
    showEvents();
    if (!state.status) return;
    showNow(state.status);
    showLinks(state.status, state.samples);
    showFlows(state.status);
    showPolicy(state.policy, state.status);
  });
}

function drawCharts() {
  const { samples, seconds } = state;
  const to = samples.latest();
  const frame = { times: samples.times, from: to - seconds * 1000, to };
  for (const [what, chart] of Object.entries(charts)) {
    chart.draw({ ...frame, series: samples.series(what) });
  }
}

function showNow(status) {
  const sum = (what) => status.links.reduce((all, link) => all + link.traffic[what], 0);
  const [down, up] = [sum('down_bps'), sum('up_bps')];
  const busiest = Math.max(
    0,
    ...status.links.map(({ traffic }) => traffic.down_bps + traffic.up_bps),
  );
  setText(find('now-down'), rate(down));
  setText(find('now-up'), rate(up));
  setText(find('now-gain'), busiest > 0 ? `× ${((down + up) / busiest).toFixed(2)}` : '–');
  const usable = status.links.filter((link) => link.state === 'up').length;
  setText(find('now-links'), `${usable} of ${status.links.length}`);
  setText(find('now-streams'), String(status.all_sessions.stream_count));
  const placed = status.connections?.links ?? [];
  setText(find('now-connections'), String(placed.reduce((all, link) => all + link.open, 0)));
  setText(find('now-memory'), size(status.memory.resident_bytes));
  const at = status.listen.length ? `, at ${status.listen.join(' ')}` : '';
  const words = `${status.version} ${status.role}, running for ${span(status.uptime_ms)}${at}`;
  setText(find('daemon'), printable(words));
  document.title = `↓ ${rate(down)} ↑ ${rate(up)} · Hawser`;
}

function chooseTheme() {
  const select = find('theme');
  const apply = () => {
    if (select.value) document.documentElement.dataset.theme = select.value;
    else delete document.documentElement.dataset.theme;
  };
  select.value = localStorage.getItem(THEME) ?? '';
  apply();
  select.addEventListener('change', () => {
    localStorage.setItem(THEME, select.value);
    apply();
  });
}

const THEME = 'hawser-theme';

chooseTheme();
find('range').addEventListener('change', (event) => {
  state.seconds = Number(event.target.value);
  paint();
});
takeToken();
watchFlows();
const tryNow = follow(handlers);
addEventListener('hashchange', () => {
  takeToken();
  tryNow();
});
find('token-form').addEventListener('submit', (event) => {
  event.preventDefault();
  useToken(find('token').value);
  find('token').value = '';
  tryNow();
});
