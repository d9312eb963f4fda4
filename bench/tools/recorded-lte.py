#!/usr/bin/env python3
"""Writes scenarios with recorded cellular links, for `hawser-lab run` and `hawser-sim mptcp`.

    recorded-lte.py TRACES OUT

TRACES is a folder with windows of 30 s of mahimahi's traces, named OPERATOR-TECHNOLOGY-driving-
SECOND.up or .down, each beginning at the second in its name. OUT gets six pairs of windows
(`pair-1.toml` ...) and the first window of each pair beside DSL of 6, 10 and 25 Mbit/s
(`dsl-6-1.toml` ...). A window is used in both directions and repeats. Transfers should last whole
cycles: `--seconds 30`.
"""

import pathlib
import sys

PAIRS = [
    ("tmobile-lte-driving-180.down", "att-lte-driving-240.down"),
    ("tmobile-lte-driving-300.down", "att-lte-driving-500.down"),
    ("tmobile-lte-driving-0.down", "att-lte-driving-700.down"),
    ("tmobile-lte-driving-400.down", "att-lte-driving-500.up"),
    ("tmobile-lte-driving-440.down", "tmobile-umts-driving-500.down"),
    ("att-lte-driving-100.up", "tmobile-umts-driving-100.down"),
]
CELLULAR = '[[link]]\ndelay = "30ms"\nqueue = "500ms"\ntrace = "{}"\n'
DSL = '[[link]]\nrate = "{}Mbit/s"\ndelay = "12ms"\nqueue = "100ms"\n'


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: recorded-lte.py TRACES OUT")
    traces, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    missing = [name for pair in PAIRS for name in pair if not (traces / name).is_file()]
    if missing:
        sys.exit(f"{traces} has no {', '.join(missing)}")
    out.mkdir(parents=True, exist_ok=True)
    for number, pair in enumerate(PAIRS, 1):
        links = [CELLULAR.format(traces / name) for name in pair]
        write(out / f"pair-{number}.toml", f"Recorded: {pair[0]} and {pair[1]}", links)
        for rate in (6, 10, 25):
            links = [DSL.format(rate), CELLULAR.format(traces / pair[0])]
            summary = f"DSL of {rate} Mbit/s, and {pair[0]}"
            write(out / f"dsl-{rate}-{number}.toml", summary, links)


def write(path, summary, links):
    path.write_text(f'summary = "{summary}"\npayload = "40MB"\n\n' + "\n".join(links))


if __name__ == "__main__":
    main()
