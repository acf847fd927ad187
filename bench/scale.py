#!/usr/bin/env python3
"""What 1, 20 and 200 million devices need, by what a connection, a message and a worker cost here.

    bench/scale.py [--runs 5] [--write]

Measures each cost in several runs and keeps them in docs/results/scale.json, then makes docs/results/scale.md of it; `--write` makes
the page alone. A broker has one processor, and the generator the other one.

Before: `cargo build --release -p plimsoll-cli`, `cargo build --release -p plimsoll-workers --example simulated_workers`,
`source scripts/peers`. Nothing else should run meanwhile.
"""
import argparse, csv, json, math, os, re, subprocess, tempfile, time
from types import SimpleNamespace

import coordinator
import workers as bench
from brokers_page import shown, wrapped
from differences import quantile

KEPT = f"{bench.ROOT}/docs/results/scale.json"
PAGE = f"{bench.ROOT}/docs/results/scale.md"
PRICES = f"{bench.ROOT}/examples/prices-work-a.csv"
# Devices of which the costs of one are a difference.
FEW, MANY = 1_000, 10_000
# Workers of which the costs of one for the coordinator are a difference.
FEW_WORKERS, MANY_WORKERS = 25, 125

# The load: as many connections, messages in a second and minutes to connect as in the largest that was published, a white paper of
# HiveMQ. There, 180 of the 200 million devices were subscribers.
DEVICES = [1_000_000, 20_000_000, 200_000_000]
PERIOD, CONNECT_MINUTES = 200, 37
# A host: its type in the table of prices, the part of its processors and its memory that may be used, and its addresses.
HOST, USED, ADDRESSES = "c4.2xlarge", 0.7, 4
# Local ports of an address at most (ip(7), net.ipv4.ip_local_port_range).
PORTS = 64_512
# What the kernel takes for one end of an idle connection (docs/scaling.md).
KERNEL = 4 * 1024
# Headers of a message's segment and of its acknowledgement's: Ethernet, IPv4, TCP with time stamps.
HEADERS = 2 * (14 + 20 + 32)
HOURS_OF_MONTH = 730


def run(broker, keys):
    """A run against the broker: its processor time, its largest memory, and its only level."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-scale-") as work:
        with open(f"{work}/scenario.yaml", "w") as file:
            json.dump({
                "name": "scale", "platform": {"profile": "existing", "address": f"mqtt://127.0.0.1:{broker}"}, "seed": 7, "mqtt": {"qos": 1},
                "objectives": {"publish_p99": None, "achieved": None, "connected": None},
            } | keys, file)
        command = [bench.PLIMSOLL, "run", "scenario.yaml", "--quiet", "--no-report", "--store", "runs.db", "--summary-json", "summary.json"]
        at = lambda: os.sched_setaffinity(0, bench.LOAD)
        process = subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=at)
        said = process.stdout.read().decode()
        _, _, usage = os.wait4(process.pid, 0)
        try:
            with open(f"{work}/summary.json") as file:
                level = json.load(file)["levels"][0]
        except (OSError, IndexError):
            raise SystemExit(said[-400:]) from None
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, level


def load(rate):
    return {"arrivals": "poisson", "levels": [rate], "connect_rate": 5000, "precision": "1ms", "warm_up": "1s", "hold": "10s", "samples": 5, "drain": "1s", "again": "0s", "threads": 1}


def rate_of_thread():
    """Messages in a second of one load thread, where the ports of a host are used up."""
    return round(ADDRESSES * PORTS / PERIOD / host()[0])


def one_turn(broker):
    """Of one connection: bytes and microseconds; of one message: microseconds and bytes."""
    idle = {count: run(broker, {"population": {"devices": count}, "load": load(10)}) for count in (FEW, MANY)}
    apart = MANY - FEW
    found = {
        "connection_bytes": (idle[MANY][1] - idle[FEW][1]) / apart,
        "connection_us": (idle[MANY][0] - idle[FEW][0]) / apart * 1e6,
    }
    _, _, level = run(broker, {"population": {"devices": FEW}, "message": {"size": 100}, "load": load(rate_of_thread())})
    found["message_us"] = level["generator"]["cpu_per_million"]
    found["message_bytes"] = (level["bytes_sent"] + level["bytes_received"]) / level["sent"]
    return found


def of_workers():
    """What the coordinator takes for a worker with the load threads of a host: processors, bytes of memory, and bytes of a run."""
    options = SimpleNamespace(levels=1, threads=host()[0], messages=rate_of_thread(), devices=0, rate=0)
    few, many = (coordinator.tried(count, options) for count in (FEW_WORKERS, MANY_WORKERS))
    apart = MANY_WORKERS - FEW_WORKERS
    return {
        "worker_processors": (many["processors"] - few["processors"]) / apart,
        "worker_bytes": (many["memory"] - few["memory"]) / apart * 1024**2,
        "worker_run_bytes": many["up"] + many["down"],
    }


def measured(runs):
    found, began = {}, time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    for turn in range(runs):
        with_broker = bench.Processes()
        try:
            port = bench.free_port()
            with_broker.serve([bench.PLIMSOLL, "target", "broker", "--port", str(port), "--max-connections", "20000"], port, bench.BROKER)
            costs = one_turn(port)
        finally:
            with_broker.end()
        for name, value in (costs | of_workers()).items():
            found.setdefault(name, []).append(value)
        print(f"turn {turn + 1} of {runs}: {costs}", flush=True)
    return {"began": began, "costs": found}


def mean_of(values):
    """The mean and its 95 % interval."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, mean, mean
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    half = quantile(0.05, len(values) - 1) * math.sqrt(variance / len(values))
    return mean, mean - half, mean + half


