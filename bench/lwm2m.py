#!/usr/bin/env python3
"""Processor time of a notification of LwM2M: a floor program, Plimsoll, and devices on Californium, each at the same rate against
`plimsoll target lwm2m`, in turn.

    bench/lwm2m.py [--runs 3] [--rate 2000] [--devices 200] [--seconds 10] [--precision 100us]

It needs a C compiler, Java and Maven, and `cargo build --release`. Plimsoll's figure is that of its load threads in the hold. The
others measure their process while they notify. One floor looks as often as messages are due, or as the precision says where that
is seldomer. The other one is woken when something is due or has come: it reads acknowledgements as soon as Plimsoll does. The
devices in Java warm up for ten seconds before."""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"))
PLIMSOLL = TARGET / "release/plimsoll"
SIZE = 32
# Nanoseconds that sending may lag behind.
PRECISION = {"100us": 100_000, "1ms": 1_000_000}


def start_target():
    process = subprocess.Popen([PLIMSOLL, "target", "lwm2m"], stdout=subprocess.PIPE, text=True)
    return process, re.search(r":(\d+)\s*$", process.stdout.readline()).group(1)


def plimsoll(port, options, folder):
    scenario = {
        "name": "notify",
        "platform": {"profile": "lwm2m", "address": f"coap://127.0.0.1:{port}"},
        "population": {"devices": options.devices},
        "message": {"size": SIZE},
        "load": {"levels": [options.rate], "arrivals": "constant", "warm_up": "2s", "hold": f"{options.seconds}s", "samples": 5, "again": "0s", "precision": options.precision},
        "objectives": {"publish_p99": None, "achieved": None, "publish_p50": "< 10 s"},
    }
    (folder / "run.yaml").write_text(json.dumps(scenario))
    command = [PLIMSOLL, "run", "run.yaml", "-q", "--no-report", "--store", "runs.db", "--summary-json", "out.json"]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=False)
    level = json.loads((folder / "out.json").read_text())["levels"][-1]
    late = level["generator"]["lateness"]
    print(f"{level['sent']} sent, {level['acknowledged']} acknowledged, late by {late['p50'] * 1e6:.0f} us at p50 and {late['p99'] * 1e6:.0f} us at p99, {level['validity']}")
    return level["generator"]["cpu_per_million"]


def printed(command):
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    print(out.strip())
    return float(re.search(r"([\d.]+) us of processor", out).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("runs", 3), ("rate", 2000), ("devices", 200), ("seconds", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--precision", choices=PRECISION, default="100us")
    options = parser.parse_args()
    peers = HERE / "lwm2m_peer"
    subprocess.run(["mvn", "-q", "-B", "-f", peers, "package"], check=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(["cc", "-O2", "-o", folder / "floor", HERE / "lwm2m_floor.c"], check=True)
        sizes = [str(options.devices), str(options.rate), str(options.seconds), str(SIZE)]
        java = ["java", "-cp", f"{peers}/target/lib/*", "Devices"]
        ways = {
            "floor": lambda port: printed([folder / "floor", port, *sizes, str(max(PRECISION[options.precision], 10**9 // options.rate))]),
            "woken floor": lambda port: printed([folder / "floor", port, *sizes, "0"]),
            "plimsoll": lambda port: plimsoll(port, options, folder),
            "californium": lambda port: printed([*java, port, *sizes]),
        }
        found = {way: [] for way in ways}
        for turn in range(options.runs):
            for way, measure in ways.items():
                target, port = start_target()
                found[way].append(measure(port))
                target.terminate()
                target.wait()
                print(f"{turn + 1}: {way}: {found[way][-1]:.2f} us", flush=True)
    floor = statistics.median(found["floor"])
    for way, all_of_it in found.items():
        low, middle, high = min(all_of_it), statistics.median(all_of_it), max(all_of_it)
        print(f"{way}: {middle:.2f} us ({low:.2f} to {high:.2f}), {middle / floor:.2f} x floor")


if __name__ == "__main__":
    main()
