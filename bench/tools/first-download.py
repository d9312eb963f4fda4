#!/usr/bin/env python3
"""Pauses of the first download after a start.

    hawser-lab exec SCENARIO -- python3 bench/tools/first-download.py HAWSER OUT.json
        [--transport auto|tcp|sctp|direct|plain] [--repeat N] [--bytes N] [--keep DIR]

Each time the gateway (in the lab's server host) and the client start anew, with a fresh state, and
curl loads so many bytes as soon as the client's port is open. Pauses are times without a byte at
the reader, from the first byte to the last. `direct` is a client without a gateway; `plain` is curl
alone over the first link, with bbr and with cubic in turns. `--keep DIR` keeps captures of both
ends of the links, logs and what `hawser why` says at the gateway.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

SERVER, GATEWAY, WEB, SOCKS = "10.99.0.1", 7443, 8000, 1080
LONG = 0.1

# Answers GET /CONTROL/N with N bytes, sent with that congestion control.
SITE = f"""
import socket, threading
def serve(stream):
    with stream:
        request = b""
        while b"\\r\\n\\r\\n" not in request:
            got = stream.recv(4096)
            if not got:
                return
            request += got
        _, control, count = request.split()[1].split(b"/")
        if control != b"any":
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control)
        left = int(count)
        stream.sendall(b"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\nContent-Length: %d\\r\\n\\r\\n" % left)
        block = bytes(65536)
        while left:
            left -= stream.send(block[:left])
listener = socket.create_server(("{SERVER}", {WEB}), backlog=64)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


def tools():
    """What the measurement of named hosts has for such labs."""
    path = pathlib.Path(__file__).with_name("by-name.py")
    spec = importlib.util.spec_from_file_location("by_name", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_open(port, *prefix):
    # Without a connection, which a daemon would take for one of a program.
    listening = subprocess.run([*prefix, "ss", "-Hltn"], capture_output=True, text=True).stdout
    return any(line.split()[3].endswith(f":{port}") for line in listening.splitlines())


def load(size, *arguments, control="any"):
    """Arrivals as (seconds since the start, bytes so far)."""
    url = f"http://{SERVER}:{WEB}/{control}/{size}"
    curl = ["curl", "-sS", "-N", "--max-time", "120", *arguments, url]
    begun, total, arrivals = time.monotonic(), 0, []
    with subprocess.Popen(curl, stdout=subprocess.PIPE) as program:
        while block := os.read(program.stdout.fileno(), 1 << 16):
            total += len(block)
            arrivals.append((time.monotonic() - begun, total))
    if total != size:
        raise SystemExit(f"{total} of {size} bytes came")
    return arrivals


def judge(arrivals):
    first, last = arrivals[0][0], arrivals[-1][0]
    pauses = [
        {"at": round(a[0] - first, 3), "seconds": round(b[0] - a[0], 3), "after-bytes": a[1],
         "burst": next((c[1] for c in reversed(arrivals) if c[0] < b[0] + 0.02), b[1]) - a[1]}
        for a, b in zip(arrivals, arrivals[1:]) if b[0] - a[0] >= LONG
    ]
    steps = {}
    for at, total in arrivals:
        steps[int((at - first) * 100)] = total
    longest = max((b[0] - a[0] for a, b in zip(arrivals, arrivals[1:])), default=0)
    return {"first-byte": round(first, 3), "seconds": round(last - first, 3),
            "longest": round(longest, 3), "pauses": pauses, "steps": sorted(steps.items())}


class Run:
    def __init__(self, hawser, folder, network):
        self.hawser, self.folder, self.server, self.programs = hawser, folder, network, []
        self.started = {}

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, name, *command):
        with open(self.path(name), "w") as log:
            program = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self.programs.append(program)
        return program

    def capture(self):
        for link in os.environ["HAWSER_LAB_LINKS"].split():
            for device, where in [(link, []), ("w" + link[1:], self.server)]:
                self.start(f"dump-{device}.log", *where, "tcpdump", "-Z", "root", "-i", device,
                           "-s", "120", "-U", "-w", self.path(f"{device}.pcap"))
        time.sleep(0.5)

    def up(self, lab, options):
        up = [self.hawser, "--state", self.path("client"), "up", "--listen", f"127.0.0.1:{SOCKS}"]
        for link in os.environ["HAWSER_LAB_LINKS"].split():
            up += ["--link", link]
        if options.transport == "direct":
            self.both(lab, None, [*up, "--direct"])
            return
        up += ["--transport", options.transport]
        serve = [*self.server, self.hawser, "--state", self.path("gateway"), "serve"]
        serve += ["--listen", f"{SERVER}:{GATEWAY}", "--allow-destination", f"{SERVER}/32"]
        invite = self.path("invite")
        self.both(lab, [*serve, "--invite-file", invite], [*up, "--gateway", "@" + invite])
        if options.enrolled:
            self.end()
            self.both(lab, serve, up)

    def both(self, lab, serve, up):
        if serve:
            self.start("gateway.log", *serve)
            lab.until(lambda: is_open(GATEWAY, *self.server), 0.01)
            lab.until(lambda: "--invite-file" not in serve or os.path.exists(serve[-1]), 0.01)
        self.start("client.log", *up)
        while not is_open(SOCKS):
            time.sleep(0.002)

    def ask(self, name, end, *arguments):
        prefix = self.server if end == "gateway" else []
        asked = subprocess.run([*prefix, self.hawser, "--state", self.path(end), *arguments],
                               capture_output=True, text=True)
        pathlib.Path(self.path(name)).write_text(asked.stdout + asked.stderr)

    def end(self):
        while self.programs:
            program = self.programs.pop()
            program.send_signal(signal.SIGTERM)
            program.wait()


