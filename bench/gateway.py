#!/usr/bin/env python3
"""What the nine models of `plimsoll gateway` cost without work, beside a loop that makes the same calls, interleaved.

    bench/gateway.py [--runs N] [--seconds S] [--devices Q] [--in-flight N] [--quick]

Every model is run by `plimsoll run` with CPU and I/O intensity 0 and so many events in flight that each device has some at
any time; the cooperative ones that differ most run on both event loops. The floor is `gateway_floor.c`: the same calls over
as many connections, without a log. Printed are medians and ranges of the throughput and of the processor time per event of
the gateway and of whoever plays the devices. `--quick` is one short round. Nothing else should run meanwhile.
"""
import argparse, json, os, re, shutil, statistics, subprocess, sys, tempfile

from run import BUILT, build

MODELS = ("serial", "preemptive", "cooperative")
ON_EPOLL = (("cooperative", "serial"), ("cooperative", "preemptive"), ("preemptive", "cooperative"))


def floor(way):
    def once(work, options):
        call = [f"{work}/gateway_floor", str(options.devices), str(options.seconds), "own", way]
        said = subprocess.run(call, capture_output=True, text=True, check=True).stdout
        return [float(number) for number in re.findall(r"[\d.]+", said)[:3]]

    return once


def model(dispatcher, handler, loop="libuv"):
    def once(work, options):
        with open(f"{work}/scenario.yaml", "w") as file:
            file.write(
                f"""name: gateway
platform:
  profile: gateway
  with: {{ dispatcher: {dispatcher}, handler: {handler}, loop: {loop}, cpu: "0", io: "0" }}
population: {{ devices: {options.devices}, subscribers: 0 }}
load: {{ model: closed, in_flight: [{options.in_flight}], warm_up: 1s, hold: {options.seconds}s, samples: 5, threads: 1 }}
objectives: {{ publish_p99: null }}
"""
            )
        call = [f"{BUILT}/release/plimsoll", "run", f"{work}/scenario.yaml", "--store", f"{work}/runs.plimsoll"]
        call += ["--no-report", "--quiet", "--summary-json", f"{work}/summary.json"]
        ran = subprocess.run(call, capture_output=True, text=True)
        try:
            with open(f"{work}/summary.json") as file:
                summary = json.load(file)
            os.remove(f"{work}/summary.json")
            [level], [gateway] = summary["levels"], summary["components"]
        except (FileNotFoundError, ValueError):
            sys.exit(f"{dispatcher}/{handler} was not measured: {ran.stdout}{ran.stderr}")
        seconds = sum(level["generator"]["cpu"]), gateway["cpu_mean"]
        achieved = level["achieved"]
        if not achieved or level["incident"] or level["refused"]:
            sys.exit(f"{dispatcher}/{handler} did not do its work: {ran.stdout}")
        return achieved, seconds[1] / achieved * 1e6, seconds[0] / achieved * 1e6

    return once


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--seconds", type=int, default=5)
    options.add_argument("--devices", type=int, default=25)
    options.add_argument("--in-flight", type=int, default=2000)
    options.add_argument("--quick", action="store_true")
    options = options.parse_args()
    if options.quick:
        options.runs, options.seconds = 1, 1
    work = tempfile.mkdtemp(prefix="plimsoll-bench-")
    build(work, ["gateway_floor"])
    whole = {"floor, all at once": floor("all"), "floor, in turn": floor("turn")}
    whole |= {f"{one}/{other}": model(one, other) for one in MODELS for other in MODELS}
    whole |= {f"{one}/{other}, epoll": model(one, other, "epoll") for one, other in ON_EPOLL}
    measured = {name: [] for name in whole}
    for run in range(options.runs):
        for name, once in whole.items():
            measured[name].append(once(work, options))
        print(f"round {run + 1} of {options.runs} is done, load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    shutil.rmtree(work)
    print(f"{options.devices} devices, no work, median (range) of {options.runs} x {options.seconds} s")
    print(f"{'':29} {'1000 events/s':>16} {'CPU us an event':>17} {'the devices':>16}")
    for name, values in measured.items():
        rates, gateway, devices = zip(*values)
        columns = [
            f"{statistics.median(of):.1f} ({min(of):.1f}-{max(of):.1f})"
            for of in ([rate / 1000 for rate in rates], gateway, devices)
        ]
        print(f"{name:29} {columns[0]:>16} {columns[1]:>17} {columns[2]:>16}")


main()
