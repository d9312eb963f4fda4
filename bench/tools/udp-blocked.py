#!/usr/bin/env python3
"""What the tunnel carries where UDP is blocked: packets then go over TCP channels.

    hawser-lab exec SCENARIO -- python3 bench/tools/udp-blocked.py HAWSER OUT.json [--repeat N]

The client host sends no UDP to the gateway, which is in the lab's server host. By `hawser run
--tun`, a QUIC connection (quinn, cubic) and a TCP connection (iperf3, cubic) bring data from there.
Goodput in Mbit/s; null where it took longer than ten times the time that 20 Mbit/s take.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import tempfile

GATEWAY, BYTES, SECONDS = 7443, 20_000_000, 6


def tools():
    """What the measurement of named hosts has for such labs."""
    path = pathlib.Path(__file__).with_name("by-name.py")
    spec = importlib.util.spec_from_file_location("by_name", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lab = tools()
SERVER, run, until = lab.SERVER, lab.run, lab.until


class Tunnel:
    def __init__(self, hawser, folder):
        self.folder, self.programs = pathlib.Path(folder), []
        self.lab = str(pathlib.Path(hawser).with_name("hawser-lab"))
        self.near = [hawser, "--state", self.path("client")]
        self.server = ["nsenter", lab.server_network()]
        serve = ["serve", "--listen", f"{SERVER}:{GATEWAY}", "--packet-exit", "nat"]
        serve += ["--invite-file", self.path("invite"), "--allow-destination", f"{SERVER}/32"]
        self.start("gateway", *self.server, hawser, "--state", self.path("gateway"), *serve)
        until(lambda: os.path.exists(self.path("invite")))
        up = self.start("up", *self.near, "up", "--listen", "127.0.0.1:0", "--gateway",
                        "@" + self.path("invite"))
        until(self.has_session)
        up.terminate()
        up.wait()
        chain = "{ type filter hook output priority 0; }"
        run("nft", "add", "table", "inet", "blocked")
        run("nft", "add", "chain", "inet", "blocked", "out", chain)
        run("nft", "add", "rule", "inet", "blocked", "out", "udp", "dport", str(GATEWAY), "drop")

    def path(self, name):
        return str(self.folder / name)

    def start(self, name, *command):
        with open(self.path(name + ".log"), "w") as log:
            program = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self.programs.append(program)
        return program

    def log(self, name):
        return pathlib.Path(self.path(name + ".log")).read_text()

    def has_session(self):
        status = subprocess.run([*self.near, "status", "--json"], capture_output=True, text=True)
        return status.returncode == 0 and bool(json.loads(status.stdout).get("sessions"))

    def tunnelled(self, *command):
        command = [*self.near, "run", "--tun", "--", *command]
        try:
            limit = 10 * BYTES * 8 / 20e6
            return subprocess.run(command, capture_output=True, text=True, timeout=limit).stdout
        except subprocess.TimeoutExpired:
            return ""

    def quic(self):
        meter = [self.lab, "meter", "quic", "--pull", "--bytes", str(BYTES), "--message", "65536"]
        server = self.start("quic", *self.server, *meter, "--locals", SERVER)
        until(lambda: "listening" in self.log("quic"))
        text = self.tunnelled(*meter, "--locals", "0.0.0.0", "--remotes", SERVER)
        server.terminate()
        server.wait()
        told = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return round(told[0]["bytes"] * 8e-6 / told[0]["seconds"], 2) if told else None

    def tcp(self):
        server = self.start("iperf3", *self.server, "iperf3", "-s", "--forceflush", "-B",
                            SERVER)
        until(lambda: "listening" in self.log("iperf3"))
        text = self.tunnelled("iperf3", "-c", SERVER, "-R", "-C", "cubic", "-t", str(SECONDS), "-J")
        server.terminate()
        server.wait()
        told = json.loads(text or "{}").get("end", {}).get("sum_received")
        return round(told["bits_per_second"] / 1e6, 2) if told else None

    def end(self):
        for program in reversed(self.programs):
            if program.poll() is None:
                program.terminate()
            program.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hawser", help="the program; hawser-lab is beside it")
    parser.add_argument("out")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tunnel = Tunnel(os.path.abspath(options.hawser), folder)
        try:
            turns = range(options.repeat)
            told = {"quic-mbps": [tunnel.quic() for _ in turns],
                    "tcp-mbps": [tunnel.tcp() for _ in turns]}
        finally:
            tunnel.end()
    pathlib.Path(options.out).write_text(json.dumps(told, indent=1) + "\n")
    print(told)


if __name__ == "__main__":
    main()
