#!/usr/bin/env python3
"""What workers cost: the same load from one process and from workers, in interleaved pairs.

    bench/workers.py [--pairs N] [--seconds S]

A broker has one processor, and all that makes the load has the other: one process with two load threads, or two workers with one
each, their NATS server and their coordinator. Two kinds of load: nobody receives, or a subscriber receives all messages, half of
which come from devices of the other worker and go there as receipts. Prints for each kind the mean ratio of processor time with
workers to that of one process, for the same messages, with the upper bound of its 95 % interval (one-sided, Student t of the
logarithms), and the bytes that the NATS server took in and gave out for a message. Exit code 1 where an upper bound is above 1.1.
`bench/coordinator.py` says what the coordinator of many takes.

Before: `cargo build --release`, `source scripts/peers`. Nothing else should run meanwhile.
"""
import argparse, json, math, os, signal, socket, statistics, subprocess, sys, tempfile, time, urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PLIMSOLL = os.path.join(os.environ.get("CARGO_TARGET_DIR", f"{ROOT}/target"), "release/plimsoll")
KINDS = {"nobody receives": 0, "half of all messages are receipts": 1}
RATE = 10_000
MOST_ADDED = 1.1
# The processors of the broker, and of what makes the load.
BROKER, LOAD = {0}, {1}
# Student t, 95 %, by degrees of freedom; beyond the table the last value is close enough.
T = [6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81, 1.80, 1.78, 1.77, 1.76, 1.75, 1.75, 1.74, 1.73, 1.73]


def processor_time(pid):
    """Of all threads of a process, in seconds: its clock (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Processes:
    """What was started; it ends with this program."""

    def __init__(self):
        self.all = []

    def start(self, command, processors):
        with open(os.devnull, "r+") as nothing:
            at = lambda: os.sched_setaffinity(0, processors)
            process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, preexec_fn=at)
        self.all.append(process)
        return process

    def serve(self, command, port, processors):
        """The same with a server, which accepts connections then."""
        process = self.start(command, processors)
        end = time.monotonic() + 10
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), 1).close() or process
            except OSError:
                if time.monotonic() > end:
                    sys.exit(f"{command[0]} does not accept connections")
                time.sleep(0.05)

    def workers(self, count):
        """A NATS server and so many workers; how to name them to `plimsoll run`."""
        port, self.monitor = free_port(), free_port()
        server = ["nats-server", "-a", "127.0.0.1", "-p", str(port), "-m", str(self.monitor)]
        started = [self.serve(server, port, LOAD)]
        url = f"nats://127.0.0.1:{port}"
        for number in range(count):
            started.append(self.start([PLIMSOLL, "worker", "--join", url, "--name", f"w{number}", "--threads", "1"], LOAD))
        return started, f"{url},min={count},wait=2m"

    def passed(self):
        """Bytes that the NATS server has taken in and given out, without its own protocol."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.monitor}/varz") as answer:
            found = json.load(answer)
        return found["in_bytes"] + found["out_bytes"]

    def end(self):
        for process in self.all:
            process.send_signal(signal.SIGTERM)
        for process in self.all:
            process.wait()


def scenario(broker, subscribers, seconds):
    return json.dumps({
        "name": "workers",
        "platform": {"profile": "existing", "address": f"mqtt://127.0.0.1:{broker}"},
        "population": {"devices": 100, "subscribers": subscribers},
        "seed": 7,
        "message": {"size": 64},
        "load": {"levels": [RATE], "threads": 2, "warm_up": "1s", "hold": f"{seconds}s", "samples": 5, "drain": "2s", "again": "0s"},
        "objectives": {"publish_p99": None, "subscribe_p99": None, "achieved": None, "delivered": None},
    })


def begun(work, text, workers):
    """A run that goes on."""
    with open(f"{work}/scenario.yaml", "w") as file:
        file.write(text)
    command = [PLIMSOLL, "run", "scenario.yaml", "--quiet", "--no-report", "--store", "runs.db", "--summary-json", "summary.json"]
    at = lambda: os.sched_setaffinity(0, LOAD)
    more = ["--workers", workers] if workers else []
    return subprocess.Popen([*command, *more], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=at)


def ended(work, process):
    """Its processor time in seconds, and its level."""
    said = process.stdout.read().decode()
    _, _, usage = os.wait4(process.pid, 0)
    with open(f"{work}/summary.json") as file:
        summary = json.load(file)
    level = summary["levels"][0]
    if level["lost"] or not level["sent"]:
        sys.exit(f"the ledger is not that of a good run: {level['sent']} sent, {level['lost']} lost\n{said}")
    return usage.ru_utime + usage.ru_stime, level


def cost(work, text, workers, processes):
    """Processor time of all that makes the load, a million messages."""
    before = sum(processor_time(process.pid) for process in processes)
    used, level = ended(work, begun(work, text, workers))
    used += sum(processor_time(process.pid) for process in processes) - before
    return used / (level["sent"] + level["delivered"]) * 1e6, (level["sent"], level["delivered"])


def upper(logs):
    """Mean and one-sided upper bound of ratios."""
    mean = statistics.fmean(logs)
    half = T[min(len(logs) - 2, len(T) - 1)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean + half)


def pairs(processes, work, broker, options):
    """Whether workers cost no more than they may."""
    started, workers = processes.workers(2)
    ratios, costs, passed = {}, {}, {}
    for pair in range(options.pairs):
        for kind, subscribers in KINDS.items():
            text = scenario(broker, subscribers, options.seconds)
            found = {}
            for is_shared in (False, True) if pair % 2 == 0 else (True, False):
                before = processes.passed()
                found[is_shared] = cost(work, text, workers if is_shared else None, started if is_shared else [])
                if is_shared:
                    passed.setdefault(kind, []).append((processes.passed() - before) / found[is_shared][1][0])
            if found[False][1] != found[True][1]:
                sys.exit(f"{kind}: one process has other counts than workers: {found}")
            ratios.setdefault(kind, []).append(math.log(found[True][0] / found[False][0]))
            for is_shared, (figure, _) in found.items():
                costs.setdefault((kind, is_shared), []).append(figure)
        print(f"pair {pair + 1} of {options.pairs} is done", file=sys.stderr)
    worst = 0
    for kind, logs in ratios.items():
        mean, most = upper(logs)
        worst = max(worst, most)
        alone, shared = (statistics.median(costs[kind, is_shared]) for is_shared in (False, True))
        print(
            f"{kind}: one process {alone:.2f} s, workers {shared:.2f} s a million messages; ratio {mean:.3f}, at most {most:.3f} (95 %); "
            f"{statistics.median(passed[kind]):.1f} B through the server for a message"
        )
    return worst <= MOST_ADDED


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=20)
    options.add_argument("--seconds", type=int, default=10)
    options = options.parse_args()
    processes = Processes()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with tempfile.TemporaryDirectory(prefix="plimsoll-workers-") as work:
            port = free_port()
            processes.serve([PLIMSOLL, "target", "broker", "--port", str(port)], port, BROKER)
            is_good = pairs(processes, work, port, options)
    finally:
        processes.end()
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
