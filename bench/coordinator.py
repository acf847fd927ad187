#!/usr/bin/env python3
"""How many workers a coordinator holds: simulated ones speak the real protocol to it over a real NATS server.

    bench/coordinator.py [--workers 100,500,1000,2000] [--threads N] [--levels N] [--messages M | --devices D --rate R]

Each simulated worker has a connection of its own to the server, N load threads, ten devices for each of these, and M messages of each
in a sample of a second, whose histograms it sends. Nobody receives. With `--devices`, all of them have so many devices, and their
messages are those that are due at R/s: Poisson arrivals, computed as load threads do. What came of them must then be the same as of
one thread, to the message. The coordinator has a processor, the simulated workers have the other one, and the NATS server has what
they leave of both.

Prints a table: processor time of the coordinator in a level, its largest memory, the time from the start of the run to its first
level, the bytes of the run for each worker and level in both directions (without frames and the server's own protocol), and what became of the
levels. Exit code 1 where the coordinator of 100 workers or fewer takes more than 0.1 of a processor, or where what was due differs.

Before: `cargo build --release -p plimsoll-cli`, `cargo build --release -p plimsoll-workers --example simulated_workers`,
`source scripts/peers`. Nothing else should run meanwhile.
"""
import argparse, json, os, resource, subprocess, sys, tempfile, time

import workers as bench

SIMULATED = os.path.join(os.path.dirname(bench.PLIMSOLL), "examples/simulated_workers")
COORDINATOR, OTHERS = {1}, {0}
HOLD = 10
# Processors that the coordinator may take, of so many workers at most.
MOST_OF_COORDINATOR, MOST_WORKERS = 0.1, 100


SEED = 7


def scenario(broker, workers, options):
    threads = workers * options.threads
    rate = options.rate if options.devices else options.messages * threads
    return json.dumps({
        "name": "coordinator",
        "platform": {"profile": "existing", "address": f"mqtt://127.0.0.1:{broker}"},
        "population": {"devices": options.devices or 10 * threads},
        "seed": SEED,
        "mqtt": {"qos": 1},
        "load": {
            "arrivals": "poisson", "levels": [rate] * options.levels, "connect_rate": 100_000, "warm_up": "1s", "hold": f"{HOLD}s", "samples": HOLD,
            "drain": "1s", "again": "0s",
        },
    })


def largest_memory(pid):
    """In MiB."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


def watched(process):
    """Five times a second, until it ends: the time, the processor time of the coordinator, and its largest memory."""
    seen = []
    while process.poll() is None:
        try:
            seen.append((time.monotonic(), bench.processor_time(process.pid), largest_memory(process.pid)))
        except (OSError, StopIteration):
            break
        time.sleep(0.2)
    return seen


def tried(workers, options):
    """What came of a run with so many simulated workers."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    processes = bench.Processes()
    try:
        with tempfile.TemporaryDirectory(prefix="plimsoll-coordinator-") as work:
            broker, port = bench.free_port(), bench.free_port()
            processes.serve([bench.PLIMSOLL, "target", "broker", "--port", str(broker)], broker, OTHERS)
            processes.serve(["nats-server", "-a", "127.0.0.1", "-p", str(port)], port, COORDINATOR | OTHERS)
            url = f"nats://127.0.0.1:{port}"
            at = lambda: os.sched_setaffinity(0, OTHERS)
            what = ["due", str(options.devices), str(SEED)] if options.devices else [str(options.messages)]
            simulated = subprocess.Popen([SIMULATED, url, str(workers), str(options.threads), *what], stdout=subprocess.PIPE, preexec_fn=at)
            processes.all.append(simulated)
            with open(f"{work}/scenario.yaml", "w") as file:
                file.write(scenario(broker, workers, options))
            command = [bench.PLIMSOLL, "run", "scenario.yaml", "--quiet", "--no-report", "--store", "runs.db", "--summary-json", "summary.json"]
            at = lambda: os.sched_setaffinity(0, COORDINATOR)
            began = time.monotonic()
            run = subprocess.Popen(
                [*command, "--workers", f"{url},min={workers},wait=5m"], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=at
            )
            seen = watched(run)
            said = run.stdout.read().decode()
            run.wait()
            try:
                with open(f"{work}/summary.json") as file:
                    summary = json.load(file)
            except OSError:
                sys.exit(f"{workers} workers: no result:\n{said[-400:]}")
            took = json.loads(simulated.communicate(timeout=60)[0])
            if took["due"] != took["due_of_one"]:
                sys.exit(f"what was due differs: {took}")
            sent = sum(level["sent"] for level in summary["levels"])
            if options.devices and sent != took["due"][0]:
                sys.exit(f"{sent} messages were merged, and {took['due'][0]} were due")
            # The last levels are the last seconds before the end: what is used in them is that of levels alone.
            of_levels = options.levels * (HOLD + 2)
            end = seen[-1][0] - 2
            within = [one for one in seen if end - of_levels <= one[0] <= end]
            used = (within[-1][1] - within[0][1]) / (within[-1][0] - within[0][0])
            return {
                "workers": workers,
                "processors": used,
                "memory": seen[-1][2],
                "before": end + 2 - of_levels - began,
                "up": took["bytes_up"] / options.levels / workers,
                "down": took["bytes_down"] / options.levels / workers,
                "validity": [level["validity"] for level in summary["levels"]],
            }
    finally:
        processes.end()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--workers", default="100,500,1000,2000")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--levels", type=int, default=2)
    options.add_argument("--messages", type=int, default=100)
    options.add_argument("--devices", type=int, default=0)
    options.add_argument("--rate", type=int, default=1000)
    options = options.parse_args()
    is_good = True
    print("| workers | processors of the coordinator | its memory, MiB | before the first level, s | KiB a worker and level, up | down | levels |")
    print("|---|---|---|---|---|---|---|")
    for workers in map(int, options.workers.split(",")):
        found = tried(workers, options)
        is_good = is_good and (workers > MOST_WORKERS or found["processors"] <= MOST_OF_COORDINATOR)
        cells = [f"{found['processors']:.3f}", f"{found['memory']:.0f}", f"{found['before']:.0f}", f"{found['up'] / 1024:.1f}", f"{found['down'] / 1024:.1f}"]
        print(f"| {workers:,} | {' | '.join(cells)} | {', '.join(found['validity'])} |", flush=True)
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
