#!/usr/bin/env python3
"""Processor time of a message over NATS, AMQP 0-9-1, AMQP 1.0 and Kafka: Plimsoll beside a client in Go and one in C of each, at the
same rate against the same server, in turn.

    brokers-python bench/messaging.py [--runs 3] [--cells 1000@100us,5000@100us,5000@1ms] [--protocols nats,amqp,amqp1,kafka]
        [--devices 100] [--seconds 10] [--kept FOLDER] [--write]

A cell is a rate and a precision: how far behind due Plimsoll and the client in C may send, so that they send together what falls due
within it. The client in Go sleeps until each message is due. All print how late they were. Each message has 100 bytes, one subscriber
receives all, and the server acknowledges all. Plimsoll's figure is that of its load threads in the hold, a client's that of its process
meanwhile. Server and client share the host's processors, and nothing else should run.

A block is what was measured against one start of a server: it is kept in docs/results/messaging/ as JSON, and what is there is not run
again; delete the file to do so. `--write` makes the section of docs/performance.md of all blocks, and runs nothing.

It needs Go 1.26 or newer, a C compiler, openssl, `cargo build --release`, and `source scripts/peers` before, which puts
`brokers-python` into PATH. The libraries of the clients in C come by
`apt-get install librdkafka-dev libnats-dev librabbitmq-dev libqpid-proton11-dev libsasl2-modules`."""

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import tempfile
from pathlib import Path

from brokers import commit, program
from messaging_page import KEPT, write
from server import PLIMSOLL, Server

HERE = Path(__file__).resolve().parent
SIZE = 100
# Name: profile, name of its port, address for the clients, and what a scenario says beside.
PROTOCOLS = {
    "nats": ("nats", "nats", "nats://127.0.0.1:{}", {"nats": {"create_stream": "memory"}}),
    "amqp": ("rabbitmq", "amqp", "amqp://guest:guest@127.0.0.1:{}", {}),
    "amqp1": ("rabbitmq", "amqp", "amqp://guest:guest@127.0.0.1:{}", {"amqp1": {"prefix": "/topic/"}}),
    "kafka": ("kafka", "kafka", "127.0.0.1:{}", {}),
}
# The library of each client in C.
IN_C = {"nats": "nats", "amqp": "rabbitmq", "amqp1": "qpid-proton", "kafka": "rdkafka"}
SAID = re.compile(
    r"(?P<client>.*)\n"
    r"late by (?P<late_p50_ms>[\d.]+) ms \(p50\), (?P<late_p99_ms>[\d.]+) ms \(p99\)\n"
    r"(?P<sent>\d+) sent in the hold, (?P<sent_in_all>\d+) in all, (?P<acknowledged>\d+) acknowledged, (?P<failed>\d+) failed, "
    r"(?P<received>\d+) received, (?P<processor_us>[\d.]+) us of processor each, (?P<processor_s>[\d.]+) s in the hold\n"
)


def microseconds(precision):
    number, unit = re.fullmatch(r"(\d+)(us|ms)", precision).groups()
    return int(number) * {"us": 1, "ms": 1000}[unit]


