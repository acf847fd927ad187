#!/usr/bin/env python3
"""Processor time of a message over NATS, AMQP 0-9-1, AMQP 1.0 and Kafka: Plimsoll beside the usual Go client of each, at the same
rate against the same server, in turn.

    brokers-python bench/messaging.py [--runs 3] [--devices 100] [--rate 1000] [--seconds 10] [--precision 100us]
        [--protocols nats,amqp,amqp1,kafka]

It needs Go 1.26 or newer, openssl, `cargo build --release`, and `source scripts/peers` before, which puts `brokers-python` into PATH.
Each message has 100 bytes, one subscriber receives all, and the server acknowledges all. `--precision` is how far Plimsoll may send
behind due; the peer sleeps until each message is due and prints how late it was. Plimsoll's figure is that of its load
threads in the hold, the peer's that of its process while it publishes. Server and client share the host's processors."""

import argparse
import json
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

from server import PLIMSOLL, Server

HERE = Path(__file__).resolve().parent
SIZE = 100
# Name: profile, name of its port, address for the peer, and what a scenario says beside.
PROTOCOLS = {
    "nats": ("nats", "nats", "nats://127.0.0.1:{}", {"nats": {"create_stream": "memory"}}),
    "amqp": ("rabbitmq", "amqp", "amqp://guest:guest@127.0.0.1:{}", {}),
    "amqp1": ("rabbitmq", "amqp", "amqp://guest:guest@127.0.0.1:{}", {"amqp1": {"prefix": "/topic/"}}),
    "kafka": ("kafka", "kafka", "127.0.0.1:{}", {}),
}


def plimsoll(protocol, more, port, options, folder):
    scenario = {
        "name": protocol,
        "platform": {"profile": "existing", "address": f"{protocol}://127.0.0.1:{port}"},
        "population": {"devices": options.devices, "subscribers": 1},
        "message": {"size": SIZE, "target": "peer.{run}.{device}"},
        "load": {"levels": [options.rate], "arrivals": "constant", "warm_up": "2s", "hold": f"{options.seconds}s", "samples": 5, "again": "0s", "precision": options.precision},
        "objectives": {"publish_p99": None, "subscribe_p99": None, "achieved": None, "publish_p50": "< 10 s"},
    } | more
    (folder / "run.yaml").write_text(json.dumps(scenario))
    command = [PLIMSOLL, "run", "run.yaml", "-q", "--no-report", "--store", "runs.db", "--summary-json", "out.json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    written = folder / "out.json"
    levels = json.loads(written.read_text())["levels"] if written.exists() else []
    if not levels:
        raise SystemExit(done.stdout + done.stderr)
    level = levels[-1]
    late = level["generator"]["lateness"]
    print(f"{level['sent']} sent, {level['acknowledged']} acknowledged, {level['delivered']} received, {level['validity']},", end=" ")
    print(f"late by {late['p50'] * 1e3:.2f} ms (p50), {late['p99'] * 1e3:.2f} ms (p99)")
    return level["generator"]["cpu_per_million"]


def peer(program, protocol, address, options):
    sizes = [str(number) for number in (options.devices, options.rate, options.seconds, SIZE)]
    out = subprocess.run([program, protocol, address, *sizes], capture_output=True, text=True, check=True).stdout
    print(out.strip())
    return float(re.search(r"([\d.]+) us of processor", out).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("runs", 3), ("devices", 100), ("rate", 1000), ("seconds", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--precision", default="100us")
    parser.add_argument("--protocols", default=",".join(PROTOCOLS))
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "messaging-peer"
        subprocess.run(["go", "build", "-C", HERE / "messaging_peer", "-o", program, "."], check=True)
        for turn in range(options.runs):
            for protocol in options.protocols.split(","):
                profile, port, address, more = PROTOCOLS[protocol]
                of_server = folder / f"{protocol}-{turn}"
                of_server.mkdir()
                server = Server(profile, port, of_server)
                try:
                    ways = [
                        ("plimsoll", lambda: plimsoll(protocol, more, server.at, options, of_server)),
                        ("peer", lambda: peer(program, protocol, address.format(server.at), options)),
                    ]
                    # Who comes first meets a server that is less warm.
                    for way, measure in ways if turn % 2 == 0 else reversed(ways):
                        found.setdefault(protocol, {}).setdefault(way, []).append(measure())
                        print(f"{turn + 1}: {protocol}, {way}: {found[protocol][way][-1]:.2f} us", flush=True)
                finally:
                    server.stop()
    for protocol, ways in found.items():
        for way, all_of_it in ways.items():
            print(f"{protocol}, {way}: {statistics.median(all_of_it):.2f} us ({min(all_of_it):.2f} to {max(all_of_it):.2f})")
        print(f"{protocol}: {statistics.median(ways['plimsoll']) / statistics.median(ways['peer']):.2f} x the peer")


if __name__ == "__main__":
    main()
