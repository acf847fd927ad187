#!/usr/bin/env python3
"""Repeats work A whole on one host, by Plimsoll: agents, broker and database that grow, and what each costs.

    bench/work_a.py [--form quick|middle|long] [--runs 3] [--only NAME,...] [--hours HOURS] [--write]

The platform is the profile work-a-target: real agents before the NGSIv2 target and its document stores. Sizes are quotas, a
twenty-fifth of a processor for each of the source. Runs go in turns: every configuration once, in an order that is shuffled, then
again. A result is kept in docs/results/work-a/FORM/ as JSON, and what has one is not run again; delete the file to do so. `--hours`
begins no run after that time. `--write` makes docs/results/work-a.md of all results of the form. `quick` holds levels for 3 to 5 s,
leaves out some configurations and the large messages, and takes half an hour. `middle` holds them for 10 s, leaves out the large
messages, and takes some three hours. `long`, the default, holds them for 60 to 180 s as the source does, and takes some 30 hours. The
last two are estimates. Nothing else should run meanwhile. Before: `cargo build --release`, `source scripts/peers`.
"""
import argparse, glob, json, math, os, random, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PLIMSOLL = os.path.join(os.environ.get("CARGO_TARGET_DIR", f"{ROOT}/target"), "release/plimsoll")
RESULTS = f"{ROOT}/docs/results/work-a"
PAGE = f"{ROOT}/docs/results/work-a.md"
# Processors of the source's instances, each of which is so much of one here.
SCALE = 0.04
PROCESSORS = {"m4.large": 2, "c4.xlarge": 4, "c4.2xlarge": 8, "i3.large": 2, "i3.xlarge": 4}
# How long a read and a write hold the lock of a store: it waits meanwhile, so more processors do not help it.
STORE = {"read": "400us", "write": "1200us", "work": "wait"}
AGENTS = {"LwM2M": "lwm2m", "MQTT": "mqtt-group"}
SIZES = [32, 1000]
# Configuration: title, the broker's instances, the database's, what else of the platform, agents that have it.
ROWS = {
    "baseline": ("baseline", ["m4.large"], ["m4.large"], {}, AGENTS),
    "database": ("larger database", ["m4.large"], ["i3.xlarge"], {}, AGENTS),
    "broker-2": ("broker of twice the size", ["c4.xlarge"], ["m4.large"], {}, AGENTS),
    "broker-4": ("broker of four times the size", ["c4.2xlarge"], ["m4.large"], {}, AGENTS),
    "both": ("larger broker and database", ["c4.xlarge"], ["i3.xlarge"], {}, AGENTS),
    "brokers": ("two brokers behind HAProxy", ["m4.large"] * 2, ["m4.large"], {
        "replicas": {"broker": 2}, "balancers": {"broker": {"by": "haproxy", "policy": "round_robin", "mode": "tcp"}},
    }, AGENTS),
    "agents": ("two agents", ["m4.large"], ["m4.large"], {"replicas": {"agent": 2}}, ["MQTT"]),
    "shards": ("two shards behind a router", ["m4.large"], ["m4.large"] * 3, {}, AGENTS),
    "shards-2": ("two shards, broker of twice the size", ["c4.xlarge"], ["m4.large"] * 3, {}, AGENTS),
}
# Those whose levels the source shows one by one, and both sizes of messages.
COURSES = ["baseline", "shards-2"]
LEVELS = list(range(100, 1101, 100))


def platform(row, agent):
    _, brokers, databases, more, _ = ROWS[row]
    quota = lambda kind: {"processors": round(PROCESSORS[kind] * SCALE, 3), "period": "20ms"}
    sharded = len(databases) > 1
    stores = ["store1", "store2"] if sharded else ["store1"]
    quotas = {"broker": quota(brokers[0])} | {store: quota(databases[0]) for store in stores}
    database = "{port:router}" if sharded else "{port:store1}"
    return {"profile": "work-a-target", "mapping": AGENTS[agent], "with": STORE | {"database": database}, "quotas": quotas} | more


