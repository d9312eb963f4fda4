// Charts over time, as SVG: stacked areas and lines with axes, a legend, a readout for pointer and
// keyboard, and an equivalent table. All charts of the dashboard and of reports are drawn here; the
// module needs only an element to draw into.
//
//     const chart = new TimeChart(element, { title: 'Down', unit: RATE, stacked: true });
//     chart.draw({ times, series: [{ name: 'dsl', slot: 0, values }], from, to });
//
// `times` are milliseconds, rising; `values` has one number for each, or null for an unknown one.
// `slot` selects colour and pattern: a link has the same slot in every chart.

/** Rates in bit/s, shown as the terminal shows them. */
export const RATE = {
  format(bits) {
    if (bits < 1e3) return `${Math.round(bits)} bit/s`;
    if (bits < 1e6) return `${(bits / 1e3).toFixed(1)} kbit/s`;
    if (bits < 1e9) return `${(bits / 1e6).toFixed(2)} Mbit/s`;
    return `${(bits / 1e9).toFixed(2)} Gbit/s`;
  },
  scale: (top) => (top < 1e6 ? [1e3, 'kbit/s'] : top < 1e9 ? [1e6, 'Mbit/s'] : [1e9, 'Gbit/s']),
  least: 1e5,
};

/** Spans in milliseconds. */
export const DELAY = {
  format: (ms) => `${ms.toFixed(1)} ms`,
  scale: () => [1, 'ms'],
  least: 10,
};

export class TimeChart {
  /** `options`: `title`; `unit`, RATE or DELAY; `stacked`, else lines; `height` in pixels;
   * `fromStart`: time counts from the first moment shown, else back from the last. */
  constructor(host, options) {
    adoptStyle();
    this.options = { height: 170, ...options };
    this.id = `chart${(made += 1)}`;
    this.data = { times: [], series: [], from: 0, to: 1 };
    this.marked = null;
    this.rows = new Map();
    this.#build(host);
    new ResizeObserver(() => this.#render()).observe(this.svg);
  }

  /** Replaces the shown data. */
  draw(data) {
    this.data = data;
    this.#render();
  }

  #build(host) {
    const { title } = this.options;
    this.svg = shape('svg', { role: 'img' });
    this.defs = this.svg.appendChild(shape('defs'));
    this.grid = this.svg.appendChild(shape('g', { class: 'chart-grid' }));
    this.plot = this.svg.appendChild(shape('g'));
    this.cursor = this.svg.appendChild(shape('line', { class: 'chart-cursor' }));
    this.legend = element('ul', 'chart-legend');
    this.moment = element('span', 'chart-moment');
    this.slider = element('input', 'chart-slider');
    Object.assign(this.slider, { type: 'range', step: 'any' });
    this.slider.setAttribute('aria-label', `Moment shown of: ${title}`);
    this.details = element('details', 'chart-figures');
    this.details.append(element('summary', '', `${title} in figures`));
    this.table = this.details.appendChild(element('table'));
    const head = element('div', 'chart-head');
    head.append(this.legend, this.moment);
    const figure = element('figure', 'chart');
    figure.append(head, this.svg, this.slider, this.details);
    host.append(figure);
    this.#listen();
  }

