#!/usr/bin/env python3
"""Round trips until data move between two hosts that know each other by name.

    hawser-lab exec SCENARIO -- python3 bench/tools/by-name.py HAWSER OUT.json [--repeat N]
        [--known N]

Alice is in the client host of the lab, the directory in its server host, and Bob in a network of
his own behind that, on a line without delay: a call takes one round trip of a link. Measured is the
time from connecting at Alice's port until the first data of her host may leave: the opening of a
stream, which is a chunk like others, has made Bob's host connect to his application half a round
trip later. Then until her application may send (Bob's has accepted by then), until its first byte
is at Bob's application, and until the answer is back:

- never-heard-of: the first connection of a program that has just been started and registered;
- session-stands: one on the session that is there;
- heard-of-before: the first one after that session has ended, unused for two minutes.

Medians are in round trips, as ping measures them before.
"""

import argparse
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import tempfile
import time

PORT, SOCKS, SERVER, NAME = 7000, 1080, "10.99.0.1", b"bob.example.org"
TIMES = ["data-leave", "may-send", "arrived", "answered"]

# Bob's application: it sends back what comes, and notes when it was connected to and when that came.
ECHO = f"""
import socket, sys, threading, time
def serve(stream, accepted):
    # Closed here: the loop below keeps the last one, and a half-closed stream is a use of a session.
    with stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if byte := stream.recv(1):
            now = time.monotonic()
            stream.sendall(byte)
            print(accepted, now, flush=True)
            stream.recv(1)
listener = socket.create_server(("127.0.0.1", {PORT}), backlog=64)
while True:
    stream, _ = listener.accept()
    threading.Thread(target=serve, args=(stream, time.monotonic()), daemon=True).start()
"""


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def server_network():
    """The network of the lab's server host, which the lab holds open."""
    lab = pathlib.Path(f"/proc/{os.getppid()}/fd")
    for entry in lab.iterdir():
        try:
            is_network = os.readlink(entry).startswith("net:[")
        except OSError:
            continue
        if is_network and SERVER in run("nsenter", f"--net={entry}", "ip", "-4", "address"):
            return f"--net={entry}"
    raise SystemExit("no server host here: start this by `hawser-lab exec`")