def host():
    with open(PRICES) as file:
        found = next(row for row in csv.DictReader(file) if row["type"] == HOST)
    return int(found["processors"]), int(found["memory"].split()[0]) * 1024**3, float(found["price"])


def constant(file, form):
    """A number of the program's sources."""
    with open(f"{bench.ROOT}/{file}") as sources:
        return int(re.search(form, sources.read()).group(1).replace("_", ""))


def needs(devices, costs):
    """What so many devices need, by those costs, and which part of each limit that further hosts do not lift."""
    processors, memory, price = host()
    rate = devices / PERIOD
    hosts = math.ceil(max(
        rate * costs["message_us"] / 1e6 / (processors * USED),
        devices * (costs["connection_bytes"] + KERNEL) / (memory * USED),
        devices / (ADDRESSES * PORTS),
    ))
    threads, connecting = hosts * processors, devices / (CONNECT_MINUTES * 60)
    needed = {
        "hosts": hosts, "rate": rate, "processors": rate * costs["message_us"] / 1e6,
        "memory": devices * (costs["connection_bytes"] + KERNEL) / 1024**3,
        "connecting": connecting, "connecting_processors": connecting * costs["connection_us"] / 1e6,
        "coordinator": hosts * costs["worker_processors"], "coordinator_memory": hosts * costs["worker_bytes"] / 1024**2,
        "nats": 2 * hosts * costs["worker_run_bytes"] / 1024**2, "network": rate * (costs["message_bytes"] + HEADERS) * 8 / 1e9,
        "price": hosts * price / HOURS_OF_MONTH,
    }
    limits = {
        "processor of the coordinator": needed["coordinator"],
        "load threads of a population": threads / constant("crates/load/src/share.rs", r"BLOCKS: u32 = ([0-9_]+)"),
        "numbers of devices": devices / (2 ** constant("crates/codec/src/numbering.rs", r"const MANY: u32 = ([0-9]+)") - 1),
    }
    return needed, limits


def spanned(devices, costs, name):
    """A figure by the means, and where all costs are at an end of their interval; no cost is below zero."""
    ends = ({key: max(values[end], 0) for key, values in costs.items()} for end in range(3))
    middle, low, high = (needs(devices, costs_at)[0][name] for costs_at in ends)
    return shown(middle) if low == high else f"{shown(middle)} ({shown(min(low, high))} to {shown(max(low, high))})"


NAMES = {
    "connection_bytes": ("memory of an idle connection, our own, bytes", 1), "connection_us": ("processor time to connect, µs", 1),
    "message_us": ("processor time of a message, µs", 1),
    "message_bytes": ("bytes of a message both ways, with its acknowledgement and without headers", 1),
    "worker_processors": ("processors of the coordinator for a worker", 1), "worker_bytes": ("memory of the coordinator for a worker, KiB", 1024),
    "worker_run_bytes": ("bytes of a worker in a run with one level of 10 samples, KiB", 1024),
}
ROWS = {
    "hosts": "hosts", "rate": "messages in a second", "processors": "processors for messages", "memory": "memory of connections, GiB",
    "connecting": f"connections in a second, to connect in {CONNECT_MINUTES} minutes", "connecting_processors": "processors for that",
    "network": "network of all devices, Gbit/s", "coordinator": "processors of the coordinator", "coordinator_memory": "its memory beside that of the program, MiB",
    "nats": "what NATS takes in and gives out in a run with one level, MiB", "price": "price of the hosts, USD an hour",
}


