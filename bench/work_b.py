#!/usr/bin/env python3
"""Repeats the experiments of work B, and writes docs/results/work-b.md, with a verdict on each of its findings.

    bench/work_b.py [--quick] [--page] [--only NAME,...] [--turns N] [--hours HOURS]

All street segments are published one after the other and many at once, by three mappings to a context broker, in a database that is
reset and one that is not, through a proxy that is full, and to a oneM2M service entity over three bindings. `--page` only writes the
page.

The same command goes on where it was interrupted: every experiment three times, then again, until each has its runs. Results are kept
in docs/results/work-b/, a file for each experiment; delete one to run it again. The run store is in the target folder. `--hours` begins
nothing after that time, and stops what runs then. `--turns` is the most runs of each.

`--quick` takes 4,000 segments (200 for oneM2M) and three runs of each: some 25 minutes. All 19,884 segments take some
8 hours, by an estimate. The page has the full form of an experiment if there is one, else the quick form. Nothing else should run
meanwhile. Before: `cargo build --release`, `source scripts/peers`.
"""
import argparse, fcntl, json, math, os, random, signal, statistics, subprocess, sys, tempfile, time

from brokers import beta, wrapped

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
TARGET = os.environ.get("CARGO_TARGET_DIR", f"{ROOT}/target")
PLIMSOLL = os.environ.get("PLIMSOLL", f"{TARGET}/release/plimsoll")
KEPT = f"{ROOT}/docs/results/work-b"
PAGE = f"{ROOT}/docs/results/work-b.md"
# What it says of indexes and of mutexes.
MANUAL = "https://github.com/telefonicaid/fiware-orion/blob/00d57487368f29533eb69aebfc94d157f4686090/doc/manuals/admin/perf_tuning.md"
# So many runs of each experiment, before the next ones are made: a page of few runs is there early.
GOALS = (3, 5, 10)
QUICK_TURNS = 3
# What stays within these is as it was, and what is above the other is much more.
SAME = (0.8, 1.25)
MUCH = 1.1
# The day is looked at again after so many seconds, between two experiments.
DAY = 1800
# A store that has a key to find an entity by.
BY_KEY = ["platform.with.lookup=?type={type}", 'platform.with.kind=\'"type":"{type}",\'']
# Of oneM2M beside a context broker: how each is run. Differences are from the first.
ALL_SEGMENTS = ["population.devices=19884", "message.feed.city.segments=19884", "load.cycles=1"]
FEW_SEGMENTS = ["population.devices=200", "message.feed.city.segments=200", "load.cycles=5"]
BESIDE = {
    "HTTP": ("work-b-onem2m-http", []),
    "CoAP": ("work-b-onem2m-coap", []),
    "MQTT": ("work-b-onem2m-mqtt", ["load.connect_rate=2000"]),
    "MQTT both ways": ("work-b-onem2m-mqtt", ["load.connect_rate=2000", "platform={ profile: acme-mqtt, mapping: mqtt-notified }"]),
    "NGSI in memory": ("work-b-ngsi-update", ["platform.clean_up=false"]),
    "NGSI with the store": ("work-b-mappings", ["matrix=null"]),
}


class Experiment:
    """What is run: a sweep of a scenario, or runs of several scenarios in turns."""

    def __init__(self, turns, scenario=None, sets=(), quick_sets=(), has_quick=True):
        self.turns, self.scenario = turns, scenario
        self.sets, self.quick_sets, self.has_quick = list(sets), list(quick_sets), has_quick

    def changes(self, quick):
        return self.sets + (self.quick_sets if quick else [])


FIVE_IN_FLIGHT = "[" + ", ".join(["5"] * 10) + "]"
SUBSCRIPTIONS = ["matrix={ population.subscribers: [1, 4] }", "population.devices=100", "message.feed.city.segments=100", "load.in_flight=[1]", "load.hold=5s"]
EXPERIMENTS = {
    "wild": Experiment(10, "work-b-wild"),
    "mappings": Experiment(3, "work-b-mappings"),
    "mappings-by-key": Experiment(3, "work-b-mappings", BY_KEY),
    "not-reset": Experiment(
        3, "work-b-mappings", ["matrix.platform.mapping=[single]", "matrix.load.in_flight=[[1], [5]]", "matrix.platform.preload=[0, 19884]"], ["matrix.platform.preload=[0, 4000]"]
    ),
    "cycles": Experiment(2, "work-b-mappings", [f"matrix.load.in_flight=[{FIVE_IN_FLIGHT}]"], ["matrix.load.in_flight=[[5, 5, 5]]"]),
    "proxy": Experiment(5, "work-b-proxy"),
    "onem2m": Experiment(3),
    "subscriptions": Experiment(4, "work-b-onem2m-http", SUBSCRIPTIONS, has_quick=False),
}
TIMES = ("n", "mean", "p25", "p50", "p75", "p99")
COUNTS = (
    "in_flight", "validity", "finished", "hold", "messages", "due", "sent", "unsent", "acknowledged", "refused", "repeated", "retries",
    "retransmitted", "expected_deliveries", "delivered", "lost", "duplicated", "total_time", "achieved", "goodput", "platform_cpu",
    "marshalled_size", "publication_size", "sizes", "publish_minus_subscribe", "publish_boxplot", "reasons",
)


# --- Measuring ---


def path_of(name, quick):
    return f"{KEPT}/{'quick-' if quick else ''}{name}.json"


def kept(name, quick):
    try:
        return json.load(open(path_of(name, quick)))
    except FileNotFoundError:
        return {"experiment": name, "quick": quick, "turns": 0, "runs": []}


