#!/usr/bin/env python3
"""Whether handing the kernel many sends at once would be cheaper than one call each: `batching.c` in interleaved pairs.

    bench/batching.py [--pairs 10]

A sink that acknowledges has one processor, the program the other one. Prints processor time of a message for each rate, by send(2) and
by io_uring(7), and the ratio of the two with its 95 % interval (Student, on logarithms). More messages fall into a tick of 1 ms as the
rate grows. Nothing else should run meanwhile. It needs a C compiler and `cargo build --release`.
"""
import argparse, math, statistics, subprocess, sys, tempfile

import workers as bench
from differences import interval

RATES = [1_000, 10_000, 50_000, 100_000]
CONNECTIONS, SECONDS, SIZE = 1_000, 4, 100


def used(program, port, rate, way):
    command = [program, str(port), str(CONNECTIONS), str(rate * SECONDS), str(rate), str(SIZE), way]
    done = subprocess.run(["taskset", "-c", "1", *command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return float(done.stdout.split()[0])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=10)
    options = options.parse_args()
    processes = bench.Processes()
    try:
        with tempfile.TemporaryDirectory(prefix="plimsoll-batching-") as work:
            for name in ("batching", "sink"):
                subprocess.run(["cc", "-O2", "-o", f"{work}/{name}", f"{bench.HERE}/{name}.c"], check=True)
            port = bench.free_port()
            processes.serve([f"{work}/sink", str(port)], port, bench.BROKER)
            print("| messages a second | send, µs | io_uring, µs | ratio | 95 % |\n|---|---|---|---|---|")
            for rate in RATES:
                found = {"each": [], "ring": []}
                for pair in range(options.pairs):
                    for way in ("each", "ring") if pair % 2 == 0 else ("ring", "each"):
                        found[way].append(used(f"{work}/batching", port, rate, way))
                mean, (low, high) = interval([math.log(ring / each) for each, ring in zip(found["each"], found["ring"])])
                each, ring = (statistics.median(found[way]) for way in ("each", "ring"))
                print(f"| {rate:,} | {each:.2f} | {ring:.2f} | {mean:.3f} | {low:.3f} to {high:.3f} |", flush=True)
    finally:
        processes.end()


if __name__ == "__main__":
    main()
