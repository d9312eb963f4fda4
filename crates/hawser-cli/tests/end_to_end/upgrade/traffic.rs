//! Traffic that continues while processes change, and reports losses.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use super::super::internet::local_python;
use super::super::program::{Place, read, until};

/// One connection that carries bytes in both directions all the time, a new one from time to time,
/// and datagrams where possible.
pub(super) struct Traffic {
    /// File whose creation ends the traffic.
    done: PathBuf,
    running: Child,
}

/// Kind of connections, to port 7 of a server with this address.
#[derive(Clone, Copy)]
pub(super) enum Way<'a> {
    /// As of any program. Datagrams are sent, too.
    Ordinary(&'a str),
    /// Through a proxy port.
    Proxy(&'a str, &'a str),
}

impl Traffic {
    pub(super) fn begin(place: &Place, way: Way<'_>) -> Self {
        Self::begin_by(place, way, |script| {
            let mut python = local_python(script);
            python.stdout(Stdio::piped()).spawn().unwrap()
        })
    }

    /// Does the same by a Python script that `run` runs.
    pub(super) fn begin_by(place: &Place, way: Way<'_>, run: impl FnOnce(&str) -> Child) -> Self {
        let (server, proxy, kinds) = match way {
            Way::Ordinary(server) => (server, "", "stream, new, datagrams"),
            Way::Proxy(proxy, server) => (server, proxy, "stream, new"),
        };
        let done = place.path(&format!("done-{server}"));
        for before in [&done, &moved(&done)] {
            let _ = std::fs::remove_file(before);
        }
        let script = TRAFFIC
            .replace("DONE", done.to_str().unwrap())
            .replace("SERVER", server)
            .replace("PROXY", proxy)
            .replace("KINDS", kinds);
        let running = run(&script);
        Self { done, running }
    }

    /// Waits until this many more connections have been made.
    pub(super) fn until_moved(&self, count: usize, log: impl Fn() -> String) {
        let lines = || read(&moved(&self.done)).lines().count();
        let before = lines();
        until("connections are made", || lines() >= before + count, log);
    }

    /// Ends it. Fails if anything was lost; otherwise returns the longest delay.
    pub(super) fn end(self, log: impl Fn() -> String) -> String {
        std::fs::write(&self.done, "").unwrap();
        let ended = self.running.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert!(said.starts_with("all came back"), "{said}{}", log());
        said
    }
}

/// The file with a line for each connection that was made.
fn moved(done: &Path) -> PathBuf {
    PathBuf::from(format!("{}.moved", done.display()))
}

/// Prints losses and the longest delay.
const TRAFFIC: &str = "
import threading
server, done, proxy = ('SERVER', 7), 'DONE', 'PROXY'
moved = open(done + '.moved', 'w')
is_over = lambda: os.path.exists(done)
problems, longest = [], {}
def took(what, since):
    longest[what] = max(longest.get(what, 0), time.monotonic() - since)
def connect():
    if not proxy:
        return socket.create_connection(server)
    host, port = proxy.rsplit(':', 1)
    s = socket.create_connection((host, int(port)))
    s.sendall(b'CONNECT %s:%d HTTP/1.1\\r\\n\\r\\n' % (server[0].encode(), server[1]))
    head = b''
    while not head.endswith(b'\\r\\n\\r\\n'):
        byte = s.recv(1)
        if not byte:
            break
        head += byte
    if b' 200 ' not in head:
        raise OSError('the proxy says %r' % head)
    return s
def stream():
    s = connect()
    f = s.makefile('rb')
    f.readline()
    block = os.urandom(60000)
    while not is_over():
        begun = time.monotonic()
        s.sendall(block)
        if f.read(len(block)) != block:
            problems.append('the connection broke')
            return
        took('block', begun)
def new():
    while not is_over():
        begun = time.monotonic()
        s = connect()
        s.sendall(b'x')
        f = s.makefile('rb')
        f.readline()
        if f.read(1) != b'x':
            problems.append('a new connection broke')
        s.close()
        took('connection', begun)
        moved.write('connection\\n')
        moved.flush()
        time.sleep(0.05)
def datagrams():
    family = socket.AF_INET6 if ':' in server[0] else socket.AF_INET
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(0.02)
    heard, number = time.monotonic(), 0
    while not is_over():
        number += 1
        s.sendto(b'%d' % number, server)
        try:
            while True:
                s.recv(100)
                took('silence', heard)
                heard = time.monotonic()
        except OSError:
            pass
def guard(run):
    try:
        run()
    except Exception as error:
        problems.append(repr(error))
threads = [threading.Thread(target=guard, args=(run,)) for run in (KINDS)]
[it.start() for it in threads]
[it.join() for it in threads]
print('; '.join(problems) or 'all came back', {k: round(v, 3) for k, v in longest.items()})
";