def write():
    with open(KEPT) as file:
        kept = json.load(file)
    costs = {name: mean_of(values) for name, values in kept["costs"].items()}
    processors, memory, price = host()
    runs = len(next(iter(kept["costs"].values())))
    lines = [
        "# What 1, 20 and 200 million devices need",
        "",
        "Nobody ran this. The costs of one connection, one message and one worker were measured on a host of two processors, and are",
        "multiplied here. `bench/scale.py` makes this page.",
        "",
        "## Costs",
        "",
        f"Means of {runs} runs with their 95 % intervals (Student), measured from {kept['began']} UTC on. What a connection costs is the",
        f"difference of {MANY:,} and {FEW:,} idle devices. What a message costs is that of {rate_of_thread()} a second on one load thread, of 100 bytes",
        f"at QoS 1, with `precision: 1ms`. What a worker costs is the difference of {MANY_WORKERS} and {FEW_WORKERS} simulated ones with {processors} load threads, over",
        "a real NATS server.",
        "",
        "A message costs more here than in [the table of workers](../performance.md#workers). There, 10,000 are sent in a second. At so low",
        "a rate as here, each message wakes the load thread for itself. Memory of a connection is resident memory, which is more than the",
        "program asks for.",
        "",
        "| cost | mean | 95 % |",
        "|---|---|---|",
    ]
    for name, (title, unit) in NAMES.items():
        mean, low, high = (shown(value / unit) for value in costs[name])
        lines.append(f"| {title} | {mean} | {low} to {high} |")
    lines += [
        "",
        "## Needs",
        "",
        f"Each device sends a message every {PERIOD} s, and nobody receives. So 200 million devices send as often as those of the largest",
        f"load that was published (HiveMQ). That had {CONNECT_MINUTES} minutes to connect, and 180 million of its devices only received. A host is a",
        f"`{HOST}` of [work A's prices](../cost.md): {processors} processors, {memory // 1024**3} GiB, {price:.2f} USD a month. It has {ADDRESSES} addresses of",
        f"{PORTS:,} ports. {USED * 100:.0f} % of its processors and its memory may be used. The kernel takes 4 KiB for one end of an idle",
        "connection. Intervals are those with all costs at either end of theirs. The platform, the NATS server and the",
        "coordinator are not in the price.",
        "",
        "| | " + " | ".join(f"{devices // 10**6} million" for devices in DEVICES) + " |",
        "|---|" + "---|" * len(DEVICES),
    ]
    lines += [f"| {title} | " + " | ".join(spanned(devices, costs, name) for devices in DEVICES) + " |" for name, title in ROWS.items()]
    means = {name: values[0] for name, values in costs.items()}
    limits = [needs(devices, means)[1] for devices in DEVICES]
    reached = {name: DEVICES[-1] / used for name, used in limits[-1].items() if used > 0}
    lines += [
        "",
        "## What breaks first",
        "",
        "Hosts are added until ports, memory and processors suffice. These limits do not grow with hosts:",
        "",
        "| limit | " + " | ".join(f"{devices // 10**6} million" for devices in DEVICES) + " | reached at |",
        "|---|" + "---|" * (len(DEVICES) + 1),
    ]
    for name in sorted(reached, key=reached.get):
        used = " | ".join(f"{of[name] * 100:.2g} %" for of in limits)
        lines.append(f"| {name} | {used} | {reached[name] / 1e6:,.0f} million devices |")
    first = min(reached, key=reached.get)
    lines += ["", f"The first one is reached by {first}. The bandwidth of the NATS server's host is not among them: see above", "what it has to carry."]
    open(PAGE, "w").write("\n".join(wrapped(lines)) + "\n")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--write", action="store_true")
    options = options.parse_args()
    if not options.write:
        found = measured(options.runs)
        with open(KEPT, "w") as file:
            json.dump(found, file, indent=1)
    write()


if __name__ == "__main__":
    main()