def prices(row):
    """The source leaves agents and balancer out. A router stands for the third instance of the database."""
    _, brokers, databases, _, _ = ROWS[row]
    sharded = len(databases) > 1
    of = lambda name, used: {name: databases[0] if used else 0}
    parts = {"broker": brokers[0]} | of("store1", True) | of("store2", sharded) | of("router", sharded)
    return {"currency": "USD", "file": "prices-work-a.csv", "components": parts}


def scenario(row, agent, size, load):
    return {
        "name": f"work-a-{row}",
        "description": ROWS[row][0],
        "platform": platform(row, agent),
        "population": {"devices": 100, "subscribers": 1},
        "message": {"size": size},
        "northbound": {"rate": "80/s"},
        "load": {"arrivals": "poisson"} | load,
        "objectives": {"delivered": ">= 99.9 %", "query_p95": "< 50 ms", "subscribe_p95": "< 1 s", "publish_p99": None, "subscribe_p99": None},
        "prices": prices(row),
    }


class Form:
    """How long levels are held, and what is left out."""

    def __init__(self, name, search, course, without=(), sizes=SIZES):
        self.name, self.search, self.course, self.without, self.sizes = name, search, course, without, sizes
        self.folder = f"{RESULTS}/{name}"

    def has(self, row, size):
        return row not in self.without and size in self.sizes


def searched(time, **holds):
    return {"search": {"from": 300, "to": 3000, "tolerance": "5 %", "time": time}} | holds


FORMS = {form.name: form for form in [
    Form(
        "quick", searched("60s", warm_up="1500ms", hold="3s", samples=10, drain="2s"),
        {"levels": LEVELS[1::2], "warm_up": "2s", "hold": "5s", "samples": 10, "drain": "2s", "again": "0s"}, ["broker-4", "both"], [32],
    ),
    Form(
        "middle", searched("150s", warm_up="3s", hold="10s", samples=10, drain="3s"),
        {"levels": LEVELS[1::2], "warm_up": "3s", "hold": "15s", "samples": 15, "drain": "3s", "again": "0s"}, [], [32],
    ),
    Form(
        "long", searched("15m", warm_up="10s", hold="60s", samples=30),
        {"levels": LEVELS, "idle_before": "120s", "warm_up": "10s", "hold": "180s", "samples": 30},
    ),
]}
# The one whose results are read and written.
FORM = FORMS["long"]


def cases():
    """Name of each result, with its configuration, agent, size, and whether all levels are run."""
    found = {}
    for row, (*_, agents) in ROWS.items():
        for agent in agents:
            found[f"line-{row}-{agent}-32"] = (row, agent, 32, False)
    for row in COURSES:
        for agent in AGENTS:
            for size in SIZES:
                found[f"levels-{row}-{agent}-{size}"] = (row, agent, size, True)
                found[f"line-{row}-{agent}-{size}"] = (row, agent, size, False)
    return found


def run(name, number):
    row, agent, size, whole = cases()[name]
    with tempfile.TemporaryDirectory() as work:
        with open(f"{ROOT}/examples/prices-work-a.csv") as table, open(f"{work}/prices-work-a.csv", "w") as copy:
            copy.write(table.read())
        # JSON is YAML.
        with open(f"{work}/scenario.yaml", "w") as file:
            json.dump(scenario(row, agent, size, FORM.course if whole else FORM.search), file)
        call = [PLIMSOLL, "run", "scenario.yaml", "--store", "runs.db", "--summary-json", "summary.json", "--set", f"seed={number}"]
        ended = subprocess.run(call, cwd=work, capture_output=True, text=True)
        try:
            with open(f"{work}/summary.json") as file:
                summary = json.load(file)
        except (OSError, json.JSONDecodeError):
            print(f"{name}: {ended.stderr[-500:]}", file=sys.stderr)
            return None
    keep = ("verdict", "reason", "load_line", "limits", "cost", "laws")
    figures = ("offered", "verdict", "validity", "reasons", "achieved", "expected_deliveries", "delivered", "platform_cpu", "platform_memory", "publish_time", "subscribe_time", "query_time", "queries", "death")
    return {"form": FORM.name, "number": number} | {key: summary.get(key) for key in keep} | {
        "levels": [{key: level.get(key) for key in figures} for level in summary["levels"]],
        "components": summary.get("components"),
    }


