#!/usr/bin/env python3
"""What 1, 20 and 200 million devices need, by what a connection, a message and a worker cost here.

    bench/scale.py [--runs 5] [--write]

Measures each cost in several runs and keeps them in docs/results/scale.json, then makes docs/results/scale.md of it; `--write` makes
the page alone. A broker has one processor, and the generator the other one.

Before: `cargo build --release -p plimsoll-cli`, `cargo build --release -p plimsoll-workers --example simulated_workers`,
`source scripts/peers`. Nothing else should run meanwhile.
"""
import argparse, csv, json, math, os, subprocess, tempfile, time
from types import SimpleNamespace

import coordinator
import workers as bench
from differences import quantile

KEPT = f"{bench.ROOT}/docs/results/scale.json"
PAGE = f"{bench.ROOT}/docs/results/scale.md"
PRICES = f"{bench.ROOT}/examples/prices-work-a.csv"
# Devices of which the costs of one are a difference, and the rate of messages for those of one.
FEW, MANY = 1_000, 10_000
RATE = 5_000
# Workers of which the costs of one for the coordinator are a difference.
FEW_WORKERS, MANY_WORKERS = 100, 500

# The load: the largest that was published has 200 million connections and a million publishes a second.
DEVICES = [1_000_000, 20_000_000, 200_000_000]
PERIOD = 200
# A host: its type in the table of prices, the part of its processors and its memory that may be used, and its addresses.
HOST, USED, ADDRESSES = "c4.2xlarge", 0.7, 4
PORTS = 64_512
# What the kernel takes for one end of an idle connection (docs/scaling.md).
KERNEL = 4 * 1024
HOURS_OF_MONTH = 730
CONNECT_MINUTES = 37
# Devices that a run can number, by what a marker holds.
MOST_DEVICES = 2**28 - 1


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


def load(rate, precision):
    return {"arrivals": "poisson", "levels": [rate], "connect_rate": 5000, "precision": precision, "warm_up": "1s", "hold": "5s", "samples": 5, "drain": "1s", "again": "0s", "threads": 1}


def one_turn(broker):
    """Of one connection: bytes and microseconds; of one message: microseconds, by precision."""
    idle = {count: run(broker, {"population": {"devices": count}, "load": load(10, "1ms")}) for count in (FEW, MANY)}
    apart = MANY - FEW
    found = {
        "connection_bytes": (idle[MANY][1] - idle[FEW][1]) / apart,
        "connection_us": (idle[MANY][0] - idle[FEW][0]) / apart * 1e6,
    }
    for precision in ("1ms", "100us"):
        _, _, level = run(broker, {"population": {"devices": FEW}, "message": {"size": 100}, "load": load(RATE, precision)})
        found[f"message_us_{precision}"] = level["generator"]["cpu_per_million"]
        found["message_bytes"] = (level["bytes_sent"] + level["bytes_received"]) / level["sent"]
    return found


def of_workers():
    """What the coordinator takes for a worker and what it takes besides: processors, bytes of memory, bytes in a second, up and down."""
    options = SimpleNamespace(levels=1, messages=100, devices=0, rate=0)
    few, many = (coordinator.tried(count, options) for count in (FEW_WORKERS, MANY_WORKERS))
    apart = MANY_WORKERS - FEW_WORKERS
    return {
        "worker_processors": (many["processors"] - few["processors"]) / apart,
        "worker_bytes": (many["memory"] - few["memory"]) / apart * 1024**2,
        "worker_level_bytes": many["up"] + many["down"],
    }


def measured(runs):
    found = {}
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
    return {"began": time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "costs": found}


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