def keep(found):
    whole = dict(found, runs=None)
    del whole["runs"]
    runs = ",\n".join(json.dumps(one) for one in found["runs"])
    text = json.dumps(whole, indent=1)[:-2] + ',\n "runs": [\n' + runs + "\n]}\n"
    path = path_of(found["experiment"], found["quick"])
    with open(f"{path}.part", "w") as file:
        file.write(text)
    os.replace(f"{path}.part", path)


def reduced(summary, values):
    """What is kept of a run."""

    def level(one):
        short = {key: one[key] for key in COUNTS if one.get(key) is not None}
        for key in ("publish_time", "subscribe_time", "retry_delay"):
            if one.get(key):
                short[key] = {name: one[key][name] for name in TIMES}
        if one.get("inference"):
            short["total_because"], short["total_ratio"] = one["inference"]["total_because"], one["inference"]["total_ratio"]
        short["segments_again"] = one["wire"]["tcp_retransmissions"]
        return short

    provenance = summary["provenance"]
    return {
        "run": summary["run"], "values": values, "seed": provenance["seed"], "started": provenance["started"], "plimsoll": provenance["plimsoll"],
        "platform": provenance["platform"], "host": provenance["host"], "placement": provenance["placement"].get("remark"),
        "verdict": summary["verdict"], "levels": [level(one) for one in summary["levels"]],
    }