def kept(name):
    found = []
    for path in sorted(glob.glob(f"{FORM.folder}/{name}-run*.json")):
        with open(path) as file:
            found.append(json.load(file))
    return found


def rate(result):
    """The load line of a run, and how much higher it may lie, as a logarithm (`None` if no level above it missed); `None` without one."""
    line = result["load_line"]
    if not line or not line["rate"]:
        return None
    return line["rate"], math.log(line["below"] / line["rate"]) if line["below"] else None


def interval(values):
    """Mean and half of its 95 % interval, by Student's law; no interval of one value."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return mean, None
    # Quantiles of Student's law at 97.5 % for 1 to 9 degrees of freedom.
    student = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26]
    t = student[min(len(values) - 1, len(student)) - 1]
    return mean, t * statistics.stdev(values) / math.sqrt(len(values))


def ratio(before, after):
    """How much one is of the other, at least and at most, as sweeps have it: 95 % confidence (Welch on logarithms), and wider by as
    far as a load line may lie above the level that was met. Either end is `None` where it is not known, as where a run has none."""
    if min(len(before), len(after)) < 2 or None in before + after:
        return None, None
    logs = [[math.log(line) for line, _ in found] for found in (before, after)]
    rooms = [None if None in (found := [room for _, room in lines]) else statistics.mean(found) for lines in (before, after)]
    spread = [statistics.variance(values) / len(values) for values in logs]
    difference = statistics.mean(logs[1]) - statistics.mean(logs[0])
    total = sum(spread)
    freedom = total**2 / sum(part**2 / (len(values) - 1) for part, values in zip(spread, logs)) if total else 1e9
    # Student's quantile at 97.5 % (Hill, 1970, its first terms), good to 1 % from two degrees of freedom on.
    t = 1.96 + 2.37 / freedom + 2.82 / freedom**2 + 2.56 / freedom**3
    half = t * math.sqrt(total)
    least = None if rooms[0] is None else math.exp(difference - half - rooms[0])
    return least, None if rooms[1] is None else math.exp(difference + half + rooms[1])


def lines(row, agent, size=32):
    """Those of all runs; `None` for a run without one."""
    return [rate(result) for result in kept(f"line-{row}-{agent}-{size}")]


def known(row, agent):
    return [found[0] for found in lines(row, agent) if found]


def between(found):
    """A ratio in words."""
    low, high = found
    if low is None and high is None:
        return "not known"
    if low is None or high is None:
        return f"{low:.2f} times at least" if high is None else f"{high:.2f} times at most"
    return f"{low:.2f} to {high:.2f} times"


def shown(values):
    if not values:
        return "–"
    mean, half = interval(values)
    return f"{mean:,.0f}" + (f" ± {half:,.0f}" if half is not None else "")


def limit(row, agent, size=32):
    """What limits in most runs, and in how many of them."""
    found = [(result["limits"] or [{}])[0] for result in kept(f"line-{row}-{agent}-{size}")]
    named = [one.get("component") or " and ".join(one.get("components") or []) or "–" for one in found]
    if not named:
        return "–"
    most = max(set(named), key=named.count)
    return most if most == "–" else f"{most} ({named.count(most)} of {len(named)})"


def cost(row, agent):
    results = kept(f"line-{row}-{agent}-32")
    return results[0]["cost"]["total"] if results else None


def change(row, agent):
    """What the load line is of the baseline's, in words."""
    found = ratio(lines("baseline", agent), lines(row, agent))
    if row == "baseline":
        return "–"
    low, high = found
    if low is None and high is None:
        return "not known"
    both = low is not None and high is not None
    word = "higher, " if low and low > 1 else "lower, " if high and high < 1 else "not distinguishable, " if both else ""
    return word + between(found)


