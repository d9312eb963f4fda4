#!/usr/bin/env python3
"""Compares two builds of hawser-sim over many seeds: one seed says little about a change.

    bench/tools/compare-simulators.py OLD NEW [SEEDS]

Prints, for each scenario, direction and transfer, the geometric mean of NEW's goodput over OLD's
with its standard error, for transfers of 2 and of 8 seconds; then share and Jain's index beside
plain TCP, in thousandths, over eleven rates of the shared link from 85 to 115 % of the scenario's.
"""

import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = (
    "pat-e6a pat-e6b pat-e6c pat-e6d slow-3x60 six-60 sat-dsl on-off bat-e1 lossy cellular"
).split()
SHARED = ["pat-e2-16m", "wifi-lte", "black-hole-20-20"]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def goodput(binary, scenario, seconds, seed):
    path = ROOT / "scenarios" / f"{scenario}.toml"
    flags = ["--direction", "both", "--no-singles", "--seconds", seconds, "--seed", seed]
    found = {}
    for line in output(binary, "run", path, *map(str, flags)).splitlines():
        words = line.split()
        if len(words) > 6 and words[1] in ("put", "get"):
            found[words[1], "first"] = float(words[4])
            found[words[1], "warm"] = float(words[5])
    return found


def compare_goodput(old, new, seconds, seeds):
    print(f"goodput, new / old, {seconds} s, {seeds} seeds")
    for scenario in SCENARIOS:
        ratios = {}
        for seed in range(1, seeds + 1):
            before = goodput(old, scenario, seconds, seed)
            after = goodput(new, scenario, seconds, seed)
            for key in before:
                ratios.setdefault(key, []).append(math.log(after[key] / before[key]))
        for key, logs in sorted(ratios.items()):
            mean = sum(logs) / len(logs)
            variance = sum((it - mean) ** 2 for it in logs) / max(len(logs) - 1, 1)
            error = math.sqrt(variance / len(logs))
            print(f"{scenario:12} {key[0]} {key[1]:5} {math.exp(mean):.3f} ± {error:.3f}")


def variants(scenario, folder):
    """Files of the scenario with the first link's rate scaled."""
    text = (ROOT / "scenarios" / f"{scenario}.toml").read_text()
    for step in range(11):
        factor = 0.85 + 0.03 * step

        def scale(match):
            return f'rate = "{int(float(match[1]) * 1000 * factor)}kbit/s"'

        path = Path(folder) / f"{scenario}.toml"
        path.write_text(re.sub(r'rate = "([\d.]+)Mbit/s"', scale, text, count=1))
        yield path


def compare_fairness(old, new):
    print("share of a fair part and Jain's index, thousandths: median [least, most] of 11 rates")
    with tempfile.TemporaryDirectory() as folder:
        for scenario in SHARED:
            found = {}
            for path in variants(scenario, folder):
                for name, binary in ("old", old), ("new", new):
                    for line in output(binary, "fairness", path).splitlines():
                        words = line.split()
                        if len(words) > 10 and words[1] == "get":
                            row = found.setdefault((words[4], words[5]), {"old": [], "new": []})
                            row[name].append((float(words[9]), float(words[10])))
            for (count, rival), row in sorted(found.items()):
                for name, values in row.items():
                    columns = [sorted(column) for column in zip(*values)]
                    shown = [f"{it[len(it) // 2]:5.0f} [{it[0]:.0f}, {it[-1]:.0f}]" for it in columns]
                    print(f"{scenario:17} {count} {rival:6} {name} share {shown[0]} Jain {shown[1]}")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    old, new = sys.argv[1:3]
    seeds = int(sys.argv[3]) if len(sys.argv) == 4 else 20
    for seconds in (2, 8):
        compare_goodput(old, new, seconds, seeds)
    compare_fairness(old, new)


if __name__ == "__main__":
    main()