  #listen() {
    const at = (event) => {
      const box = this.svg.getBoundingClientRect();
      const { from, to } = this.data;
      const part = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
      this.#mark(from + Math.min(1, Math.max(0, part)) * (to - from));
    };
    this.svg.addEventListener('pointermove', at);
    this.svg.addEventListener('pointerdown', at);
    this.svg.addEventListener('pointerleave', () => this.#mark(null));
    // The slider counts back from the end, so that it stays in place while time passes.
    const chosen = () => this.#mark(this.data.to + Number(this.slider.value), true);
    this.slider.addEventListener('input', chosen);
    this.slider.addEventListener('focus', chosen);
    this.slider.addEventListener('blur', () => this.#mark(null));
    this.details.addEventListener('toggle', () => this.#tabulate());
  }

  /** Shows the values at a moment; without one: the latest. */
  #mark(time, bySlider = false) {
    this.marked = time === null ? null : this.data.to - time;
    this.#render();
    if (bySlider) this.slider.setAttribute('aria-valuetext', this.#said());
  }

  #said() {
    const values = [...this.legend.children].map((row) => row.textContent.replace(/\s+/g, ' '));
    return `${this.moment.textContent}: ${values.join(', ')}`;
  }

  #render() {
    const width = this.svg.clientWidth;
    if (width < LEFT + RIGHT + 20) return;
    const frame = this.#frame(width);
    this.svg.setAttribute('viewBox', `0 0 ${width} ${this.options.height}`);
    this.svg.setAttribute('height', this.options.height);
    this.#drawGrid(frame);
    this.#drawSeries(frame);
    this.#drawCursor(frame);
    this.#tabulate();
    this.svg.setAttribute('aria-label', this.#summary(frame));
  }

  /** Positions of values and moments on the drawing. */
  #frame(width) {
    const { times, series, from, to } = this.data;
    const { height, unit, stacked } = this.options;
    const first = firstShown(times, from);
    const sum = (at) => series.reduce((all, one) => all + (one.values[at] ?? 0), 0);
    const most = (at) => Math.max(0, ...series.map((one) => one.values[at] ?? 0));
    let highest = 0;
    for (let at = first; at < times.length; at += 1) {
      highest = Math.max(highest, stacked ? sum(at) : most(at));
    }
    const step = niceStep(Math.max(highest, unit.least) / 4);
    const top = step * Math.max(1, Math.ceil(Math.max(highest, unit.least) / step - 1e-9));
    const right = width - RIGHT;
    const bottom = height - BOTTOM;
    const x = (time) => LEFT + ((time - from) / (to - from)) * (right - LEFT);
    const y = (value) => bottom - (value / top) * (bottom - TOP);
    return { first, highest, step, top, right, bottom, x, y, sum };
  }

  #drawGrid({ step, top, right, bottom, x, y }) {
    const { from, to } = this.data;
    const [divisor, name] = this.options.unit.scale(top);
    const parts = [];
    for (let value = 0; value <= top * 1.001; value += step) {
      const at = Math.round(y(value)) + 0.5;
      parts.push(shape('line', { x1: LEFT, x2: right, y1: at, y2: at }));
      const last = value + step > top * 1.001;
      const text = `${tidy(value / divisor)}${last ? ` ${name}` : ''}`;
      parts.push(
        label(text, last ? LEFT : LEFT - 6, last ? at - 5 : at + 4, last ? 'start' : 'end'),
      );
    }
    const apart = niceSpan((to - from) / (right - LEFT < 360 ? 3 : 5));
    const { fromStart } = this.options;
    for (let span = 0; span <= to - from + 1; span += apart) {
      const at = x(fromStart ? from + span : to - span);
      const isEdge = fromStart ? at > right - 20 : span === 0;
      parts.push(shape('line', { x1: at, x2: at, y1: bottom, y2: bottom + 4 }));
      const anchor = isEdge ? 'end' : at < LEFT + 20 ? 'start' : 'middle';
      parts.push(label(this.#timeWords(span), isEdge ? right : at, bottom + 16, anchor));
    }
    this.grid.replaceChildren(...parts);
  }

  #timeWords(span) {
    if (this.options.fromStart) return spanWords(span);
    return span === 0 ? 'now' : `−${spanWords(span)}`;
  }