def plimsoll(protocol, port, cell, options, folder):
    rate, precision = cell
    scenario = {
        "name": protocol,
        "platform": {"profile": "existing", "address": f"{protocol}://127.0.0.1:{port}"},
        "population": {"devices": options.devices, "subscribers": 1},
        "message": {"size": SIZE, "target": "peer.{run}.{device}"},
        "load": {"levels": [rate], "arrivals": "constant", "warm_up": "2s", "hold": f"{options.seconds}s", "samples": 5, "again": "0s", "precision": precision},
        "objectives": {"publish_p99": None, "subscribe_p99": None, "achieved": None, "publish_p50": "< 10 s"},
    } | PROTOCOLS[protocol][3]
    (folder / "run.yaml").write_text(json.dumps(scenario))
    command = [PLIMSOLL, "run", "run.yaml", "-q", "--no-report", "--store", "runs.db", "--summary-json", "out.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    written = folder / "out.json"
    summary = json.loads(written.read_text()) if written.exists() else {}
    if not summary.get("levels"):
        raise SystemExit(done.stdout + done.stderr)
    level = summary["levels"][-1]
    late, each = level["generator"]["lateness"], level["generator"]["cpu_per_million"]
    return {
        "client": f"plimsoll {summary['provenance']['plimsoll']}", "late_p50_ms": late["p50"] * 1e3, "late_p99_ms": late["p99"] * 1e3,
        "sent": level["sent"], "sent_in_all": level["sent"], "acknowledged": level["acknowledged"], "failed": level["refused"],
        "received": level["delivered"], "processor_us": each, "processor_s": each * level["sent"] / 1e6, "validity": level["validity"],
    }


def client(command, options, rate, *more):
    numbers = [str(number) for number in (options.devices, rate, options.seconds, SIZE, *more)]
    done = subprocess.run([*command, *numbers], capture_output=True, text=True, check=False)
    found = SAID.fullmatch(done.stdout)
    if done.returncode != 0 or not found:
        raise SystemExit(f"{command}: {done.stdout}{done.stderr}")
    return {key: value if key == "client" else float(value) if "." in value else int(value) for key, value in found.groupdict().items()}


def built(protocols, folder):
    """The clients, by their protocols and languages, as commands that want an address."""
    subprocess.run(["go", "build", "-C", HERE / "messaging_peer", "-o", folder / "messaging-go", "."], check=True)
    found = {protocol: {"go": [folder / "messaging-go", protocol]} for protocol in protocols}
    for protocol in protocols:
        if protocol in IN_C:
            made, sources = folder / f"messaging-{protocol}", [HERE / "messaging_c" / name for name in ("peer.c", f"{protocol}.c")]
            subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-o", made, *sources, f"-l{IN_C[protocol]}"], check=True)
            found[protocol]["c"] = [made]
    return found


def block(protocol, cell, turn, clients, options, folder):
    """Plimsoll and the clients of a protocol against one start of its server."""
    profile, port, address, _ = PROTOCOLS[protocol]
    rate, precision = cell
    began = datetime.datetime.now(datetime.UTC)
    server = Server(profile, port, folder)
    try:
        at = address.format(server.at)
        ways = {"plimsoll": lambda: plimsoll(protocol, server.at, cell, options, folder)}
        ways["go"] = lambda: client([*clients["go"], at], options, rate)
        if "c" in clients:
            ways["c"] = lambda: client([*clients["c"], at], options, rate, microseconds(precision))
        # Who comes first meets a server that is less warm.
        order = list(ways)
        order = order[turn % len(order):] + order[:turn % len(order)]
        found = {}
        for way in order:
            found[way] = ways[way]()
            print(f"{protocol}, {rate}/s, {precision}, {turn}: {way}: {found[way]}", flush=True)
    finally:
        server.stop()
    return {
        "protocol": protocol, "rate": rate, "precision": precision, "turn": turn, "devices": options.devices, "seconds": options.seconds,
        "size": SIZE, "order": order, "ways": found, "processors": os.cpu_count(), "kernel": platform.release().split("-")[0],
        "began": began.isoformat(sep=" ", timespec="seconds"), "program": program(), "commit": commit(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("runs", 3), ("devices", 100), ("seconds", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--cells", default="1000@100us,5000@100us,5000@1ms")
    parser.add_argument("--protocols", default=",".join(PROTOCOLS))
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.write:
        write(options.kept)
        return
    protocols = options.protocols.split(",")
    options.kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clients = built(protocols, folder)
        for turn in range(options.runs):
            for text in options.cells.split(","):
                rate, precision = text.split("@")
                for protocol in protocols:
                    kept = options.kept / f"{protocol}-{rate}-{precision}-{turn}.json"
                    if kept.exists():
                        continue
                    own = folder / kept.stem
                    own.mkdir()
                    found = block(protocol, (int(rate), precision), turn, clients[protocol], options, own)
                    kept.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