class Hosts:
    def __init__(self, hawser, folder):
        self.hawser, self.folder, self.alice, self.programs = hawser, pathlib.Path(folder), None, []
        self.server = ["nsenter", server_network()]
        holder = ["unshare", "--net", "sh", "-c", "echo; cat"]
        bob = subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.programs.append(bob)
        bob.stdout.read(1)
        self.bob = ["nsenter", "--net", f"--target={bob.pid}"]
        self.connect_bob(bob.pid)
        self.write("users", "alice:a\nbob:b\n")
        for name in ["alice", "bob"]:
            self.write(f"{name}-password", f"{name[0]}\n")
        for name, other in [("alice", "bob"), ("bob", "alice")]:
            key = self.ask(other, "peers", "key").strip()
            self.ask(name, "peers", "add", f"{other}@example.org", key)
        self.start("arrivals", [*self.bob, "python3", "-c", ECHO])
        serve = ["serve", "--listen", f"{SERVER}:7443", "--directory", "example.org"]
        serve += ["--directory-listen", f"{SERVER}:5060", "--directory-users", self.path("users")]
        state = ["--state", self.path("directory")]
        self.start("directory.log", [*self.server, hawser, *state, *serve])
        self.up("bob", self.bob, "--offer", str(PORT))

    def connect_bob(self, process):
        lines = [f"link add b1 type veth peer name wan netns {process}"]
        lines += ["address add 10.98.0.1/24 dev b1", "link set b1 up"]
        for line in lines:
            run(*self.server, "ip", *line.split())
        run(*self.server, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        lines = ["link set lo up", "address add 10.98.0.2/24 dev wan", "link set wan up"]
        for line in [*lines, "route add default via 10.98.0.1"]:
            run(*self.bob, "ip", *line.split())

    def path(self, name):
        return str(self.folder / name)

    def write(self, name, text):
        file = os.open(self.path(name), os.O_CREAT | os.O_WRONLY, 0o600)
        with os.fdopen(file, "w") as file:
            file.write(text)

    def ask(self, name, *arguments):
        return run(self.hawser, "--state", self.path(name), *arguments)

    def start(self, output, command):
        with open(self.path(output), "w") as file:
            program = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        self.programs.append(program)
        return program

    def up(self, name, network, *more):
        command = [self.hawser, "--state", self.path(name), "up", "--direct"]
        command += ["--listen", f"127.0.0.1:{SOCKS}", "--name", f"{name}@example.org"]
        command += ["--directory", f"sip:{SERVER}"]
        command += ["--directory-password-file", self.path(f"{name}-password"), *more]
        program = self.start(f"{name}.log", [*network, *command])
        until(lambda: (self.status(name).get("registration") or {}).get("is_registered"))
        return program

    def status(self, name):
        try:
            return json.loads(self.ask(name, "status", "--json"))
        except subprocess.CalledProcessError:
            return {}

    def restart_alice(self):
        if self.alice:
            self.alice.send_signal(signal.SIGTERM)
            self.alice.wait()
        self.alice = self.up("alice", [])
        # Until nothing of the registration is in flight.
        time.sleep(1.5)

    def until_no_session(self):
        # Whoever looks counts as a user for that moment.
        until(lambda: not self.status("alice").get("sessions"), 4)

    def connect(self, rtt):
        begun = time.monotonic()
        stream = by_socks()
        may_send = time.monotonic()
        stream.sendall(b"x")
        if not stream.recv(1):
            raise OSError("no answer")
        answered = time.monotonic()
        stream.close()
        # It was written before the answer was read, if not by much.
        time.sleep(0.2)
        words = pathlib.Path(self.path("arrivals")).read_text().split()
        accepted, arrived = map(float, words[-2:])
        return [moment - begun for moment in [accepted - rtt / 2, may_send, arrived, answered]]

    def end(self):
        for program in reversed(self.programs):
            if program.poll() is None:
                program.terminate()
            program.wait()


def by_socks():
    stream = socket.create_connection(("127.0.0.1", SOCKS))
    stream.settimeout(60)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.sendall(b"\5\1\0")
    stream.recv(2)
    stream.sendall(b"\5\1\0\3" + bytes([len(NAME)]) + NAME + PORT.to_bytes(2, "big"))
    reply = stream.recv(10)
    if len(reply) != 10 or reply[1] != 0:
        raise OSError(f"the port refuses: {reply!r}")
    return stream


def until(condition, pause=0.05):
    deadline = time.monotonic() + 400
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("it never comes to that")
        time.sleep(pause)


def round_trip():
    last = run("ping", "-c", "5", "-i", "0.3", "-q", "10.98.0.2").splitlines()[-1]
    return float(last.split("/")[4]) / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hawser")
    parser.add_argument("out")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--known", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        hosts = Hosts(os.path.abspath(options.hawser), folder)
        rtt, samples = round_trip(), {}
        try:
            measure(hosts, options, rtt, samples)
        finally:
            # What was measured counts, whatever came then.
            pathlib.Path(options.out).write_text(json.dumps(report(rtt, samples), indent=1) + "\n")
            hosts.end()


def measure(hosts, options, rtt, samples):
    unknown = samples.setdefault("never-heard-of", [])
    for _ in range(options.repeat):
        hosts.restart_alice()
        unknown.append(hosts.connect(rtt))
    standing = samples.setdefault("session-stands", [])
    for _ in range(options.repeat):
        standing.append(hosts.connect(rtt))
    known = samples.setdefault("heard-of-before", [])
    for _ in range(options.known):
        hosts.until_no_session()
        known.append(hosts.connect(rtt))


def report(rtt, samples):
    told = {"round-trip-seconds": rtt}
    for kind, rows in samples.items():
        middles = [statistics.median(column) / rtt for column in zip(*rows)]
        told[kind] = {
            "median-round-trips": dict(zip(TIMES, [round(middle, 2) for middle in middles])),
            "seconds": [dict(zip(TIMES, [round(time, 4) for time in row])) for row in rows],
        }
        print(kind, told[kind]["median-round-trips"], flush=True)
    return told


if __name__ == "__main__":
    main()
