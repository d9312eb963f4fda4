#!/usr/bin/env python3
"""REGISTER/s and memory for each binding: `hawser serve --directory` and Kamailio, in turns.

    sip-registrars.py HAWSER OUT.json [--users N] [--rounds N]

Both get the same requests of sipp, by UDP on the loopback interface: N users, each with one REGISTER
that is challenged and one with the proof (MD5, which is all that sipp 3.6 knows). Kamailio has the
shipped configuration (contrib/kamailio) with its table in memory, four processes for UDP, and
no limit for one sender; Hawser keeps its bindings in a file, and its limit for one sender is raised.
A round begins with empty tables. Memory is the growth of what all processes of a server have for
themselves (Pss), after a first hundred users.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WARM = 100

SCENARIO = """<?xml version="1.0" encoding="ISO-8859-1" ?>
<!DOCTYPE scenario SYSTEM "sipp.dtd">
<scenario name="register">
{first}  <recv response="401" auth="true"/>
{proven}  <recv response="200"/>
</scenario>
"""


def register(number, proof=""):
    """A REGISTER of the scenario; `proof` is a header field."""
    return f"""  <send retrans="500"><![CDATA[
      REGISTER sip:[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch];rport
      Max-Forwards: 70
      From: <sip:[field0]@127.0.0.1>;tag=[call_number]
      To: <sip:[field0]@127.0.0.1>
      Call-ID: [call_id]
      CSeq: {number} REGISTER
      Contact: <sip:[field0]@192.0.2.1:5070>;q=0.5
      Expires: 3600
{proof}      Content-Length: 0

  ]]></send>
"""


def family(process):
    """The process and all that it has started."""
    found, todo = [], [process]
    while todo:
        one = todo.pop()
        found.append(one)
        for task in pathlib.Path(f"/proc/{one}/task").iterdir():
            todo += [int(child) for child in (task / "children").read_text().split()]
    return found


def memory(process):
    total = 0
    for one in family(process):
        text = pathlib.Path(f"/proc/{one}/smaps_rollup").read_text()
        total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total * 1024


def processor(process):
    ticks = 0
    for one in family(process):
        fields = pathlib.Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def sipp(folder, port, first, count):
    users = folder / "users.csv"
    lines = [f"u{n};[authentication username=u{n} password=p]" for n in range(first, first + count)]
    users.write_text("SEQUENTIAL\n" + "\n".join(lines) + "\n")
    scenario = folder / "register.xml"
    proven = register(2, "      [field1]\n")
    scenario.write_text(SCENARIO.format(first=register(1), proven=proven))
    command = ["sipp", "-sf", scenario, "-inf", users, "-m", str(count), "-r", "100000", "-l", "64"]
    command += ["-i", "127.0.0.1", "-nostdin", "-timeout", "300s", "-timeout_error"]
    begun = time.monotonic()
    done = subprocess.run(command + [f"127.0.0.1:{port}"], cwd=folder, capture_output=True)
    took = time.monotonic() - begun
    if done.returncode != 0:
        raise SystemExit(done.stdout.decode()[-3000:] + done.stderr.decode()[-3000:])
    return took


def hawser(program, folder, users, port):
    (folder / "users").write_text("".join(f"u{n}:p\n" for n in range(users)))
    (folder / "users").chmod(0o600)
    (folder / "config").write_text(
        '[directory]\ndomains = ["127.0.0.1"]\ndigests = ["MD5"]\n'
        "limits = { requests-per-second = 1000000 }\n"
    )
    command = [program, "--state", folder / "state", "--config", folder / "config", "serve"]
    command += ["--listen", "127.0.0.1:0", "--directory-users", folder / "users"]
    command += ["--directory-listen", f"127.0.0.1:{port}", "--log", "warn"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def kamailio(folder, users, port):
    for name in ("kamailio.cfg", "local.cfg"):
        shutil.copy(ROOT / "contrib/kamailio" / name, folder / name)
    local = (folder / "local.cfg").read_text()
    local = local.replace("192.0.2.1:5060", f"127.0.0.1:{port}").replace('"SHA-256"', '"MD5"')
    local = local.replace('"example.org"', '"127.0.0.1"')
    secrets = (hashlib.md5(f"u{n}:127.0.0.1:p".encode()).hexdigest() for n in range(users))
    known = "".join(f'    $sht(users=>u{n}) = "{it}";\n' for n, it in enumerate(secrets))
    head = local[: local.index("    $sht(users=>alice)")]
    (folder / "local.cfg").write_text(head + known + "}\n")
    main = (folder / "kamailio.cfg").read_text()
    main = main.replace('"users=>size=10;"', '"users=>size=14;"')
    table = 'modparam("usrloc", "db_mode", 0)\n'
    main = main.replace(table, table + 'modparam("usrloc", "hash_size", 14)\n')
    (folder / "kamailio.cfg").write_text(main)
    command = ["kamailio", "-f", folder / "kamailio.cfg", "-DD", "-E", "-n", "4", "-m", "256"]
    command += ["-M", "128", "-Y", folder, "-w", folder]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=(folder / "log").open("w"))


def listens(port):
    """Waits until the server takes connections; it opens its ports for UDP before."""
    end = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def measure(name, start, users, port):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        server = start(folder, users + WARM, port)
        try:
            listens(port)
            sipp(folder, port, 0, WARM)
            before, used = memory(server.pid), processor(server.pid)
            took = sipp(folder, port, WARM, users)
            used = processor(server.pid) - used
            after = memory(server.pid)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
    return {
        "server": name,
        "registers_per_second": round(users / took),
        "processor_us_per_register": round(used / users * 1e6, 1),
        "bytes_per_binding": round((after - before) / users),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hawser")
    parser.add_argument("out")
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.hawser).resolve())
    rounds = []
    for number in range(arguments.rounds):
        for name, start in (
            ("hawser", lambda *rest: hawser(program, *rest)),
            ("kamailio", kamailio),
        ):
            rounds.append(measure(name, start, arguments.users, 15060 + 2 * number))
            print(json.dumps(rounds[-1]), flush=True)
    pathlib.Path(arguments.out).write_text(
        json.dumps({"users": arguments.users, "rounds": rounds}, indent=1) + "\n"
    )


main()