  #drawSeries(frame) {
    const { times, series } = this.data;
    const base = times.map(() => 0);
    const known = new Set();
    // Each layer is drawn below the previous ones, so that edges stay visible.
    const drawn = series.map((one) => {
      known.add(one.name);
      const parts = this.#partsOf(one);
      const outline = this.options.stacked ? area(times, one.values, base, frame) : null;
      parts.area.setAttribute('d', outline ? outline.area : '');
      parts.edge.setAttribute('d', outline ? outline.edge : line(times, one.values, frame));
      return [parts.area, parts.edge];
    });
    this.plot.replaceChildren(...drawn.flat());
    for (const name of this.rows.keys()) if (!known.has(name)) this.rows.delete(name);
  }

  #partsOf({ name, slot }) {
    let parts = this.rows.get(name);
    if (!parts) {
      const pattern = fillPattern(slot, `${this.id}-${slot}`);
      if (!this.defs.querySelector(`#${pattern.id}`)) this.defs.append(pattern);
      parts = { area: shape('path'), edge: shape('path', { fill: 'none' }) };
      parts.area.style.fill = `url(#${pattern.id})`;
      parts.edge.style.stroke = COLOURS[slot % COLOURS.length];
      parts.edge.style.strokeWidth = this.options.stacked ? 1.25 : 2;
      if (!this.options.stacked) parts.edge.style.strokeDasharray = DASHES[slot % DASHES.length];
      this.rows.set(name, parts);
    }
    return parts;
  }

  /** The line at the marked moment, and the values there in the legend. */
  #drawCursor(frame) {
    const { times, series, to, from } = this.data;
    const { unit, stacked, fromStart } = this.options;
    const isMarked = this.marked !== null;
    const time = isMarked ? Math.max(from, to - this.marked) : to;
    // A chart that counts from its start has no current value to show.
    const at = isMarked || !fromStart ? nearest(times, time) : -1;
    const shown = isMarked && at >= 0;
    this.cursor.style.display = shown ? '' : 'none';
    const x = shown ? frame.x(Math.max(times[at], from)) : 0;
    for (const [key, value] of Object.entries({ x1: x, x2: x, y1: TOP, y2: frame.bottom })) {
      this.cursor.setAttribute(key, value);
    }
    const none = at < 0 && fromStart ? '' : '–';
    const word = (value) => (value === null || value === undefined ? none : unit.format(value));
    const rows = series.map((one) => [one.name, word(one.values[at]), one.slot]);
    if (stacked) rows.push(['together', word(at < 0 ? null : frame.sum(at)), null]);
    writeRows(this.legend, rows);
    this.moment.textContent = shown ? this.#momentWords(times[at]) : '';
    const back = Math.min(0, Math.round((from - to) / 1000) * 1000);
    setOnce(this.slider, 'min', String(back));
    setOnce(this.slider, 'max', '0');
    setOnce(this.slider, 'step', '1000');
    if (this.slider.getAttribute('aria-valuetext') === null) {
      this.slider.value = '0';
      this.slider.setAttribute('aria-valuetext', fromStart ? 'none' : 'now');
    }
  }

  #momentWords(time) {
    const { from, to } = this.data;
    if (this.options.fromStart) return `at ${spanWords(time - from)}`;
    return to - time < 500 ? 'now' : `${spanWords(to - time)} ago`;
  }

  #summary(frame) {
    const { title, unit, fromStart } = this.options;
    const { from, to, times, series } = this.data;
    if (!times.length) return `${title}: nothing yet`;
    const names = series.map(({ name }) => name).join(', ');
    if (fromStart)
      return `${title} over ${spanWords(to - from)}: ${names}; highest ${unit.format(frame.highest)}`;
    const last = times.length - 1;
    const now = series.map(({ name, values }) => {
      const value = values[last];
      return `${name} ${value === null || value === undefined ? 'unknown' : unit.format(value)}`;
    });
    const highest = `highest ${unit.format(frame.highest)}`;
    return `${title} over ${spanWords(to - from)}: ${now.join(', ')}; ${highest}`;
  }

  /** Shows the same data as a table, while it is open. */
  #tabulate() {
    if (!this.details.open) return;
    const { title, unit } = this.options;
    const { times, series, from } = this.data;
    const caption = element('caption', '', title);
    const head = row(
      'th',
      [this.options.fromStart ? 'Whose' : 'Link', 'Latest', 'Mean', 'Highest'],
      'col',
    );
    const first = firstShown(times, from);
    const rows = series.map(({ name, values }) => {
      const known = values.slice(first).filter((value) => value !== null && value !== undefined);
      const word = (value) => (known.length ? unit.format(value) : '–');
      const mean = known.reduce((all, value) => all + value, 0) / known.length;
      const latest = values[times.length - 1];
      const cells = [latest === null || latest === undefined ? '–' : unit.format(latest)];
      cells.push(word(mean), word(Math.max(...known)));
      const line = row('td', cells);
      const th = element('th', '', name);
      th.scope = 'row';
      line.prepend(th);
      return line;
    });
    const [thead, tbody] = [element('thead'), element('tbody')];
    thead.append(head);
    tbody.append(...rows);
    this.table.replaceChildren(caption, thead, tbody);
  }
}

