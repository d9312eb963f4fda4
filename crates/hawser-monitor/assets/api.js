// The daemon: the token, questions and the feed.

/** Takes the token from the address into this tab's memory, and out of the address bar. */
export function takeToken() {
  const found = tokenIn(location.hash);
  if (!found) return;
  sessionStorage.setItem(TOKEN, found);
  history.replaceState(null, '', location.pathname);
}

/** Whatever has a token in it: an address, its end, or the token itself. */
export function useToken(text) {
  sessionStorage.setItem(TOKEN, tokenIn(text) ?? text.trim());
}

/** Asks, and gives the answer. Throws what to tell the user. */
export async function ask(request) {
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
  if (!response.ok) throw new Error(`the daemon answered ${response.status}`);
  return answer;
}

/** Follows the feed for ever. `handlers`: `connected()`, `lost(why, ms)` until the next try, `refused()`
 * for a wrong token, and one for each kind of message. Gives a function that tries again at once. */
export function follow(handlers) {
  let wake = () => {};
  const pause = (ms) =>
    new Promise((done) => {
      const timer = ms === null ? 0 : setTimeout(done, ms);
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
        if (error instanceof Refused) {
          handlers.refused();
          await pause(null);
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

/** Reads until the connection is lost, which it says by throwing. */
async function readFeed(handlers, onMessage) {
  const controller = new AbortController();
  let timer;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => controller.abort(), SILENCE);
  };
  alive();
  try {
    const response = await fetch('/api/v1/feed', { headers: authorization(), signal: controller.signal });
    if (response.status === 401 || response.status === 403) throw new Refused();
    if (!response.ok) throw new Error(`the daemon answered ${response.status}`);
    handlers.connected();
    for await (const [kind, data] of messages(response.body, alive)) {
      onMessage();
      hand(handlers[kind], JSON.parse(data));
    }
  } catch (error) {
    if (error instanceof Refused || error instanceof SyntaxError) throw error;
    throw new Error(controller.signal.aborted ? 'the daemon is silent' : 'the daemon does not answer');
  } finally {
    clearTimeout(timer);
    controller.abort();
  }
  throw new Error('the daemon has ended the connection');
}

/** A fault in showing a message is no fault of the connection. */
function hand(handler, message) {
  try {
    handler?.(message);
  } catch (error) {
    console.error(error);
  }
}

/** The kind and data of each message of an event stream. */
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
        lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trimStart());
      const data = field('data');
      if (data.length) yield [field('event')[0] ?? 'message', data.join('\n')];
    }
  }
}

const tokenIn = (text) => /[#&]token=([^&\s]+)/.exec(text)?.[1] ?? null;

const authorization = () => ({ Authorization: `Bearer ${sessionStorage.getItem(TOKEN) ?? ''}` });

class Refused extends Error {}

const TOKEN = 'hawser-token';
/** The daemon says something each second. */
const SILENCE = 6000;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 15000;
const LONGEST_MESSAGE = 8e6;
