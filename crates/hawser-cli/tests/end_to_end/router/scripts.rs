//! Python scripts of hosts, and of the router itself.

/// Queries to name servers; precedes each script of a host.
pub(super) const ASKING: &str = "
import struct
def question(name):
    labels = b''.join(bytes([len(l)]) + l for l in name.encode().split(b'.'))
    head = b'\\x12\\x34\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00'
    return head + labels + b'\\0\\0\\1\\0\\1'
def ask(server, name, family=socket.AF_INET):
    query = question(name)
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(2)
    end = time.monotonic() + 50
    while time.monotonic() < end:
        try:
            s.sendto(query, (server, 53))
            got = s.recvfrom(2000)[0]
            if got[:2] == query[:2] and got[7] == 1:
                return socket.inet_ntoa(got[-4:])
        except OSError:
            pass
        # Refused, or answered with a temporary failure: try again soon.
        time.sleep(0.1)
def ask_by_tcp(server, name):
    query = question(name)
    t = socket.create_connection((server, 53), timeout=50)
    t.sendall(struct.pack('>H', len(query)) + query)
    f = t.makefile('rb')
    return socket.inet_ntoa(f.read(struct.unpack('>H', f.read(2))[0])[-4:])
";
/// Traffic of a host: TCP, datagrams and pings of both families, and name queries to the router and
/// to another server.
pub(crate) const ALL: &str = "
import threading
def stream(to, size):
    t = socket.create_connection((to, 7), timeout=50)
    f = t.makefile('rb')
    seen = f.readline().decode().strip()
    payload = os.urandom(size)
    threading.Thread(target=lambda: t.sendall(payload), daemon=True).start()
    return seen, f.read(size) == payload
def udp6():
    return socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
def ping(to):
    v6 = ':' in to
    kind, protocol = (128, 58) if v6 else (8, 1)
    s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_RAW, protocol)
    s.settimeout(0.5)
    head = struct.pack('>BBHHH', kind, 0, 0, os.getpid() & 0xffff, 1)
    total = sum(struct.unpack('>4H', head))
    total = (total & 0xffff) + (total >> 16)
    head = struct.pack('>BBHHH', kind, 0, 0xffff - total, os.getpid() & 0xffff, 1)
    for i in range(20):
        try:
            s.sendto(head, (to, 0))
            while True:
                got, who = s.recvfrom(2000)
                got = got if v6 else got[20:]
                if who[0] == to and got[0] == (129 if v6 else 0) and got[4:6] == head[4:6]:
                    return True
        except OSError:
            time.sleep(0.05)
    return False
print(*stream('11.0.0.2', 300000), *stream('2a00:11::2', 100000))
print([n for n in [1, 1200, 9000] if echo(udp(), ('11.0.0.2', 7), os.urandom(n))])
print([n for n in [1, 1200, 9000] if echo(udp6(), ('2a00:11::2', 7), os.urandom(n))])
print(ping('11.0.0.2'), ping('2a00:11::2'))
print(ask('192.168.77.1', 'of.router'), ask('fd77::1', 'of.router', socket.AF_INET6))
print(ask('11.0.0.2', 'of.server'), ask_by_tcp('192.168.77.1', 'of.router'))
";
pub(crate) const ALL_SAY: &str = "11.0.0.1 True 2a00:11::1 True
[1, 1200, 9000]
[1, 1200, 9000]
True True
1.2.3.4 1.2.3.4
5.6.7.8 1.2.3.4";
/// A call of 3 s, with 50 packets per second each way: the number of packets sent back.
pub(super) const CALL: &str = "
s = udp()
s.settimeout(0.02)
heard, begun = set(), time.monotonic()
for number in range(150):
    s.sendto(b'%160d' % number, ('11.0.0.2', 7))
    while time.monotonic() < begun + 0.02 * (number + 1):
        try:
            heard.add(s.recv(2000))
        except OSError:
            pass
s.settimeout(1)
try:
    while len(heard) < 150:
        heard.add(s.recv(2000))
except OSError:
    pass
print(len(heard))
";
/// The amount sent back within 5 s of a full-rate flow.
pub(super) const MUCH: &str = "
import threading
t = socket.create_connection(('11.0.0.2', 7), timeout=50)
f = t.makefile('rb')
f.readline()
def send():
    try:
        while True:
            t.sendall(bytes(65536))
    except OSError:
        pass
threading.Thread(target=send, daemon=True).start()
got, end = 0, time.monotonic() + 5
while time.monotonic() < end:
    got += len(f.read1(65536))
print(got)
os._exit(0) if sys.stdout.flush() is None else None
";
/// Traffic of the router itself.
pub(super) const OWN: &str = "
print(echo(udp(), ('11.0.0.2', 7), os.urandom(1200)))
";
pub(super) const OWN_SAYS: &str = "True
11.0.0.1 True";
/// A service of the router itself, which hosts ask by datagrams.
pub(super) const ANSWERED: &str = "
print(echo(udp(), ('192.168.77.1', 67), b'request'))
";
/// The router, at an address where it has a name server and at one where it has none.
pub(super) const ASK: &str = "
print(ask('192.168.77.1', 'of.router'), ask('fd77::1', 'of.router', socket.AF_INET6))
";
pub(super) const TALK: &str = "
t = socket.create_connection(('11.0.0.2', 7))
while t.recv(1000):
    t.sendall(b'x')
";
pub(super) const STREAM_ONLY: &str = "
import threading
t = socket.create_connection(('11.0.0.2', 7))
f = t.makefile('rb')
f.readline()
payload = os.urandom(300000)
threading.Thread(target=lambda: t.sendall(payload), daemon=True).start()
print(f.read(300000) == payload)
";
/// What answers a host: services of the router on loopback and at its link, unused addresses, and
/// the provider's network by a route of its own. Expected answers are waited for.
pub(super) const REACHED: &str = "
def reached(host, port, patience=2):
    try:
        t = socket.create_connection((host, port), timeout=patience)
        return t.makefile().readline().strip() or 'no'
    except OSError:
        return 'no'
print(reached('192.168.77.1', 8000), reached('10.1.0.2', 8001, 30), reached('169.254.7.7', 8001),
      reached('240.0.0.1', 8001), reached('11.0.0.9', 8002), reached('192.168.77.99', 7),
      reached('10.1.0.1', 7, 30))
";
/// Answers that a host gets from a closed port.
pub(super) const REFUSED: &str = "
t = socket.socket()
t.settimeout(20)
print(t.connect_ex(('11.0.0.2', 9)))
";
/// A connection that continues until it is told to end. It reports its start by creating the first
/// missing one of two files.
pub(super) const HELD: &str = "
t = socket.create_connection(('11.0.0.2', 7), timeout=50)
f = t.makefile('rb')
f.readline()
open('DONE.2' if os.path.exists('DONE.1') else 'DONE.1', 'w')
whole = True
while whole:
    payload = os.urandom(500)
    t.sendall(payload)
    whole = f.read(500) == payload
    if os.path.exists('DONE'):
        break
    time.sleep(0.02)
print(whole)
";