class Bench:
    """Runs the program until the time is up."""

    def __init__(self, options):
        self.quick, self.end = options.quick, time.time() + options.hours * 3600
        self.store = f"{TARGET}/work-b-quick.db" if options.quick else f"{TARGET}/work-b.db"
        os.makedirs(TARGET, exist_ok=True)

    def is_over(self):
        return time.time() >= self.end

    def call(self, *arguments):
        """Its exit code and what it printed. When the time is up, it is asked to end, and keeps what it has."""
        with subprocess.Popen([PLIMSOLL, *arguments, "--store", self.store], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
            try:
                out, error = program.communicate(timeout=None if self.end == math.inf else max(self.end - time.time(), 1))
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                program.send_signal(signal.SIGINT)
                out, error = program.communicate()
                self.end = min(self.end, time.time())
        return program.returncode, out, error

    def summary(self, run):
        code, out, error = self.call("show", run, "--json")
        if code == 1 or not out:
            raise RuntimeError(error)
        return json.loads(out)

    def sweep(self, name, experiment, goal):
        """Runs the turns that are missing. A turn has the seed of its number."""
        found = kept(name, self.quick)
        done = found["turns"]
        with tempfile.TemporaryDirectory() as folder:
            out = f"{folder}/sweep.json"
            changes = [argument for change in experiment.changes(self.quick) for argument in ("--set", change)]
            quick = ["--quick"] if self.quick and experiment.has_quick else []
            scenario = f"{ROOT}/examples/{experiment.scenario}.yaml"
            began = time.time()
            code, _, error = self.call("sweep", scenario, *quick, *changes, "--set", f"seed={done + 1}", "--repeat", str(goal - done), "--resume", "--quiet", "--json", out, "--report", f"{folder}/sweep.html")
            found["seconds"] = round(found.get("seconds", 0) + time.time() - began)
            try:
                swept = json.load(open(out))
            except FileNotFoundError:
                print(f"{name}: no result, exit code {code}: {error.strip()[-500:]}", file=sys.stderr, flush=True)
                return
        found["runs"] = [one for one in found["runs"] if one["seed"] <= done]
        for cell in swept["cells"]:
            values = {axis["key"]: axis["values"][place] for axis, place in zip(swept["axes"], cell["position"])}
            found["runs"] += [reduced(self.summary(one["run"]), values) for one in cell["runs"]]
        # Without a run of each combination, the same call completes it later.
        if code in (0, 3):
            found["turns"] = goal
        else:
            print(f"{name}: exit code {code}: {error.strip()[-500:]}", file=sys.stderr, flush=True)
        keep(found)

    def run(self, scenario, changes, seed):
        """The run's summary; `None` where it was interrupted or failed."""
        with tempfile.TemporaryDirectory() as folder:
            out = f"{folder}/out.json"
            changes = [argument for change in [f"seed={seed}", *changes] for argument in ("--set", change)]
            code, _, error = self.call("run", f"{ROOT}/examples/{scenario}.yaml", *changes, "--quiet", "--no-report", "--summary-json", out)
            if code in (0, 3, 99):
                return json.load(open(out))
        print(f"{scenario}: exit code {code}: {error.strip()[-500:]}", file=sys.stderr, flush=True)
        return None

    def beside(self, name, goal):
        """Runs of all candidates in turns, and the comparison of them."""
        found = kept(name, self.quick)
        common = FEW_SEGMENTS if self.quick else ALL_SEGMENTS
        common = [*common, "load.in_flight=[1, 5]", "load.hold=1h", "load.connect_rate=20000"]
        for turn in range(1, goal + 1):
            candidates = list(BESIDE)
            random.Random(turn).shuffle(candidates)
            for candidate in candidates:
                if self.is_over() or any(one["values"]["candidate"] == candidate and one["seed"] == turn for one in found["runs"]):
                    continue
                scenario, own = BESIDE[candidate]
                began = time.time()
                summary = self.run(scenario, common + own, turn)
                found["seconds"] = round(found.get("seconds", 0) + time.time() - began)
                if summary:
                    found["runs"].append(reduced(summary, {"candidate": candidate}))
                    keep(found)
        found["turns"] = min(sum(one["values"]["candidate"] == candidate for one in found["runs"]) for candidate in BESIDE)
        ids = [one["run"] for candidate in BESIDE for one in found["runs"] if one["values"]["candidate"] == candidate]
        with tempfile.TemporaryDirectory() as folder:
            out = f"{folder}/compared.json"
            code, _, error = self.call("compare", *ids, "--quiet", "--json", out) if len(ids) > 1 else (0, "", "")
            if os.path.exists(out):
                found["compared"] = named(json.load(open(out)), found["runs"])
            elif code:
                print(f"{name}: cannot compare: {error.strip()[-500:]}", file=sys.stderr, flush=True)
        keep(found)

    def day(self):
        """The same run again and again, to see what the time of day changes."""
        found = kept("day", self.quick)
        if time.time() - found.get("last", 0) < DAY:
            return
        changes = ["schedule=null", "platform.clean_up=false", "load.cycles=1", "load.hold=10m"]
        began = time.time()
        summary = self.run("work-b-through-the-day", changes + (["population.devices=4000"] if self.quick else []), len(found["runs"]) + 1)
        if summary:
            found["runs"].append(reduced(summary, {}))
            found["turns"], found["last"] = len(found["runs"]), round(time.time())
            found["seconds"] = round(found.get("seconds", 0) + time.time() - began)
            keep(found)


def named(compared, runs):
    """A comparison whose candidates have our names."""
    names = {one["run"]: one["values"]["candidate"] for one in runs}
    for candidate in compared["candidates"]:
        candidate["label"] = names[candidate["runs"][0]]
    return compared


def measure(options):
    bench = Bench(options)
    names = options.only.split(",") if options.only else list(EXPERIMENTS)
    goals = [QUICK_TURNS] if options.quick else GOALS
    for goal in goals:
        for name in names:
            experiment = EXPERIMENTS[name]
            wanted = min(goal, QUICK_TURNS if options.quick else experiment.turns, options.turns)
            if kept(name, options.quick)["turns"] >= wanted:
                continue
            if not bench.is_over():
                bench.day()
            if bench.is_over():
                return
            print(f"{time.strftime('%H:%M')} {name}, {wanted} of each", flush=True)
            if experiment.scenario:
                bench.sweep(name, experiment, wanted)
            else:
                bench.beside(name, wanted)
            write()


# --- Figures ---


class Results:
    """The runs of an experiment: those of the full form, else of the quick one."""

    def __init__(self, name):
        full, quick = kept(name, False), kept(name, True)
        self.name = name
        self.found = full if full["runs"] else quick
        self.runs, self.quick = self.found["runs"], self.found["quick"]

    def levels(self, where=None, in_flight=None, place=None):
        """A level of each run in which `values` are those, by the run's seed: that with so many in flight, or at that place."""
        chosen = {}
        for run in self.runs:
            if any(run["values"].get(key) != value for key, value in (where or {}).items()):
                continue
            levels = [one for one in run["levels"] if in_flight in (None, one.get("in_flight"))]
            if place is not None:
                levels = levels[place : place + 1]
            if levels:
                chosen[run["seed"]] = levels[0]
        return chosen

    def values(self, figure, where=None, in_flight=None, place=None):
        """The figure of each run whose level is valid and was measured to its end, by the run's seed."""
        found = {}
        for seed, level in self.levels(where, in_flight, place).items():
            value = figure(level) if level["validity"] == "valid" and level["finished"] else None
            if value is not None:
                found[seed] = value
        return found

    def in_flight(self):
        return sorted({one["in_flight"] for run in self.runs for one in run["levels"]})

    def segments(self):
        return max((one["due"] for run in self.runs for one in run["levels"]), default=0)


def total(level):
    return level.get("total_time")


def median_of(time):
    return lambda level: (level.get(time) or {}).get("p50")


def work(level):
    """Processor time of the platform for a message."""
    return level["platform_cpu"] * level["hold"] / level["sent"] if level.get("platform_cpu") else None


def student(freedom):
    """The 97.5 % quantile of Student's distribution, also for a fraction of a degree of freedom."""
    low, high = 1.0, 1e3
    for _ in range(100):
        middle = math.sqrt(low * high)
        if beta(freedom / (freedom + middle * middle), freedom / 2, 0.5) > 0.05:
            low = middle
        else:
            high = middle
    return high


def mean(values):
    """The geometric mean of positive values with its 95 % interval (Student, on logarithms); none with fewer than two."""
    logs = [math.log(value) for value in values if value > 0]
    if not logs:
        return None, None
    middle = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(middle), None
    half = student(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle), (math.exp(middle - half), math.exp(middle + half))


def ratio(one, other):
    """One / other with its 95 % interval (Welch, on logarithms)."""
    sides = [[math.log(value) for value in side.values() if value > 0] for side in (one, other)]
    if not all(sides):
        return None, None
    middle = statistics.fmean(sides[0]) - statistics.fmean(sides[1])
    if min(map(len, sides)) < 2:
        return math.exp(middle), None
    parts = [statistics.variance(side) / len(side) for side in sides]
    if sum(parts) == 0:
        return math.exp(middle), (math.exp(middle), math.exp(middle))
    freedom = sum(parts) ** 2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, sides))
    half = student(freedom) * math.sqrt(sum(parts))
    return math.exp(middle), (math.exp(middle - half), math.exp(middle + half))


def paired(one, other):
    """The ratio within each run."""
    return {seed: one[seed] / other[seed] for seed in one if other.get(seed)}


def over(many):
    """The arithmetic mean over several levels of each run, of which it has half at least."""
    seeds = set().union(*many)
    of = {seed: [one[seed] for one in many if seed in one] for seed in seeds}
    return {seed: statistics.fmean(values) for seed, values in of.items() if 2 * len(values) >= len(many)}


def judge(found, claimed):
    """What a ratio with its interval says of the one that was claimed."""
    middle, span = found
    if middle is None:
        return "not measured"
    if span is None:
        return "not decided"
    low, high = span
    holds = low <= claimed <= high
    if low <= 1 <= high:
        return "not decided" if holds else "refuted"
    if (low > 1) != (claimed > 1):
        return "refuted"
    return "confirmed" if holds else "refined"