def configurations():
    rows = ["| configuration | agent | load line, /s | of the baseline | what limits | USD a month | /s for a USD |", "|---|---|---|---|---|---|---|"]
    for row, (title, *_, agents) in ROWS.items():
        for agent in agents:
            values, price = known(row, agent), cost(row, agent)
            if not price:
                continue
            efficiency = shown_small([value / price for value in values])
            none = sum(found is None for found in lines(row, agent))
            without = f", none in {none} of {none + len(values)} runs" if none else ""
            rows.append(f"| {title} | {agent} | {shown(values)}{without} | {change(row, agent)} | {limit(row, agent)} | {price:.2f} | {efficiency} |")
    return rows


def shown_small(values):
    if not values:
        return "–"
    mean, half = interval(values)
    return f"{mean:.2f}" + (f" ± {half:.2f}" if half is not None else "")


def milliseconds(time, quantile):
    value = (time or {}).get(quantile)
    return "–" if value is None else f"{value * 1e3:,.3g}"


def courses():
    out = []
    for row in COURSES:
        for agent in AGENTS:
            for size in SIZES:
                results = kept(f"levels-{row}-{agent}-{size}")
                if not results:
                    continue
                out += [f"### {ROWS[row][0].capitalize()}, {agent}, {size} bytes", ""]
                out += ["| offered, /s | delivered | query, median | 95 % | subscribe time, median | 95 % | agent | broker | store | platform |", "|---|---|---|---|---|---|---|---|---|---|"]
                result = results[0]
                for number, level in enumerate(result["levels"]):
                    share = level["delivered"] / level["expected_deliveries"] if level["expected_deliveries"] else 0
                    used = [busy(result, name, number) for name in ("leshan" if agent == "LwM2M" else "agent", "broker", "store1")]
                    times = [milliseconds(level[time], quantile) for time in ("query_time", "subscribe_time") for quantile in ("p50", "p95")]
                    out.append(f"| {level['offered']:,.0f} | {share:.2%} | " + " | ".join([*times, *used, f"{level['platform_cpu']:.0%}" if level["platform_cpu"] else "–"]) + " |")
                    if level["death"]:
                        out.append(f"| | {level['death']['component']} died | | | | | | | | |")
                out.append("")
    return out


def busy(result, name, number):
    """Share of its processors that a component used in a level."""
    for law in result["laws"] or []:
        if law["component"] == name:
            used = [level["used"] for level in law["levels"] if level["level"] == number]
            return f"{used[0]:.0%}" if used else "–"
    return "–"


def findings():
    """Each finding of the source, and what came of it here. The words follow from the figures."""

    def judged(row, least, most):
        """Whether the load line is so many times the baseline's, at least and at most, by agent."""
        said = []
        for agent in ROWS[row][4]:
            if not lines(row, agent):
                continue
            low, high = ratio(lines("baseline", agent), lines(row, agent))
            is_within = low is not None and high is not None and least <= low and high <= most
            is_outside = low is not None and low > most or high is not None and high < least
            # What lies on one side alone needs no other end.
            is_above = most == math.inf and low is not None and low >= least
            is_below = least == 0 and high is not None and high <= most
            word = "confirmed" if is_within or is_above or is_below else "refuted" if is_outside else "not decided"
            of = "" if low is None and high is None else " the baseline"
            said.append(f"{agent}: {word}, {between((low, high))}{of}")
        return "; ".join(said) or "not measured"

    rows = ["| the source found | here |", "|---|---|"]
    alone = [law["levels"] for agent in AGENTS for result in kept(f"levels-baseline-{agent}-32") for law in result["laws"] or [] if law["component"] == "agent"]
    used = max((level["used"] for levels in alone for level in levels), default=None)
    died = [level["death"] for name in cases() for result in kept(name) for level in result["levels"] if level["death"]]
    if used is not None:
        rows.append(f"| the agent uses one core only | {'confirmed' if used < 1.1 else 'refuted'}: the agent on Node.js used {used:.2f} processors at most |")
    rows.append(f"| the agent dies of memory near 1,000/s | {'confirmed' if died else 'refuted up to the highest load of each search'}: {len(died)} components died |")
    rows.append(f"| two agents do not double the throughput | {judged('agents', 0, 1.99)} |")
    for row in ("broker-2", "broker-4"):
        rows.append(f"| a {ROWS[row][0]} gives up to 30 % | {judged(row, 1, 1.3)} |")
    rows.append(f"| a larger database alone changes little | {judged('database', 0.9, 1.1)} |")
    rows.append(f"| a second broker makes it worse | {judged('brokers', 0, 0.99)} |")
    rows.append(f"| sharding the database is what helps | {judged('shards-2', 1.01, math.inf)} |")
    for agent in AGENTS:
        worth = {row: statistics.mean(known(row, agent)) / cost(row, agent) for row in ROWS if agent in ROWS[row][4] and known(row, agent) and row != "agents"}
        if worth:
            best = max(worth, key=worth.get)
            rows.append(f"| baseline and shards serve the most for the money | {agent}: the most has “{ROWS[best][0]}”, {worth[best]:.2f}/s for a USD |")
    return rows


