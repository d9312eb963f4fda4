// The daemon: who it is, questions and the feed.
//
// The token itself is never sent, and is kept only in this page's memory: another program may hold
// the daemon's port after the daemon has ended. Each connection begins with the daemon's proof that
// it knows the token. The page then shows a pass, made from the token for this run of the daemon;
// no other reader can use it.

let token = null;
/** The pass of the daemon that has proved itself; null while none has. */
let pass = null;

/** Takes the token from the address, and out of the address bar. */
export function takeToken() {
  const found = tokenIn(location.hash);
  if (!found) return;
  token = found;
  history.replaceState(null, '', location.pathname);
}

/** Accepts a token in any form: an address, its end, or the token itself. */
export function useToken(text) {
  token = tokenIn(text) ?? text.trim();
}

/** Sends a request and returns the answer. Throws an error to show to the user. */
export async function ask(request) {
  if (!pass) throw new Error('the daemon does not answer');
  const body = JSON.stringify({ api: 1, ...request });
  const headers = { ...authorization(), 'Content-Type': 'application/json' };
  let response;
  try {
    response = await fetch('/api/v1/ask', { method: 'POST', headers, body });
  } catch {
    throw new Error('the daemon does not answer');
  }
  const answer = await response.json().catch(() => ({}));
  if (answer.response === 'error') throw new Error(answer.message);
  if (!response.ok) throw new Answered(response.status);
  return answer;
}

/** Follows the feed for ever. `handlers`: `connected()`, `lost(why, ms)` with the time until the
 * next try, `refused()` if the server does not know the token, and one for each kind of message.
 * Returns a function that tries again at once. */
export function follow(handlers) {
  let wake = () => {};
  const pause = (ms) =>
    new Promise((done) => {
      const timer = setTimeout(done, ms);
      wake = () => {
        clearTimeout(timer);
        done();
      };
    });
  (async () => {
    let wait = FIRST_WAIT;
    for (;;) {
      try {
        await readFeed(handlers, () => (wait = FIRST_WAIT));
      } catch (error) {
        pass = null;
        if (error instanceof Refused) {
          handlers.refused();
          await pause(LONGEST_WAIT);
        } else {
          handlers.lost(error.message, wait);
          await pause(wait);
          wait = Math.min(wait * 2, LONGEST_WAIT);
        }
      }
    }
  })();
  return () => wake();
}

/** Reads until the connection is lost; then throws. */
async function readFeed(handlers, onMessage) {
  const controller = new AbortController();
  let timer;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => controller.abort(), SILENCE);
  };
  alive();
  try {
    pass = await passFor(controller.signal);
    const response = await fetch('/api/v1/feed', {
      headers: authorization(),
      signal: controller.signal,
    });
    if (response.status === 401 || response.status === 403) throw new Refused();
    if (!response.ok) throw new Answered(response.status);
    handlers.connected();
    for await (const [kind, data] of messages(response.body, alive)) {
      onMessage();
      hand(handlers[kind], JSON.parse(data));
    }
  } catch (error) {
    if ([Refused, Answered, SyntaxError].some((kind) => error instanceof kind)) throw error;
    throw new Error(
      controller.signal.aborted ? 'the daemon is silent' : 'the daemon does not answer',
    );
  } finally {
    clearTimeout(timer);
    controller.abort();
  }
  throw new Error('the daemon has ended the connection');
}

/** Returns the pass for the daemon, after the daemon has proved that it knows the token. */
async function passFor(signal) {
  const nonce = base64url(crypto.getRandomValues(new Uint8Array(32)));
  const response = await fetch(`/api/v1/proof/${nonce}`, { signal });
  if (!response.ok) throw new Answered(response.status);
  const { run, proof } = await response.json();
  // A reloaded page has only the former pass, which is valid until the daemon ends.
  const made = token
    ? await mac(token, `hawser-pass\n${location.host}\n${run}`)
    : sessionStorage.getItem(PASS);
  if (!made || (await mac(made, `hawser-proof\n${nonce}`)) !== proof) throw new Refused();
  sessionStorage.setItem(PASS, made);
  return made;
}

/** HMAC-SHA-256, as base64url. */
async function mac(key, text) {
  const bytes = (text) => new TextEncoder().encode(text);
  const kind = { name: 'HMAC', hash: 'SHA-256' };
  const imported = await crypto.subtle.importKey('raw', bytes(key), kind, false, ['sign']);
  return base64url(new Uint8Array(await crypto.subtle.sign('HMAC', imported, bytes(text))));
}

const base64url = (bytes) =>
  btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');

/** Keeps a fault in showing a message from ending the connection. */
function hand(handler, message) {
  try {
    handler?.(message);
  } catch (error) {
    console.error(error);
  }
}

/** Yields the kind and data of each message of an event stream. */
async function* messages(body, onBytes) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onBytes();
    const blocks = (rest + value).replaceAll('\r\n', '\n').split('\n\n');
    rest = blocks.pop();
    if (rest.length > LONGEST_MESSAGE) throw new Error('a message without end');
    for (const block of blocks) {
      const lines = block.split('\n');
      const field = (name) =>
        lines
          .filter((line) => line.startsWith(`${name}:`))
          .map((line) => line.slice(name.length + 1).trimStart());
      const data = field('data');
      if (data.length) yield [field('event')[0] ?? 'message', data.join('\n')];
    }
  }
}

const tokenIn = (text) => /[#&]token=([^&\s]+)/.exec(text)?.[1] ?? null;

const authorization = () => ({ Authorization: `Bearer ${pass}` });

class Refused extends Error {}

class Answered extends Error {
  constructor(status) {
    super(
      status === 503 ? 'as many pages are open as there may be' : `the daemon answered ${status}`,
    );
  }
}

const PASS = 'hawser-pass';
/** The daemon sends something at least every few seconds. */
const SILENCE = 6000;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 15000;
const LONGEST_MESSAGE = 8e6;
