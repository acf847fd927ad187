#!/usr/bin/env python3
"""What the observers cost: the same run with them and without, in interleaved pairs.

    bench/observers.py [--pairs N] [--seconds S]

A chain of ten stations is loaded with 200 messages a second. Half of the runs have `record.observers: false`. Prints
the processor time that the observers of Plimsoll add, in processors, with the upper bound of the 95 % interval of the
mean (one-sided), and how much later they make the generator: the difference of the 99th percentile of lateness by
Hodges and Lehmann with its 90 % interval by Wilcoxon's signed ranks, which is the test of equivalence at 5 % (two
one-sided tests). Ranks, because one pair in which the host stood still would decide a mean; the mean is printed, too.
Exit code 1 where the observers take more than 1 % of a processor, or where the interval is not within 20 microseconds.
Nothing else should run meanwhile.
"""
import argparse, json, math, os, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BUILT = os.environ.get("CARGO_TARGET_DIR", f"{ROOT}/target")
STATIONS = 10
MOST = 0.01
MARGIN = 20e-6
# Student t, 95 %, by degrees of freedom; beyond the table the last value is close enough.
T = [6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80, 1.78, 1.77, 1.76, 1.75, 1.75, 1.74, 1.73, 1.73]


def profile():
    """Stations that work for 100 microseconds each; the last one is started first, because each asks for the next."""
    lines = ["name: ten", "title: ten stations", "description: ten stations one behind the other", "limits: { all: none }"]
    lines += ["components:"]
    for number in range(STATIONS, 0, -1):
        next_one = "" if number == STATIONS else f', --next, "127.0.0.1:{{port:s{number + 1}}}"'
        command = f'"{{plimsoll}}", target, station, --port, "{{port:s{number}}}", --service, "deterministic:100us"'
        lines += [f"  - name: s{number}", f"    command: [{command}{next_one}]", f"    ready_port: s{number}"]
    return "\n".join(lines + ["    mqtt_port: s1", ""])


def scenario(seconds, observers):
    return (
        "name: ten\nplatform: ten.yaml\npopulation: { devices: 50 }\nmqtt: { qos: 1 }\n"
        f"load: {{ levels: [200], arrivals: constant, warm_up: 1s, hold: {seconds}s, drain: 1s, again: 0s }}\n"
        f"record: {{ observers: {json.dumps(observers)} }}\nobjectives: {{ publish_p99: null, achieved: null }}\n"
    )


def processor_time(pid):
    """Of all threads of a process, in seconds: its clock (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


def run(work, seconds, observers):
    """Processors that Plimsoll used, and the 99th percentile of its lateness."""
    with open(f"{work}/scenario.yaml", "w") as file:
        file.write(scenario(seconds, observers))
    command = [f"{BUILT}/release/plimsoll", "run", "scenario.yaml", "--quiet", "--no-report", "--store", "runs.db"]
    begin = time.monotonic()
    process = subprocess.Popen(
        [*command, "--summary-json", "summary.json"], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    used = 0.0
    while process.poll() is None:
        try:
            used = processor_time(process.pid)
        except OSError:
            break
        time.sleep(0.02)
    said = process.communicate()[0].decode()
    took = time.monotonic() - begin
    with open(f"{work}/summary.json") as file:
        summary = json.load(file)
    seen = {gauge["sampler"] for gauge in summary["gauges"]}
    if ("observers" in seen) != observers:
        sys.exit(f"observers: {observers}, but {seen or 'nobody'} saw something:\n{said}")
    late = summary["levels"][0]["generator"]["lateness"]["p99"]
    if late is None:
        sys.exit(f"no 99th percentile of lateness:\n{said}")
    return used / took, late


def middle_and_half(values):
    t = T[min(len(values) - 2, len(T) - 1)]
    return statistics.mean(values), t * statistics.stdev(values) / math.sqrt(len(values))


def by_ranks(values):
    """The Hodges-Lehmann estimate and its 90 % interval by signed ranks, from the averages of all pairs of values."""
    n = len(values)
    walsh = sorted((values[i] + values[j]) / 2 for i in range(n) for j in range(i, n))
    k = max(1, int(n * (n + 1) / 4 - 1.645 * math.sqrt(n * (n + 1) * (2 * n + 1) / 24)))
    return statistics.median(walsh), walsh[k - 1], walsh[-k]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pairs", type=int, default=20)
    arguments.add_argument("--seconds", type=int, default=15)
    options = arguments.parse_args()
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=True)
    costs, delays = [], []
    with tempfile.TemporaryDirectory(prefix="plimsoll-observers-") as work:
        with open(f"{work}/ten.yaml", "w") as file:
            file.write(profile())
        for pair in range(options.pairs):
            order = [True, False] if pair % 2 else [False, True]
            found = {observers: run(work, options.seconds, observers) for observers in order}
            costs.append(found[True][0] - found[False][0])
            delays.append(found[True][1] - found[False][1])
            print(f"pair {pair + 1}: {costs[-1] * 100:.2f} % of a processor, {delays[-1] * 1e6:+.1f} us", flush=True)
    cost, half = middle_and_half(costs)
    dear = cost + half > MOST
    print(f"cost: {cost * 100:.2f} % of a processor, at most {(cost + half) * 100:.2f} % (limit {MOST * 100:.0f} %)")
    late, low, high = by_ranks(delays)
    differs = max(-low, high) > MARGIN
    print(f"lateness p99: {late * 1e6:+.1f} us, {low * 1e6:+.1f} to {high * 1e6:+.1f} us (margin 20 us)")
    mean, half = middle_and_half(delays)
    print(f"its mean: {mean * 1e6:+.1f} us, {(mean - half) * 1e6:+.1f} to {(mean + half) * 1e6:+.1f} us")
    failed = dear + differs
    print(f"test result: {'FAILED' if failed else 'ok'}. {2 - failed} passed; {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