def needs(devices, costs):
    """What so many devices need, by those costs, and what is used of each limit with so many hosts."""
    processors, memory, price = host()
    rate = devices / PERIOD
    of_host = {
        "processors": processors * USED / (rate * costs["message_us_1ms"] / 1e6),
        "memory": memory * USED / (devices * (costs["connection_bytes"] + KERNEL)),
        "ports": ADDRESSES * PORTS / devices,
    }
    hosts = math.ceil(1 / min(of_host.values()))
    threads = hosts * processors
    connecting = devices * costs["connection_us"] / 1e6 / (threads * USED)
    used = {name: 1 / (share * hosts) for name, share in of_host.items()}
    used["processor of the coordinator"] = hosts * costs["worker_processors"]
    used["load threads of a population"] = threads / 16_384
    used["numbers of devices in a run"] = devices / MOST_DEVICES
    used[f"connecting in {CONNECT_MINUTES} minutes"] = connecting / (CONNECT_MINUTES * 60)
    return {
        "hosts": hosts, "processors": rate * costs["message_us_1ms"] / 1e6, "memory": devices * (costs["connection_bytes"] + KERNEL) / 1024**3,
        "connecting": connecting, "coordinator": hosts * costs["worker_processors"], "coordinator_memory": hosts * costs["worker_bytes"] / 1024**2,
        "nats": hosts * costs["worker_level_bytes"] / coordinator.HOLD / 1024**2, "network": rate * costs["message_bytes"] * 8 / 1e9,
        "price": hosts * price / HOURS_OF_MONTH, "first": max(used, key=used.get), "used": max(used.values()),
    }


def spanned(devices, costs, name):
    """A figure by the means, and where all costs are at an end of their interval."""
    middle, low, high = (needs(devices, {key: values[end] for key, values in costs.items()})[name] for end in range(3))
    shown = lambda value: f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return shown(middle) if low == high else f"{shown(middle)} ({shown(min(low, high))} to {shown(max(low, high))})"


NAMES = {
    "connection_bytes": ("memory of an idle connection, our own, bytes", 1), "connection_us": ("processor time to connect, µs", 1),
    "message_us_1ms": ("processor time of a message, precision 1 ms, µs", 1), "message_us_100us": ("the same, precision 100 µs", 1),
    "message_bytes": ("bytes of a message both ways, its acknowledgement included", 1),
    "worker_processors": ("processors of the coordinator for a worker", 1), "worker_bytes": ("memory of the coordinator for a worker, KiB", 1024),
    "worker_level_bytes": ("bytes of a worker in a level of 10 samples, KiB", 1024),
}
ROWS = {
    "hosts": "hosts", "processors": "processors for messages", "memory": "memory of connections, GiB", "connecting": "connecting with all processors, s",
    "network": "network of all devices, Gbit/s", "coordinator": "processors of the coordinator", "coordinator_memory": "its memory, MiB",
    "nats": "traffic of NATS, MiB/s", "price": "price of the hosts, USD an hour",
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
        f"Means of {runs} runs with their 95 % intervals (Student), measured until {kept['began']} UTC. A connection is the difference of {MANY:,} and",
        f"{FEW:,} idle devices, and a message one of {RATE:,} a second, of 100 bytes at QoS 1, all on one load thread. A worker is the difference of",
        f"{MANY_WORKERS} and {FEW_WORKERS} simulated ones over a real NATS server.",
        "",
        "| cost | mean | 95 % |",
        "|---|---|---|",
    ]
    for name, (title, unit) in NAMES.items():
        mean, low, high = (f"{value / unit:.3g}" for value in costs[name])
        lines.append(f"| {title} | {mean} | {low} to {high} |")
    lines += [
        "",
        "## Needs",
        "",
        f"Each device sends a message every {PERIOD} s, with a precision of 1 ms. A host is a `{HOST}` of [work A's prices](../cost.md): {processors} processors,",
        f"{memory // 1024**3} GiB, {price:.2f} USD a month. It has {ADDRESSES} addresses of {PORTS:,} ports. {USED * 100:.0f} % of its processors and its memory may be used. The kernel",
        "takes 4 KiB for one end of an idle connection. Intervals are those with all costs at either end of theirs.",
        "",
        "| | " + " | ".join(f"{devices // 10**6} million" for devices in DEVICES) + " |",
        "|---|" + "---|" * len(DEVICES),
    ]
    lines += [f"| {title} | " + " | ".join(spanned(devices, costs, name) for devices in DEVICES) + " |" for name, title in ROWS.items()]
    first = [needs(devices, {name: values[0] for name, values in costs.items()}) for devices in DEVICES]
    lines.append("| what is used most of its limit | " + " | ".join(f"{one['first']}, {one['used'] * 100:.0f} %" for one in first) + " |")
    open(PAGE, "w").write("\n".join(lines) + "\n")


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