def first(lab, options, folder):
    run = Run(os.path.abspath(options.hawser), folder, ["nsenter", lab.server_network()])
    try:
        if options.keep:
            run.capture()
        run.up(lab, options)
        began = time.time()
        told = judge(load(options.bytes, "--proxy", f"socks5h://127.0.0.1:{SOCKS}"))
        told["began"] = began
        if options.keep:
            for end in ["client", "gateway"]:
                run.ask(f"status-{end}.json", end, "status", "--json")
                run.ask(f"why-{end}.txt", end, "why")
                run.ask(f"dump-{end}", end, "why", "--dump", run.path(f"recording-{end}"))
        return told
    finally:
        run.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hawser")
    parser.add_argument("out")
    parser.add_argument("--transport", default="auto")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--bytes", type=int, default=4_000_000)
    parser.add_argument("--enrolled", action="store_true")
    parser.add_argument("--keep")
    options = parser.parse_args()
    lab, runs = tools(), []
    network = lab.server_network()
    site = subprocess.Popen(["nsenter", network, sys.executable, "-c", SITE])
    try:
        lab.until(lambda: is_open(WEB, "nsenter", network))
        for number in range(options.repeat):
            if options.transport == "plain":
                control = ["bbr", "cubic"][number % 2]
                told = judge(load(options.bytes, "--interface", "l1", control=control))
                told["control"] = control
            elif options.keep:
                folder = os.path.join(os.path.abspath(options.keep), str(number))
                os.makedirs(folder)
                told = first(lab, options, folder)
            else:
                with tempfile.TemporaryDirectory() as folder:
                    told = first(lab, options, folder)
            runs.append(told)
            pauses = " ".join(f"{p['seconds']}@{p['at']}+{p['burst']}" for p in told["pauses"])
            print(f"{number} first {told['first-byte']} took {told['seconds']} "
                  f"longest {told['longest']} {pauses}", flush=True)
    finally:
        site.terminate()
        site.wait()
    pathlib.Path(options.out).write_text(json.dumps(runs) + "\n")
    long = sum(1 for run in runs if run["pauses"])
    print(f"{long} of {len(runs)} paused for {LONG} s or more")


if __name__ == "__main__":
    main()