/** A small picture of a slot's colour and pattern, to stand beside a name. */
export function swatch(slot) {
  const svg = shape('svg', { class: 'chart-swatch', viewBox: '0 0 16 12', 'aria-hidden': 'true' });
  const pattern = fillPattern(slot, `swatch${(made += 1)}`);
  const box = shape('rect', { x: 0.5, y: 0.5, width: 15, height: 11, rx: 2 });
  box.style.fill = `url(#${pattern.id})`;
  box.style.stroke = COLOURS[slot % COLOURS.length];
  svg.append(pattern, box);
  return svg;
}

/** Returns the outline of one layer of a stack; raises `base` by it. */
function area(times, values, base, { first, x, y }) {
  let over = '';
  let under = '';
  for (let at = first; at < times.length; at += 1) {
    const place = x(times[at]).toFixed(1);
    under = `L${place} ${y(base[at]).toFixed(1)}${under}`;
    base[at] += values[at] ?? 0;
    over += `${over ? 'L' : 'M'}${place} ${y(base[at]).toFixed(1)}`;
  }
  return { area: over && `${over}${under}Z`, edge: over };
}

/** Returns a line, broken at unknown values. */
function line(times, values, { first, x, y }) {
  let path = '';
  let isBroken = true;
  for (let at = first; at < times.length; at += 1) {
    const value = values[at] ?? null;
    if (value !== null) {
      path += `${isBroken ? 'M' : 'L'}${x(times[at]).toFixed(1)} ${y(value).toFixed(1)}`;
    }
    isBroken = value === null;
  }
  return path;
}

/** Colour and pattern, so that the pattern alone suffices to tell series apart. */
function fillPattern(slot, id) {
  const colour = COLOURS[slot % COLOURS.length];
  const pattern = shape('pattern', { id, width: 8, height: 8, patternUnits: 'userSpaceOnUse' });
  const ground = shape('rect', { width: 8, height: 8 });
  ground.style.fill = colour;
  ground.style.fillOpacity = 0.45;
  pattern.append(ground);
  const strokes = PATTERNS[slot % PATTERNS.length];
  if (strokes) {
    const mark = shape('path', {
      d: strokes,
      fill: 'none',
      'stroke-width': 1.6,
      'stroke-linecap': 'round',
    });
    mark.style.stroke = colour;
    pattern.append(mark);
  }
  return pattern;
}

/** Updates the legend's rows, only where they differ. */
function writeRows(list, rows) {
  while (list.children.length > rows.length) list.lastChild.remove();
  rows.forEach(([name, value, slot], at) => {
    let item = list.children[at];
    if (item?.dataset.name !== name || item.dataset.slot !== String(slot)) {
      const fresh = element('li');
      Object.assign(fresh.dataset, { name, slot });
      if (slot !== null) fresh.append(swatch(slot));
      fresh.append(element('span', 'chart-name', name), ' ', element('b'));
      if (item) item.replaceWith(fresh);
      else list.append(fresh);
      item = fresh;
    }
    const shown = item.lastChild;
    if (shown.textContent !== value) shown.textContent = value;
  });
}

function firstShown(times, from) {
  const first = times.findIndex((time) => time >= from);
  return first < 0 ? times.length : first;
}

function nearest(times, time) {
  let best = -1;
  for (let at = times.length - 1; at >= 0; at -= 1) {
    if (best >= 0 && Math.abs(times[at] - time) > Math.abs(times[best] - time)) break;
    best = at;
  }
  return best;
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
}

const niceSpan = (rough) => SPANS.find((span) => span >= rough * 0.999) ?? rough;

