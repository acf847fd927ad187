#!/usr/bin/env python3
"""Plimsoll beside wrk (HTTP), beside a client loop of libcoap (CoAP), and beside that and one on Californium (CoAP over TCP), on the
same work, interleaved.

    bench/requests.py [--runs N] [--seconds S] [--only http|coap|tcp]

Every tool sends POSTs of 16 bytes to a server that does nothing but answer, over 100 connections or sockets with one
request under way on each, and over CoAP also over one socket with 100 under way, as fast as it goes. Printed are medians
of the processor time (user + system, of the tool's own processes) per request that the server counted. The tool has
processor 0, the server processor 1.
"""
import argparse, os, shutil, statistics, subprocess, sys, tempfile
from pathlib import Path

from run import BUILT, CONNECTIONS, Sink, build, measured

SIZE = 16
HERE = Path(__file__).parent.resolve()


def plimsoll(scheme, more=""):
    def command(work, port, seconds):
        path = f"{work}/scenario.yaml"
        with open(path, "w") as file:
            file.write(
                f"""name: bench
platform: {{ profile: existing, address: "{scheme}://127.0.0.1:{port}" }}
population: {{ devices: {CONNECTIONS} }}
mqtt: {{ topic: "plimsoll/bench/00" }}
{more}
message: {{ size: {SIZE} }}
load: {{ model: closed, in_flight: [{CONNECTIONS}], warm_up: 0s, hold: {seconds}s, samples: 30, threads: 1, connect_rate: 5000 }}
"""
            )
        program = f"{BUILT}/release/plimsoll"
        return [program, "run", path, "--store", f"{work}/runs.plimsoll", "--report", f"{work}/report.html"]

    return command


def wrk(work, port, seconds):
    with open(f"{work}/post.lua", "w") as file:
        file.write(f'wrk.method = "POST"\nwrk.path = "/plimsoll/bench/00"\nwrk.body = string.rep("x", {SIZE})\n')
    call = ["wrk", "--threads", "1", "--connections", str(CONNECTIONS), "--duration", f"{seconds}s"]
    return [*call, "--script", f"{work}/post.lua", f"http://127.0.0.1:{port}/"]


def coap(program, sockets, *more):
    def command(work, port, seconds):
        under_way = str(CONNECTIONS // sockets)
        return [f"{work}/{program}", str(port), str(sockets), str(seconds), str(SIZE), under_way, *more]

    return command


def over(sockets, more=""):
    return {
        "floor": coap("coap_floor", sockets),
        "libcoap's loop": coap("coap_loop", sockets),
        "plimsoll": plimsoll("coap", more),
    }


def californium(connections):
    def command(work, port, seconds):
        under_way = str(CONNECTIONS // connections)
        libraries = f"{HERE}/coap_tcp_peer/target/lib/*"
        return ["java", "-cp", libraries, "Loop", str(port), str(connections), str(seconds), str(SIZE), under_way]

    return command


def over_tcp(connections, more=""):
    return {
        "floor": coap("coap_tcp_floor", connections),
        "eager floor": coap("coap_tcp_floor", connections, "0"),
        "libcoap's loop": coap("coap_loop", connections, "tcp"),
        "californium": californium(connections),
        "plimsoll": plimsoll("coap+tcp", more),
    }


# What is spoken: the server, the peer's name, the tools.
WORKS = {
    "http": ("http_sink", "wrk", {"wrk": wrk, "plimsoll": plimsoll("http")}),
    "coap": ("coap_sink", "libcoap's loop", over(CONNECTIONS)),
    "coap over one socket": ("coap_sink", "libcoap's loop", over(1, "coap: { sockets: 1 }")),
    "tcp, coap over it": ("coap_tcp_sink", "libcoap's loop", over_tcp(CONNECTIONS)),
    "tcp, coap over one connection": ("coap_tcp_sink", "libcoap's loop", over_tcp(1, "coap: { sockets: 1 }")),
}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--seconds", type=int, default=5)
    options.add_argument("--only", choices=("http", "coap", "tcp"))
    options = options.parse_args()
    works = {name: work for name, work in WORKS.items() if name.startswith(options.only or "")}
    if "http" in works and not shutil.which("wrk"):
        sys.exit("wrk is missing: apt-get install wrk")
    work = tempfile.mkdtemp(prefix="plimsoll-bench-")
    servers = dict.fromkeys(server for server, _, _ in works.values())
    floors = [name for name in ("coap_floor", "coap_tcp_floor") if name.replace("floor", "sink") in servers]
    if "coap_tcp_sink" in servers:
        subprocess.run(["mvn", "-q", "-B", "-f", HERE / "coap_tcp_peer", "package"], check=True)
    build(work, [*servers, *floors] + ["coap_loop"] * bool(floors))
    costs = {}
    for run in range(options.runs):
        for protocol, (server, _, tools) in works.items():
            for name, tool in tools.items():
                sink = Sink(work, server)
                cpu, _, status, said = measured(tool(work, sink.port, options.seconds), work)
                requests = sink.stop()
                if requests < 1000:
                    print(f"{name} sent {requests} requests (exit {status}): {said[-300:].strip()}")
                    continue
                costs.setdefault((protocol, name), []).append(cpu / requests * 1e6)
        print(f"run {run + 1} of {options.runs} is done, load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    for protocol, (_, peer, tools) in works.items():
        print(f"\n{protocol}, {SIZE} B, {CONNECTIONS} under way")
        base = statistics.median(costs.get((protocol, peer), [float("nan")]))
        for name in tools:
            cost = costs.get((protocol, name))
            if cost:
                middle = statistics.median(cost)
                spread = f"{min(cost):.2f} to {max(cost):.2f}"
                print(f"  {name:16} {middle:6.2f} us of CPU a request ({spread:14})  {middle / base:5.2f} x {peer}")
    shutil.rmtree(work)


main()