def steady(found):
    """The same of a claim that it stays as it is: within a fifth."""
    middle, span = found
    if middle is None:
        return "not measured"
    if span is None:
        return "not decided"
    if SAME[0] <= span[0] and span[1] <= SAME[1]:
        return "confirmed"
    return "refuted" if span[1] < SAME[0] or span[0] > SAME[1] else "not decided"


def more(found):
    """The same of a claim without a size: that it is more, by more than a tenth."""
    middle, span = found
    if middle is None:
        return "not measured"
    if span is None:
        return "not decided"
    return "confirmed" if span[0] > MUCH else "refuted" if span[1] < MUCH else "not decided"


def number(value):
    """Three digits, without an exponent."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def spanned(found, write=number):
    middle, span = found
    if middle is None:
        return "–"
    return write(middle) + (f" ({write(span[0])} to {write(span[1])})" if span else " (one run)")


def times(found, claimed=None):
    """A ratio, beside the one that was claimed."""
    middle, _ = found
    if middle is None:
        return ""
    return f"x {spanned(found)}" + (f", not x {number(claimed)}" if claimed and judge(found, claimed) in ("refined", "refuted") else "")


def seconds(value):
    return f"{number(value)} s" if value >= 1 else f"{number(value * 1e3)} ms"


def cell(values, write=seconds):
    return spanned(mean(values.values()), write)


def table(head, rows):
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows), ""]


def size(results, messages=True):
    """Says of how many messages and runs the figures of a section are."""
    if not results.runs:
        return "Not measured yet."
    left_out = sum(one["validity"] != "valid" for run in results.runs for one in run["levels"])
    of = sum(len(run["levels"]) for run in results.runs)
    seeds = len({run["seed"] for run in results.runs})
    said = f"{seeds} run{'s' if seeds > 1 else ''} of each."
    if messages:
        said = f"{results.segments():,} messages a level{', the quick form' if results.quick else ''}; {said}"
    return said + (f" {left_out} of {of} levels measured this host, and are left out." if left_out else "")


# --- The page ---


def in_flight_rows(results, columns, figure=total, write=seconds):
    """A row for each number in flight; each column is a choice of runs."""
    return [[str(count), *(cell(results.values(figure, where, count), write) for where in columns)] for count in results.in_flight()]


def delay(value):
    return {"platform.relays.target.delay": value}


def mapping(value):
    return {"platform.mapping": value}


def balancer(value):
    return {"platform.balancers": value}


# Total times of the source, with one entity for each segment, by number in flight.
UPDATES = {1: 423, 5: 392}
BALANCERS = {"{}": "no proxy", "{ target: nginx }": "nginx", "{ target: nginx-auth }": "nginx, full with 100"}
DELAYS = {"0ms": "near", "10ms": "10 ms away"}
MAPPINGS = ("update", "create", "single")


def sooner(wild, where):
    """Total time of one request in flight / the mean of all levels with more, within each run."""
    parallel = [wild.values(total, where, count) for count in wild.in_flight() if count > 1]
    return mean(paired(wild.values(total, where, 1), over(parallel)).values())


def wild_section(wild):
    lines = ["## One after the other, and many at once", "", size(wild), ""]
    if not wild.runs:
        return lines
    heads = [f"total time, {name}" for name in DELAYS.values()] + [f"publish time, {name}" for name in DELAYS.values()]
    rows = in_flight_rows(wild, [delay(value) for value in DELAYS])
    medians = in_flight_rows(wild, [delay(value) for value in DELAYS], median_of("publish_time"))
    lines += table(["in flight", *heads], [one + more[1:] for one, more in zip(rows, medians)])
    lines += ["The total time is from the first request to the last answer. Of the publish time, it is the median. The way of 10 ms is", "each way's delay by a relay, in place of a public broker far away.", ""]
    return lines


def mappings_section(mappings, by_key):
    lines = [
        "## Three mappings, one to five requests in flight", "",
        "Each run has a new database. A request names no type of its entity, so the store looks at all entities.",
        f"[Orion's manual]({MANUAL}) describes such a case: Orion makes no index for ids, and leaves it to the administrator. By",
        "default, it also works on one request at a time. The source does not say whether its database had such an index. The second",
        "table has the same with requests that name the type, so that the store finds an entity by its key.", "",
    ]
    for results, title in ((mappings, "The store looks at all entities for each request"), (by_key, "The store finds an entity by its key")):
        lines += [f"### {title}", "", f"Total times. {size(results)}", ""]
        if results.runs:
            lines += table(["in flight", *MAPPINGS], in_flight_rows(results, [mapping(value) for value in MAPPINGS]))
    if mappings.runs:
        lines += ["Median publish time, where it looks at all:", ""]
        lines += table(["in flight", *MAPPINGS], in_flight_rows(mappings, [mapping(value) for value in MAPPINGS], median_of("publish_time")))
    return lines


def preloads(not_reset):
    """The two sizes of the database, as written: empty, and as after a run with an entity for each segment."""
    return sorted({run["values"]["platform.preload"] for run in not_reset.runs}, key=int)


def database_section(not_reset, cycles):
    lines = ["## The database: reset, and not reset", "", f"One entity for all segments, in an empty database and in one with the entities of another run. {size(not_reset)}", ""]
    if not_reset.runs:
        sizes = preloads(not_reset)
        heads = [f"{int(value):,} entities before" for value in sizes]
        lines += table(["in flight", *heads], in_flight_rows(not_reset, [{"platform.preload": value} for value in sizes]))
    lines += [f"Cycles after each other, without a reset between them, with five requests in flight. {size(cycles)}", ""]
    if cycles.runs:
        count = max(len(run["levels"]) for run in cycles.runs)
        rows = [[str(place + 1), *(cell(cycles.values(total, mapping(value), place=place)) for value in MAPPINGS)] for place in range(count)]
        lines += table(["cycle", *MAPPINGS], rows)
        lines += ["The first cycle has a database that was reset.", ""]
    return lines


def proxy_section(proxy):
    lines = ["## The proxy that causes retries", "", size(proxy), ""]
    if not proxy.runs:
        return lines
    rows = []
    for count in proxy.in_flight():
        row = [str(count), *(cell(proxy.values(total, balancer(value), count)) for value in BALANCERS)]
        again = proxy.values(lambda level: level["repeated"] / level["due"] * 100, balancer("{ target: nginx-auth }"), count)
        rows.append([*row, f"{statistics.fmean(again.values()):.0f}" if again else "–"])
    lines += table(["in flight", *BALANCERS.values(), "retries of 100 messages"], rows)
    causes = {}
    for value, name in BALANCERS.items():
        said = [level.get("total_because") for run in proxy.runs if run["values"] == balancer(value) for level in run["levels"] if level.get("total_because") not in (None, "no_rise")]
        causes[name] = ", ".join(f"{cause} ({said.count(cause)})" for cause in sorted(set(said))) or "none"
    lines += ["The last column belongs to the full proxy. Why a total time is longer than that of the lowest level, as the reports say:", ""]
    lines += table(["proxy", "rose with, in so many levels"], [[name, cause] for name, cause in causes.items()])
    return lines


def difference(row, place):
    """What the comparison says of a candidate, beside the first one."""
    if place == 0 or not row["differences"]:
        return ""
    of = row["differences"][place - 1]
    first = statistics.fmean(row["values"][0]) if row["values"][0] else 0
    said = {"not_distinguishable": "not distinguishable", "run_once": "run once", "not_in_turns": "not in turns", "not_in_all_runs": "not in all runs"}.get(of["finding"], of["finding"])
    if of["finding"] in ("higher", "lower") and first:
        said += ": " + " to ".join(f"{bound / first * 100:+.1f} %" for bound in of["ci95"])
    return "" if of["finding"] == "absent" else f" ({said})"


def amount(unit, values):
    if not values:
        return "–"
    middle = statistics.fmean(values)
    return {"seconds": seconds, "per_second": lambda it: f"{number(it)}/s", "bytes": lambda it: f"{it:,.0f} B", "share": lambda it: f"{it * 100:.2f} %"}[unit](middle)


def beside_section(beside):
    compared = beside.found.get("compared")
    lines = ["## oneM2M over three bindings, beside a context broker", "", size(beside), ""]
    if not beside.runs:
        return lines
    names = [name for name in BESIDE if any(run["values"]["candidate"] == name for run in beside.runs)]
    lines += ["Total time and notifications:", ""]
    rows = []
    for count in beside.in_flight():
        for name in names:
            where = {"candidate": name}
            levels = beside.levels(where, count).values()
            expected, lost = sum(one["expected_deliveries"] for one in levels), sum(one["lost"] for one in levels)
            both = beside.values(lambda level: (level.get("publish_minus_subscribe") or {}).get("negative"), where, count)
            rows.append([
                str(count), name, cell(beside.values(total, where, count)), cell(beside.values(median_of("publish_time"), where, count)), cell(beside.values(median_of("subscribe_time"), where, count)),
                f"{statistics.fmean(both.values()) * 100:.0f} %" if both else "–", cell(beside.values(work, where, count)), f"{lost:,} of {expected:,}",
            ])
    lines += table(["in flight", "", "total time", "publish time, median", "subscribe time, median", "answered before notified", "processor time of a message", "lost"], rows)
    if compared:
        places = {candidate["label"]: place for place, candidate in enumerate(compared["candidates"])}
        chosen = [name for name in names if name in places]
        lines += [f"As `plimsoll compare` has it, with differences of the bindings from {compared['candidates'][0]['label']} and their 95 % intervals:", ""]
        rows = []
        for row in compared["rows"]:
            if row["level"] is None or not any(row["values"]):
                continue
            rows.append([row["level"], row["quantity"], *(amount(row["unit"], row["values"][places[name]]) + ("" if name.startswith("NGSI") else difference(row, places[name])) for name in chosen)])
        lines += table(["level", "quantity", *chosen], rows)
    return lines


def subscriptions_section(subscriptions):
    lines = ["## What several subscriptions cost the publisher", "", f"100 segments over HTTP, one request in flight, for 5 s. {size(subscriptions, messages=False)}", ""]
    if not subscriptions.runs:
        return lines
    columns = [{"population.subscribers": value} for value in ("1", "4")]
    figures = [("achieved", lambda level: level.get("achieved"), lambda it: f"{number(it)}/s"), ("publish time, median", median_of("publish_time"), seconds), ("subscribe time, median", median_of("subscribe_time"), seconds)]
    rows = [[name, *(cell(subscriptions.values(figure, where), write) for where in columns)] for name, figure, write in figures]
    return lines + table(["quantity", "1 subscriber", "4 subscribers"], rows)


def day_section(day):
    lines = ["## Through the day", "", f"The same run, between the others. {size(day)}".replace("of each", "in all"), ""]
    if not day.runs:
        return lines
    rows = []
    for run in day.runs:
        by = {level["in_flight"]: level for level in run["levels"] if level["validity"] == "valid"}
        one, five = by.get(1), by.get(5)
        rows.append([run["started"][:16].replace("T", " "), *(seconds(level["total_time"]) if level and level.get("total_time") else "–" for level in (one, five)), *(seconds(level["publish_time"]["p50"]) if level else "–" for level in (one, five)), str(sum(level["repeated"] for level in run["levels"]))])
    lines += table(["begun (UTC)", "total time, 1 in flight", "5 in flight", "publish time, median, 1 in flight", "5 in flight", "retries"], rows)
    lines += ["`plimsoll run examples/work-b-through-the-day.yaml` does this by the clock, for three days. A platform on this host has no", "other users, so a time of day has no reason to differ.", ""]
    return lines


def findings(of):
    """Each finding of the source: what it is, the word on it, the figures, and why."""
    wild, mappings, by_key, not_reset, cycles, proxy, beside, day = (of[name] for name in ("wild", "mappings", "mappings-by-key", "not-reset", "cycles", "proxy", "onem2m", "day"))
    rows = []

    def add(found, verdicts, why):
        """Several figures may say something of a finding: each has its word."""
        verdicts = list(verdicts) or [("", "not measured", "")]
        rows.append([found, "; ".join(f"{f'{name}: ' if name else ''}**{word}**{f', {said}' if said else ''}" for name, word, said in verdicts), why])

    def claim(name, found, claimed):
        return name, judge(found, claimed), times(found, claimed)

    def candidate(name, figure, count):
        return beside.values(figure, {"candidate": name}, count)

    def against(one, other, figure, claimed):
        """Of two candidates, at each number in flight; `claimed` is one ratio, or has one for each number."""
        size = claimed.get if isinstance(claimed, dict) else lambda _: claimed
        return [claim(f"{count} in flight", ratio(candidate(one, figure, count), candidate(other, figure, count)), size(count)) for count in beside.in_flight()]

    def by_mapping(results, claimed):
        """Of a mapping and of updates, at one and at five in flight; `claimed`: the mapping and its totals there, by number in flight."""
        name, totals = claimed
        return [claim(f"{count} in flight", ratio(results.values(total, mapping(name), count), results.values(total, mapping("update"), count)), totals[count] / UPDATES[count]) for count in results.in_flight() if count in totals]

    def at_once(results, where):
        return ratio(results.values(total, where, 5), results.values(total, where, 1))

    publish = median_of("publish_time")
    add("FIWARE takes 64 min one after the other, 12.8 times as long as many at once", [claim(name, sooner(wild, delay(value)), 12.8) for value, name in DELAYS.items()], "one request waits for the way and for the broker; many at once wait for its four workers alone; so the factor grows with the way")
    add("with 500 at once instead of 50, a publish takes 11.7 times as long", [claim(name, ratio(wild.values(publish, delay(value), 500), wild.values(publish, delay(value), 50)), 11.7) for value, name in DELAYS.items()], "what is beyond the workers waits; the way is part of both times")
    add("MQTT has 9.6 times the publish time of HTTP", against("MQTT", "HTTP", publish, 9.6), works(beside, "MQTT"))
    add("the same with notifications over MQTT, as there", against("MQTT both ways", "HTTP", publish, 9.6), works(beside, "MQTT both ways"))
    add("CoAP is 1.1 % better than HTTP", against("CoAP", "HTTP", publish, 0.989), works(beside, "CoAP"))
    single, create = ("single", {1: 65, 5: 30}), ("create", {1: 223, 5: 167})
    add("one entity for all is 6.5 to 13 times as fast as one for each (x 0.15 with one in flight, x 0.077 with five)", by_mapping(mappings, single), "the store looks at all entities: at one, or at one for each segment")
    add("the same, if the store finds an entity by its key", by_mapping(by_key, single), "the number of entities does not matter then")
    add("a new entity for each message takes half of the time of updates (x 0.53 and x 0.43)", by_mapping(mappings, create), "the database is empty at first, so on average half as many entities are looked at")
    add("five at once do not shorten FIWARE's total time (423 s to 392 s)", [(name, steady(found), times(found)) for name, found in (("all looked at", at_once(mappings, mapping("update"))), ("found by key", at_once(by_key, mapping("update"))))], "the store works on one command at a time")
    add("five at once shorten that of oneM2M (118 s to 37 s over HTTP)", [claim(name, at_once(beside, {"candidate": name}), claimed) for name, claimed in (("HTTP", 37 / 118), ("CoAP", 35 / 117), ("MQTT", 358 / 755))], "the entity here is one process of Python, that of the source one of Java")
    for name in ("NGSI in memory", "NGSI with the store"):
        add(f"oneM2M over HTTP takes x 0.28 (one in flight) to x 0.094 (five) of FIWARE's time; here beside {name}", against("HTTP", name, total, {1: 118 / 423, 5: 37 / 392}), "neither entity nor broker is that of the source: this compares two other programs")
    sizes = preloads(not_reset)
    grown = [(f"{count} in flight", ratio(not_reset.values(total, {"platform.preload": sizes[-1]}, count), not_reset.values(total, {"platform.preload": sizes[0]}, count))) for count in not_reset.in_flight()]
    add("one entity in a database that was not reset is much slower", [(name, more(found), times(found)) for name, found in grown], "the store looks at the entities of the earlier run, too")
    last = max((len(run["levels"]) for run in cycles.runs), default=1) - 1
    aged = {value: mean(paired(cycles.values(total, mapping(value), place=last), cycles.values(total, mapping(value), place=0)).values()) for value in MAPPINGS}
    add(f"the same from cycle to cycle: {f'cycle {last + 1}' if last else 'the last one'} is slower than the first", [(value, more(found), times(found)) for value, found in aged.items()], "only `create` makes the database larger")
    add("retries come from the authenticating proxy, and the total time is longer for it", retried(proxy), "100 requests are let through; the others are sent again, after pauses that double")

    def content(part):
        return lambda level: ((level.get("sizes") or {}).get(part) or {}).get("content")

    def packet(level):
        return level.get("publication_size")

    parts = (("content, MQTT / HTTP", "MQTT", content("request"), 349 / 235), ("packet, CoAP / HTTP", "CoAP", packet, 312 / 536), ("packet, MQTT / HTTP", "MQTT", packet, 385 / 536))
    add("sizes differ by binding (content over MQTT 349 B, over HTTP 235 B; packets over HTTP 536 B, over MQTT 385 B, over CoAP 312 B)", [claim(name, ratio(candidate(binding, figure, 1), candidate("HTTP", figure, 1)), claimed) for name, binding, figure, claimed in parts], "MQTT's primitive has in JSON what HTTP and CoAP have in headers and options")
    answers = {name: statistics.fmean(found.values()) if (found := candidate(name, content("response"), 1)) else None for name in ("HTTP", "NGSI in memory")}
    add("oneM2M's answer has 465 B of content, FIWARE's has none", [("", echoes(answers), ", ".join(f"{name} {value:,.0f} B" for name, value in answers.items() if value is not None))], "the entity answers with the resource that it made; the standard allows an answer without it")
    add("over CoAP, deliveries stop after almost 1,000 publishes", [stops(beside)], "the source saw an error of OM2M's database")
    add("a notification comes before or after the answer", [(name, *both_signs(candidate(name, lambda level: (level.get("publish_minus_subscribe") or {}).get("negative"), 5))) for name in ("HTTP", "NGSI in memory")], "the NGSIv2 target has threads for notifications; ACME was not looked into")
    add("retries grow through the day", [through_the_day(day)], "the source's broker was public, and its proxy refused more and more; here, no proxy is in front")
    return rows


def works(beside, name):
    """What the platform works on a message over HTTP and over another binding: most of the publish time, or little of it."""
    took = [mean(beside.values(work, {"candidate": one}, 1).values())[0] for one in ("HTTP", name)]
    if None in took:
        return "–"
    took = [seconds(one) for one in took]
    return f"processor time of a message with one in flight: {took[0]} over HTTP; {took[1]} over {name}"


def retried(proxy):
    if not proxy.runs:
        return [("", "not measured", "")]
    full = balancer("{ target: nginx-auth }")

    def again(where, counts):
        return [level["repeated"] for count in counts for level in proxy.levels(where, count).values()]

    below = [count for count in proxy.in_flight() if count <= 100]
    beyond = [count for count in proxy.in_flight() if count > 100]
    elsewhere = sum(again(balancer("{}"), proxy.in_flight())) + sum(again(balancer("{ target: nginx }"), proxy.in_flight())) + sum(again(full, below))
    own = again(full, beyond)
    word = "confirmed" if own and min(own) > 0 and elsewhere == 0 else "refuted" if not any(own) else "refined"
    words = [("retries", word, f"{min(own, default=0):,} to {max(own, default=0):,} a level beyond 100, {elsewhere:,} elsewhere")]
    for count in beyond[-1:]:
        found = ratio(proxy.values(total, full, count), proxy.values(total, balancer("{ target: nginx }"), count))
        words.append((f"total time, {count} in flight", more(found), times(found)))
    said = [level["total_because"] for run in proxy.runs if run["values"] == full for level in run["levels"] if level["in_flight"] > 100 and level.get("total_because") not in (None, "no_rise")]
    blamed = sum("retries" == cause or "both" == cause for cause in said)
    words.append(("what the reports blame", "confirmed" if said and blamed == len(said) else "not decided" if not said else "refined" if blamed else "refuted", f"retries in {blamed} of {len(said)} levels"))
    return words


def echoes(answers):
    entity, broker = answers["HTTP"], answers["NGSI in memory"]
    if entity is None or broker is None:
        return "not measured"
    return "confirmed" if entity > 0 and broker == 0 else "refuted" if entity == 0 else "refined"


def stops(beside):
    levels = [level for run in beside.runs if run["values"]["candidate"] == "CoAP" for level in run["levels"] if level["finished"]]
    published, lost = sum(level["sent"] for level in levels), sum(level["lost"] for level in levels)
    long = [run for run in beside.runs if run["values"]["candidate"] == "CoAP" and sum(level["sent"] for level in run["levels"]) > 1000]
    if not levels:
        return "", "not measured", ""
    if not long:
        return "", "not decided", "no run has 1,000 publishes"
    word = "refuted" if lost == 0 else "confirmed" if lost > 0.9 * (published - 1000 * len(long)) else "refined"
    return "", word, f"{lost:,} of {published:,} not delivered"


def both_signs(shares):
    if not shares:
        return "not measured", ""
    low, high = min(shares.values()), max(shares.values())
    word = "confirmed" if low > 0.01 and high < 0.99 else "refuted" if high <= 0.01 or low >= 0.99 else "refined"
    return word, f"the answer is first in {low * 100:.0f} to {high * 100:.0f} %"


def through_the_day(day):
    if not day.runs:
        return "", "not measured", ""
    begins = sorted(time.mktime(time.strptime(run["started"][:19], "%Y-%m-%dT%H:%M:%S")) for run in day.runs)
    hours = (begins[-1] - begins[0]) / 3600
    again = sum(level["repeated"] for run in day.runs for level in run["levels"])
    word = "not decided" if hours < 8 else "refuted" if again == 0 else "refined"
    return "", word, f"{again:,} retries in {len(day.runs)} run{'s' if len(day.runs) > 1 else ''} within {hours:.1f} hours, without a proxy"


UNSHOWN = [
    ("the times of Orion, OM2M and a public FIWARE broker", "none of them can be had here; the NGSIv2 target and ACME stand in their place, and figures compare programs, not standards"),
    ("what MongoDB does with a larger database", "the target's store has one lock and no index but the key; a look at all entities is its worst case"),
    ("64 min", "the way to the source's broker is unknown; a relay of 10 ms each way shows how the factor grows"),
    ("a client library that uses two connections at most", "Plimsoll has as many connections as messages in flight, and refuses a load that needs more"),
    ("the virtual machine modes of Java", "nothing of this is in Java"),
    ("the growth of retries from morning to night", "the source's proxy was public, and nobody knows why it grew"),
    ("documentation and community", "no measurement; the profiles have a line on each"),
]


def qualities(beside):
    """What the profiles say beside numbers, as the comparison has it."""
    compared = beside.found.get("compared")
    if not compared:
        return []
    columns = {}
    for candidate in compared["candidates"]:
        shown_as = {"HTTP": "oneM2M", "NGSI in memory": "NGSIv2"}.get(candidate["label"])
        if shown_as:
            columns[shown_as] = candidate["qualities"]
    names = sorted({name for of in columns.values() for name in of})
    lines = ["## The qualitative side", "", "The profiles have it, from the source and from the documents of the platforms. No run examines it.", ""]
    lines += table(["", *columns], [[name, *(of.get(name, "–").replace("|", "\\|") for of in columns.values())] for name in names])
    lines += ["- **Limits.** Orion takes requests of 1 MB and sends notifications of 8 MB at most. So all segments cannot be one", "  resource. The target has the same limits, and answers 413 to a larger request.", ""]
    return lines


def write():
    names = [*EXPERIMENTS, "day"]
    of = {name: Results(name) for name in names}
    runs = [run for results in of.values() for run in results.runs]
    spent = sum(results.found.get("seconds", 0) for results in of.values()) / 3600
    quick = [name for name in names if of[name].runs and of[name].quick]
    lines = [
        "# Work B: a city's data to context brokers and oneM2M, measured here",
        "",
        "[Work B](../metrics.md#sources) publishes the traffic speed of all 19,884 street segments of Porto, by two kinds of",
        "middleware. How long does that take one after the other and many at once, over which binding, and by which mapping?",
        "And what do a database that is not reset and a full proxy change? This command runs all of it and writes this page:",
        "",
        "    bench/work_b.py --quick",
        "    bench/work_b.py",
        "",
        "- **Platforms.** FIWARE's place is taken by the NGSIv2 [target](../targets.md#the-ngsiv2-target), in memory with four workers",
        "  of 1 ms, and before a [document store](../targets.md#document-stores) where the database matters. The figures say nothing of",
        "  Orion. oneM2M is a real ACME 2026.5.3 in memory, for MQTT behind a real Mosquitto. The proxy is a real nginx.",
    ]
    if runs:
        host, started = runs[0]["host"], sorted(run["started"][:16].replace("T", " ") for run in runs)
        lines.append(f"- **Host.** Load and platform share {host['cores']} processors ({host['processor']}, Linux {host['kernel']}, {host['memory']}).")
        lines.append(f"- **Runs.** There are {len(runs)}, from {started[0]} to {started[-1]} UTC, {spent:.1f} hours in all. They go in turns, and each starts its platform afresh.")
    lines += [
        "- **Load.** A fixed number of requests is in flight. A level ends when each segment was sent once. One subscriber follows all.",
        "- **Figures** are geometric means over runs, with 95 % intervals in brackets (Student's t on logarithms). Levels that measured",
        "  this host are left out.",
    ]
    if quick:
        lines.append(f"- **Quick form.** These experiments were run with fewer segments: {', '.join(quick)}.")
    lines.append("")
    lines += wild_section(of["wild"]) + mappings_section(of["mappings"], of["mappings-by-key"]) + database_section(of["not-reset"], of["cycles"])
    lines += proxy_section(of["proxy"]) + beside_section(of["onem2m"]) + subscriptions_section(of["subscriptions"]) + day_section(of["day"]) + qualities(of["onem2m"])
    lines += [
        "## What the source found, and what this found", "",
        "The words hold for the programs that were measured here, which are not those of the source. They follow from the figures by a",
        "rule. A finding is a ratio. Here, it has a 95 % interval over runs:", "",
        "- **confirmed**: the interval excludes 1 on the source's side, and has the source's ratio in it",
        "- **refined**: it excludes 1 on the source's side, but the ratio is another one",
        "- **refuted**: it excludes 1 on the other side, or has 1 in it and not the source's ratio",
        "- **not decided**: it has both in it, or there is one run only",
        "",
        f"A finding without a size is confirmed if the interval is above {MUCH}, and refuted if it is below. *Does not shorten* is confirmed",
        f"within {SAME[0]} and {SAME[1]}, and refuted outside. Findings that are counts have a rule of their own in `bench/work_b.py`.",
        "",
    ]
    lines += table(["the source found", "here", "why"], findings(of))
    lines += ["FIWARE lacks UNI.405 of IoT-A, and oneM2M lacks UNI.405 and UNI.406: taken from the source, and not examined here.", ""]
    lines += ["## What these platforms cannot show", ""] + table(["what", "why"], UNSHOWN)
    lines += ["An [earlier comparison](work-b/earlier.md) has the three bindings with 200 segments."]
    open(PAGE, "w").write("\n".join(wrapped(lines)) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--only", help=", ".join(EXPERIMENTS))
    parser.add_argument("--turns", type=int, default=max(GOALS))
    parser.add_argument("--hours", type=float, default=math.inf)
    options = parser.parse_args()
    os.makedirs(KEPT, exist_ok=True)
    if options.page:
        return write()
    # What it has started ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Two at once would disturb each other. The lock ends with this program.
    try:
        fcntl.flock(os.open(KEPT, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"{sys.argv[0]} runs already: its figures would be disturbed")
    measure(options)
    write()


if __name__ == "__main__":
    main()
