// Events, the latest first.

import { clock, find, h, keep, printable } from './dom.js';

const events = [];

/** Remembers an event; the oldest are forgotten. */
export function addEvent(event) {
  events.unshift(event);
  events.length = Math.min(events.length, MOST);
}

/** Forgets all events: a new connection delivers those that the daemon remembers. */
export function clearEvents() {
  events.length = 0;
}

/** Shows the events. */
export function showEvents() {
  find('events-none').hidden = events.length > 0;
  find('events').hidden = events.length === 0;
  keep(
    find('events'),
    events,
    (event) => `${event.id} ${event.at_unix_ms} ${event.event}`,
    (event) => {
      const time = h(
        'time',
        { datetime: new Date(event.at_unix_ms).toISOString() },
        clock(event.at_unix_ms),
      );
      return { node: h('li', {}, time, ' ', printable(words(event))), update() {} };
    },
  );
}

function addresses(all) {
  return all.join(', ') || 'no address';
}

function words(event) {
  const why = event.reason ? `: ${event.reason}` : '';
  const since = event.since_unix_ms == null ? '' : ` since ${clock(event.since_unix_ms)}`;
  switch (event.event) {
    case 'link-appeared':
      return `Link ${event.link} is there, ${event.state}.`;
    case 'link-gone':
      return `Link ${event.link} is gone.`;
    case 'link-state':
      return `Link ${event.link} was ${event.from} and is ${event.to}${since}${why}.`;
    case 'link-addresses':
      return `Link ${event.link} has ${addresses(event.to)}, had ${addresses(event.from)}.`;
    case 'link-health':
      return `Link ${event.link} was ${event.from} and is ${event.to}.`;
    case 'link-signal':
      return `Signal of ${event.link} was ${event.from} and is ${event.to}${
        event.dbm === undefined ? '' : ` (${event.dbm} dBm)`}.`;
    case 'link-standby':
      return `Standby link ${event.link} is ${event.to}${why}.`;
    case 'link-use':
      return `Link ${event.link} is used so: up ${event.up}, down ${event.down}.`;
    case 'allowance':
      return `Allowance of ${event.link}: ${event.limit ?? 'there is some again'}.`;
    case 'session-began':
      return `Session ${event.session} with ${event.peer} began.`;
    case 'session-state':
      return `Session ${event.session} was ${event.from} and is ${event.to}${since}${why}.`;
    case 'session-ended':
      return `Session ${event.session} is over.`;
    case 'path-state':
      return `Path ${event.link} of session ${event.session} was ${event.from} and is ${event.to}${why}.`;
    case 'scheduler':
      return `Scheduler of ${event.of}: ${event.to} instead of ${event.from}.`;
    case 'gateway':
      return event.is_up
        ? 'The gateway can be reached again.'
        : `The gateway can’t be reached${since}${why}.`;
    case 'not-bonded':
      return event.reason
        ? `Not bonded with ${event.server}${why}.`
        : `Nothing is amiss with ${event.server} any more.`;
    case 'vouched':
      return event.refused
        ? `A connection to ${event.name} is refused: ${event.refused}.`
        : `Connections to ${event.name} are refused no more.`;
    case 'rules':
      return `Rules in force: ${event.count} of the user’s, profile ${event.profile}.`;
    case 'missed':
      return `${event.count} earlier events are forgotten.`;
    default:
      return event.event;
  }
}

const MOST = 200;