const tidy = (number) => String(Number(number.toPrecision(6)));

function spanWords(ms) {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60 || seconds % 60) return `${seconds} s`;
  return seconds % 3600 ? `${seconds / 60} min` : `${seconds / 3600} h`;
}

function setOnce(target, name, value) {
  if (target.getAttribute(name) !== value) target.setAttribute(name, value);
}

function shape(name, attributes = {}) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function label(text, x, y, anchor) {
  const made = shape('text', { x, y, 'text-anchor': anchor });
  made.textContent = text;
  return made;
}

function element(name, className = '', text = '') {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}

function row(kind, texts, scope) {
  const made = element('tr');
  for (const text of texts) {
    const cell = element(kind, '', text);
    if (scope) cell.scope = scope;
    made.append(cell);
  }
  return made;
}

/** Creates a style sheet in script, which works where inline styles are forbidden. */
function adoptStyle() {
  if (isStyled) return;
  isStyled = true;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}

let made = 0;
let isStyled = false;

const LEFT = 38;
const RIGHT = 8;
const TOP = 18;
const BOTTOM = 22;
const SPANS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600].map((s) => s * 1000);

/** At least 3:1 against white and against the dark background; distinguishable with colour
 * vision deficiency. */
const COLOURS = [
  'light-dark(#0b62a4, #62b2f2)',
  'light-dark(#b4540a, #f0a050)',
  'light-dark(#00795a, #3fcf9f)',
  'light-dark(#a23b7e, #f08cc8)',
  'light-dark(#6a51a3, #b9a5f0)',
  'light-dark(#7a5c00, #d9bf50)',
  'light-dark(#007a8a, #4fd0e0)',
  'light-dark(#b3261e, #ff9a8f)',
];
const PATTERNS = [
  '',
  'M-2 2l4 -4M0 8l8 -8M6 10l4 -4',
  'M2 2h.1M6 6h.1',
  'M-2 6l4 4M0 0l8 8M6 -2l4 4',
  'M0 4h8',
  'M0 4h8M4 0v8',
  'M4 0v8',
  'M0 0l8 8M0 8l8 -8',
];
const DASHES = ['', '7 3', '2 3', '8 3 2 3', '12 3', '4 4', '1 2', '8 3 2 3 2 3'];

const STYLE = `
.chart { margin: 0; }
.chart svg[role=img] { display: block; width: 100%; touch-action: pan-y; }
.chart text { fill: currentColor; font-size: 11px; font-variant-numeric: tabular-nums; }
.chart-grid line { stroke: currentColor; stroke-opacity: .18; }
.chart-cursor { stroke: currentColor; stroke-dasharray: 3 2; }
.chart-head { display: flex; justify-content: space-between; gap: 1em; min-height: 1.5em; }
.chart-legend { display: flex; flex-wrap: wrap; gap: .1em 1.1em;
  margin: 0; padding: 0; list-style: none; }
.chart-legend b { font-variant-numeric: tabular-nums; }
.chart-name { overflow-wrap: anywhere; }
.chart-moment { white-space: nowrap; }
.chart-swatch { width: 1em; height: .75em; margin-inline-end: .4em; }
.chart-slider { display: block; box-sizing: border-box; height: 16px; margin: 0;
  width: calc(100% - ${LEFT + RIGHT}px); margin-inline-start: ${LEFT}px;
  appearance: none; background: none; }
.chart-slider::-webkit-slider-runnable-track { height: 2px; background: currentColor; opacity: .8; }
.chart-slider::-moz-range-track { height: 2px; background: currentColor; opacity: .8; }
.chart-slider::-webkit-slider-thumb { appearance: none; width: 12px; height: 12px;
  margin-top: -5px; border-radius: 6px; background: currentColor; }
.chart-slider::-moz-range-thumb { width: 12px; height: 12px; border: 0; border-radius: 6px;
  background: currentColor; }
.chart-figures td { text-align: end; font-variant-numeric: tabular-nums; }
.chart-figures th[scope=row] { text-align: start; font-weight: inherit; }
`;