def page():
    words = lambda time: time.removesuffix("s") + " s"
    hold = f"{words(FORM.course['hold'])}, and {words(FORM.search['hold'])} in searches"
    return "\n".join([
        "# Work A, scaled up and out, measured here", "",
        "[Work A](../metrics.md#sources) scales a FIWARE platform up and out, and asks what each step brings for its price. This",
        "page repeats its configurations on one host.", "",
        f"    bench/work_a.py --form {FORM.name} --write", "",
        "- **Platform.** Devices speak LwM2M to a real [Leshan](../leshan.md), or MQTT to an agent on FIWARE's own agent library",
        "  behind a real Mosquitto. Both write to the NGSIv2 [target](../targets.md) in Orion's place. It stores through",
        "  MongoDB's wire protocol in a [document store](../targets.md#document-stores) of ours. Its one lock is held for 0.4 ms",
        "  by a read and 1.2 ms by a write. So the limits of broker and database are planted, and those of the agents are real.",
        "- **Sizes.** A processor of the source is a twenty-fifth of one here, as a quota. A store waits while it holds its",
        "  lock, so more processors do not help it. This is the source's database that cannot use more cores.",
        f"- **Load.** 100 devices, Poisson arrivals. Levels are held for {hold}.",
        "  One subscriber receives everything, and 80 queries a second read entities.",
        "- **Load line.** The highest rate of which 99.9 % are delivered, 95 % within 1 s, while 95 % of queries take less",
        "  than 50 ms.",
        "- **Runs.** Three of each configuration, in turns, with 95 % intervals. A difference is named if its interval leaves",
        "  out 1.",
        "- **Prices.** Those of the source, a month. Like there, agents and balancer cost nothing.",
        "- **Host.** Generator and platform have one of two virtual cores each.",
        "- **Ends.** A load line lies between a level that was met and one that missed, so differences are wider by that much.", "",
        "## What each configuration sustains, and what it costs", "", *configurations(), "",
        "## What the source found, and what came of it here", "", *findings(), "",
        "## Levels one by one", "",
        "Times in milliseconds. The last columns are what agent, broker, first store and the whole platform used of one",
        "processor.", "", *courses(),
    ])


def main():
    global FORM
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--form", choices=FORMS, default="long")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--hours", type=float, default=1000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    FORM = FORMS[options.form]
    os.makedirs(FORM.folder, exist_ok=True)
    begun = time.monotonic()
    wanted = [name for name, (row, _, size, _) in cases().items() if FORM.has(row, size)]
    names = [name for name in wanted if not options.only or any(word in name for word in options.only.split(","))]
    for number in range(1, options.runs + 1):
        turn = [name for name in names if number == 1 or not name.startswith("levels")]
        random.Random(number).shuffle(turn)
        for name in turn:
            path = f"{FORM.folder}/{name}-run{number}.json"
            if os.path.exists(path) or time.monotonic() - begun > options.hours * 3600:
                continue
            result = run(name, number)
            if result:
                with open(path, "w") as file:
                    json.dump(result, file)
                line = result["load_line"] or {}
                print(f"{time.monotonic() - begun:6.0f} s  {name}  {line.get('rate')}/s  {result['reason']}", flush=True)
    if options.write:
        with open(PAGE, "w") as file:
            file.write(page())


if __name__ == "__main__":
    main()
