#!/usr/bin/env python3
"""Two builds of Plimsoll and the floor on the same work, in interleaved pairs: does a change cost processor time?

    bench/pairs.py OLD NEW [--pairs N] [--seconds S]

OLD and NEW are programs. Each pair runs OLD, NEW and the floor one after the other; every second pair begins with NEW.
Prints, for each kind of work, the mean ratio of NEW to OLD in processor seconds per message, with a 95 % interval over
the pairs (Student t of the logarithms), and both as multiples of the floor. Exit code 1 where an upper bound exceeds
--limit. Nothing else should run meanwhile.
"""
import argparse, math, statistics, sys, tempfile

import run

# Student t, 97.5 %, by degrees of freedom; beyond the table the normal value is close enough.
T = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09]
TEMPLATE = """template: '{"id":"{device}","n":{sequence},"t":{time},"v":{random:18.5..25.0:1},"m":"{marker}"}'"""
# Each is named, and has its QoS, its rate and its message; the floor always sends 16 bytes.
WORKS = [
    ("QoS 0, as fast as it goes", 0, 0, None),
    ("QoS 1, as fast as it goes", 1, 0, None),
    ("QoS 1, paced at 20,000/s", 1, 20_000, None),
    ("QoS 0, a template, as fast as it goes", 0, 0, TEMPLATE),
]


def cost(command, work, sink):
    """Processor seconds per million messages that the sink counted."""
    used, _, status, said = run.measured(command, work)
    messages = sink.stop()
    if messages < 1000:
        sys.exit(f"{command[0]} sent {messages} messages (exit {status}): {said[-300:].strip()}")
    return used / messages * 1e6


def interval(ratios):
    """Geometric mean of ratios, with the bounds of its 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    middle = statistics.mean(logs)
    half = T[min(len(logs) - 2, len(T) - 1)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return [math.exp(middle + by) for by in (0, -half, half)]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("old")
    options.add_argument("new")
    options.add_argument("--pairs", type=int, default=10)
    options.add_argument("--seconds", type=int, default=4)
    options.add_argument("--limit", type=float, default=1.05)
    options = options.parse_args()
    work = tempfile.mkdtemp(prefix="plimsoll-pairs-")
    run.compile_programs(work, ("sink", "floor"))
    costs = {}
    for pair in range(options.pairs):
        programs = [("old", options.old), ("new", options.new)]
        for name, qos, rate, message in WORKS:
            for which, program in [*(programs if pair % 2 == 0 else reversed(programs)), ("floor", None)]:
                sink = run.Sink(work)
                call = (work, sink.port, qos, 16, options.seconds, rate)
                command = run.plimsoll(*call, program=program, message=message) if program else run.floor(*call)
                costs.setdefault((name, which), []).append(cost(command, work, sink))
        print(f"pair {pair + 1} of {options.pairs} is done", file=sys.stderr)
    worst = 0
    for name, *_ in WORKS:
        old, new, floor = (costs[name, which] for which in ("old", "new", "floor"))
        ratio, low, high = interval([b / a for a, b in zip(old, new)])
        worst = max(worst, high)
        base = statistics.median(floor)
        times = [f"{which} {statistics.median(costs[name, which]) / base:.2f}" for which in ("old", "new")]
        print(f"{name}: new/old {ratio:.3f} (95 %: {low:.3f} to {high:.3f}); times the floor: {', '.join(times)}")
    sys.exit(worst > options.limit)


if __name__ == "__main__":
    main()
