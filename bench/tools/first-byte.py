#!/usr/bin/env python3
"""Round trips until a captured program has the first byte of an answer over a gateway.

    hawser-lab exec SCENARIO -- python3 bench/tools/first-byte.py HAWSER OUT.json [--repeat N]

The gateway is in the lab's server host, and so is the destination, which answers a byte with a
byte. The program runs by `hawser run --mode bonded` and makes connections one after the other:
measured is the time from connecting until the answer is there. Beside it are the same connections
straight to the destination, over one link.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SERVER, GATEWAY, ECHO = "10.99.0.1", 7443, 7000

ANSWER = f"""
import socket
listener = socket.create_server(("{SERVER}", {ECHO}), backlog=64)
while True:
    stream, _ = listener.accept()
    with stream:
        stream.sendall(stream.recv(1))
"""
ASK = f"""
import socket, sys, time
for _ in range(int(sys.argv[1])):
    begun = time.monotonic()
    with socket.create_connection(("{SERVER}", {ECHO})) as stream:
        stream.sendall(b"x")
        if not stream.recv(1):
            raise SystemExit("no answer")
    print(time.monotonic() - begun, flush=True)
    time.sleep(0.5)
"""


def tools():
    """What the measurement of named hosts has for such labs."""
    path = pathlib.Path(__file__).with_name("by-name.py")
    spec = importlib.util.spec_from_file_location("by_name", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(hawser, folder, repeat):
    lab, programs = tools(), []
    server = ["nsenter", lab.server_network()]
    path = lambda name: os.path.join(folder, name)
    near = [hawser, "--state", path("client")]

    def start(name, *command):
        log = open(path(name), "w")
        programs.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))
        return programs[-1]

    def ask(*prefix):
        command = [*prefix, sys.executable, "-c", ASK, str(repeat + 1)]
        # The first one waits for the session.
        return [float(line) for line in lab.run(*command).split()][1:]

    def is_up():
        status = subprocess.run([*near, "status", "--json"], capture_output=True, text=True)
        return status.returncode == 0 and bool(json.loads(status.stdout).get("sessions"))

    try:
        start("answers", *server, sys.executable, "-c", ANSWER)
        serve = ["serve", "--listen", f"{SERVER}:{GATEWAY}", "--invite-file", path("invite")]
        serve += ["--allow-destination", f"{SERVER}/32"]
        start("gateway.log", *server, hawser, "--state", path("gateway"), *serve)
        lab.until(lambda: os.path.exists(path("invite")))
        up = start("client.log", *near, "up", "--listen", "127.0.0.1:0", "--gateway",
                   "@" + path("invite"))
        lab.until(is_up)
        up.terminate()
        up.wait()
        ping = lab.run("ping", "-c", "5", "-i", "0.3", "-q", SERVER).splitlines()[-1]
        captured = ask(*near, "run", "--mode", "bonded", "--")
        return float(ping.split("/")[4]) / 1000, {"captured": captured, "straight": ask()}
    finally:
        for program in reversed(programs):
            program.terminate()
            program.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hawser")
    parser.add_argument("out")
    parser.add_argument("--repeat", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rtt, samples = measure(os.path.abspath(options.hawser), folder, options.repeat)
    told = {"round-trip-seconds": rtt, "seconds": samples}
    told["median-round-trips"] = {
        kind: round(statistics.median(times) / rtt, 2) for kind, times in samples.items()
    }
    pathlib.Path(options.out).write_text(json.dumps(told, indent=1) + "\n")
    print(told["median-round-trips"])


if __name__ == "__main__":
    main()
