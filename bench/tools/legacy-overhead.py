#!/usr/bin/env python3
"""What hosts without Hawser pay for those with it: connect time, throughput, packets.

    bench/tools/legacy-overhead.py HAWSER OUT.json [--pairs 30] [--connects 200] [--megabytes 200]

Two comparisons over virtual cables without limits, each of two hosts that differ in one daemon:

- server: a plain client connects to nginx behind `hawser serve --front`, and to nginx alone;
- client: a host with `hawser up --discover` and a host without connect to nginx alone.

A pair is a run of connects, or one download, by each of the two, in alternating order. Needs root,
nginx, iproute2 and nsenter.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

WORKER = r"""
import socket, struct, sys, time

# A reset ends a connection with one packet, so that the packets of handshakes are counted exactly.
RESET = struct.pack("ii", 1, 0)

def counts():
    lines = open("/proc/net/dev").read().splitlines()[2:]
    rows = [line.split(":") for line in lines]
    rows = [numbers.split() for name, numbers in rows if name.strip() != "lo"]
    return [sum(int(row[at]) for row in rows) for at in (1, 9, 0, 8)]

def connects(address, count):
    times, before = [], counts()
    for _ in range(count):
        stream = socket.socket()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        begun = time.perf_counter_ns()
        stream.connect(address)
        times.append(time.perf_counter_ns() - begun)
        stream.close()
    time.sleep(0.3)
    packets = [now - was for now, was in zip(counts(), before)]
    return {"ns": sorted(times)[count // 2], "packets": packets}

def download(address, size):
    room, left = bytearray(1 << 18), None
    begun = time.perf_counter_ns()
    with socket.create_connection(address) as stream:
        stream.sendall(b"GET /file HTTP/1.0\r\n\r\n")
        came = 0
        while got := stream.recv_into(room):
            came += got
    took = time.perf_counter_ns() - begun
    if came < size:
        raise SystemExit(f"{came} bytes of {size}")
    return {"mbps": came * 8e3 / took}

for line in sys.stdin:
    what, host, number = line.split()
    work = {"connects": connects, "download": download}[what]
    print(__import__("json").dumps(work((host, 80), int(number))), flush=True)
"""


class Host:
    """A network namespace, which lasts as long as its first process."""

    def __init__(self, bench):
        self.bench = bench
        command = ["unshare", "--net", "sh", "-c", "ip link set lo up && echo && exec cat"]
        self.holder = bench.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.worker = None

    def command(self, *command):
        return ["nsenter", "--target", str(self.holder.pid), "--net", "--", *command]

    def run(self, *command):
        run = subprocess.run(self.command(*command), capture_output=True, text=True, check=True)
        return run.stdout

    def cable(self, other, number):
        """Lays a cable to another host, whose end has the address that this gives."""
        name = f"cable{number}"
        self.run("ip", "link", "add", name, "type", "veth", "peer", name, "netns",
                 str(other.holder.pid))
        for host, last in ((self, 1), (other, 2)):
            host.run("ip", "address", "add", f"10.80.{number}.{last}/24", "dev", name)
            host.run("ip", "link", "set", name, "up")
        return f"10.80.{number}.2"

    def ask(self, *words):
        if self.worker is None:
            command = self.command(sys.executable, "-c", WORKER)
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self.worker = self.bench.start(command, **pipes)
        self.worker.stdin.write(" ".join(map(str, words)) + "\n")
        self.worker.stdin.flush()
        answer = self.worker.stdout.readline()
        if not answer:
            raise SystemExit(f"the worker ended at {words}")
        return json.loads(answer)


class Bench:
    """Programs and the folder that they work in."""

    def __init__(self, hawser, folder):
        self.hawser, self.folder, self.programs = hawser, pathlib.Path(folder), []

    def start(self, command, **pipes):
        program = subprocess.Popen(command, start_new_session=True, **pipes)
        self.programs.append(program)
        return program

    def nginx(self, host, name, megabytes):
        folder = self.folder / name
        (folder / "www").mkdir(parents=True)
        with open(folder / "www" / "file", "wb") as file:
            for _ in range(megabytes):
                file.write(os.urandom(1 << 20))
        temp = " ".join(f"{kind}_temp_path temp;"
                        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "nginx.conf").write_text(
            "daemon off; master_process off; pid pid; events { worker_connections 2048; }\n"
            f"http {{ access_log off; sendfile on; {temp}\n"
            "  server { listen 80 backlog=1024; root www; } }\n")
        command = ["nginx", "-p", str(folder), "-c", "nginx.conf", "-e", "error.log"]
        self.start(host.command(*command), stderr=subprocess.DEVNULL)
        until(lambda: (folder / "pid").exists() and (folder / "pid").read_text().strip())

    def daemon(self, host, name, *arguments):
        state = self.folder / name
        log = open(self.folder / f"{name}.log", "w")
        command = host.command(self.hawser, "--state", str(state), *arguments)
        self.start(command, stdout=log, stderr=subprocess.STDOUT)
        status = [self.hawser, "--state", str(state), "status", "--json"]
        until(lambda: subprocess.run(status, capture_output=True).returncode == 0)

    def end(self):
        for program in reversed(self.programs):
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGTERM)
                try:
                    program.wait(10)
                except subprocess.TimeoutExpired:
                    os.killpg(program.pid, signal.SIGKILL)
                    program.wait()


def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("it does not come about")
        time.sleep(0.05)


def pairs(options, ways):
    """`ways`: for each of the two, the host that asks and the address that it asks."""
    found = {name: {"connect-us": [], "mbps": [], "packets": []} for name in ways}
    for number in range(options.pairs):
        order = list(ways) if number % 2 == 0 else list(ways)[::-1]
        for name in order:
            host, address = ways[name]
            one = host.ask("connects", address, options.connects)
            found[name]["connect-us"].append(one["ns"] / 1e3)
            found[name]["packets"].append([it / options.connects for it in one["packets"]])
        for name in order:
            host, address = ways[name]
            one = host.ask("download", address, options.megabytes << 20)
            found[name]["mbps"].append(one["mbps"])
        print(f"  pair {number + 1} of {options.pairs}", file=sys.stderr)
    with_it, without = (found[name] for name in ways)
    each = lambda what: zip(with_it[what], without[what])
    medians = lambda of: [statistics.median(column) for column in zip(*of["packets"])]
    return {
        "connect-us": [statistics.median(it["connect-us"]) for it in (with_it, without)],
        "connect-more-us": statistics.median(one - other for one, other in each("connect-us")),
        "mbps": [statistics.median(it["mbps"]) for it in (with_it, without)],
        "throughput-ratio": statistics.median(one / other for one, other in each("mbps")),
        "per-connection": {"columns": ["packets in", "packets out", "bytes in", "bytes out"],
                           "with": medians(with_it), "without": medians(without)},
        "samples": found,
    }


def measure(options, bench):
    client, fronted, alone = (Host(bench) for _ in range(3))
    ways = {"fronted": (client, client.cable(fronted, 1)),
            "alone": (client, client.cable(alone, 2))}
    bench.daemon(fronted, "server", "serve", "--front", "80")
    for name, host in (("fronted", fronted), ("alone", alone)):
        bench.nginx(host, f"nginx-{name}", options.megabytes)
    print("server", file=sys.stderr)
    server = pairs(options, ways)

    discovering, plain = Host(bench), Host(bench)
    ways = {"discovering": (discovering, discovering.cable(alone, 3)),
            "plain": (plain, plain.cable(alone, 4))}
    bench.daemon(discovering, "client", "up", "--listen", "127.0.0.1:0", "--discover",
                 "--link", "cable3")
    print("client", file=sys.stderr)
    return {"server": server, "client": pairs(options, ways)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hawser")
    parser.add_argument("out")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--connects", type=int, default=200)
    parser.add_argument("--megabytes", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        bench = Bench(os.path.abspath(options.hawser), folder)
        try:
            report = measure(options, bench)
        finally:
            bench.end()
    report["kernel"] = os.uname().release
    report["cores"] = len(os.sched_getaffinity(0))
    pathlib.Path(options.out).write_text(json.dumps(report))
    for name in ("server", "client"):
        shown = {key: value for key, value in report[name].items() if key != "samples"}
        print(name, json.dumps(shown))


if __name__ == "__main__":
    main()
