// Rates of links over the last minutes.

/** Samples of all links at the same moments. A link keeps its slot, and with it colour and
 * pattern, while the page is open. */
export class Samples {
  times = [];
  #links = new Map();
  #slots = new Map();
  #present = new Set();
  /** From the daemon's uptime to its clock; unknown until the first status after a history. */
  #offset = null;
  #begunAt = 0;

  /** Restarts with the history that the daemon remembers. */
  begin({ at_unix_ms, every_ms, links }) {
    const count = links[0]?.down_bps.length ?? 0;
    this.times = Array.from({ length: count }, (_, at) => at_unix_ms - (count - 1 - at) * every_ms);
    this.#links = new Map();
    for (const { name, down_bps, up_bps, rtt_ms } of links) {
      this.slot(name);
      this.#links.set(name, { down: [...down_bps], up: [...up_bps], rtt: [...rtt_ms] });
    }
    this.#offset = null;
    this.#begunAt = at_unix_ms;
  }

  /** Adds the current rates of links. */
  add({ uptime_ms, links }) {
    this.#offset ??= this.#begunAt - uptime_ms;
    const time = uptime_ms + this.#offset;
    const isNew = !this.times.length || time > this.latest();
    if (isNew) this.times.push(time);
    const at = this.times.length - 1;
    const shown = links.filter(({ state }) => SHOWN.includes(state));
    this.#present = new Set(shown.map((link) => link.name));
    for (const one of this.#links.values()) put(one, at, 0, 0, null);
    for (const { name, traffic } of links) {
      this.slot(name);
      if (!this.#links.has(name)) this.#links.set(name, unknown(at));
      put(this.#links.get(name), at, traffic.down_bps, traffic.up_bps, traffic.rtt_ms ?? null);
    }
    while (this.times.length > LONGEST) this.#shift();
  }

  /** When the latest sample was taken. */
  latest() {
    return this.times.at(-1) ?? this.#begunAt;
  }

  /** The number of a link's colour and pattern. */
  slot(name) {
    if (!this.#slots.has(name)) this.#slots.set(name, this.#slots.size);
    return this.#slots.get(name);
  }

  /** `down`, `up` or `rtt` for a chart, of every link that is usable or has carried data. */
  series(what) {
    const isShown = ([name, one]) => this.#present.has(name) || one[what].some((value) => value);
    return [...this.#links]
      .filter(isShown)
      .map(([name, one]) => ({ name, slot: this.slot(name), values: one[what] }));
  }

  #shift() {
    this.times.shift();
    for (const { down, up, rtt } of this.#links.values()) {
      for (const list of [down, up, rtt]) list.shift();
    }
  }
}

function put(one, at, down, up, rtt) {
  one.down[at] = down;
  one.up[at] = up;
  one.rtt[at] = rtt;
}

function unknown(count) {
  const [down, up, rtt] = [0, 0, null].map((value) => Array(count).fill(value));
  return { down, up, rtt };
}

/** Links shown: data may still wait for a silent one. */
const SHOWN = ['up', 'silent'];
/** Ten minutes of seconds. */
const LONGEST = 601;
