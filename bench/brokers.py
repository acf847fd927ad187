#!/usr/bin/env python3
"""Compares MQTT brokers on one processor, by Plimsoll: processor time of a message at fixed loads, load lines, memory, storms.

    bench/brokers.py [--runs 3] [--quick] [--again] [--brokers NAME,...] [--cells NAME,...] [--hours HOURS] [--write]

Generator and broker have a core each of a host of two. Each run starts its broker anew. The runs go in turns: every cell of every
broker once, in an order that is shuffled, then again. A result is kept in docs/results/brokers/ as JSON, and what has one is
not run again; delete the file to do so. `--hours` begins no run after that time. `--write` makes docs/results/brokers.md of
all results. `--quick` takes only the cells that are marked as quick, some 1.7 hours. All take some 5 hours. Both are
estimates for three runs. `--again` keeps the results in docs/results/brokers/again/; the page then says which differences have
shifted. Nothing else should run meanwhile. Before: `cargo build --release`, `source scripts/peers`, `source scripts/brokers`.
"""
import argparse, fcntl, itertools, json, math, os, random, signal, statistics, subprocess, sys, tempfile, textwrap, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PLIMSOLL = os.path.join(os.environ.get("CARGO_TARGET_DIR", f"{ROOT}/target"), "release/plimsoll")
KEPT = f"{ROOT}/docs/results/brokers"
AGAIN = f"{KEPT}/again"
PAGE = f"{ROOT}/docs/results/brokers.md"
CONFORMANCE = f"{ROOT}/docs/results/conformance"
# Each with the greatest QoS that it does.
BROKERS = {
    "mosquitto": 2, "rabbitmq": 1, "nats": 1, "artemis": 2, "hivemq": 2, "moquette": 2, "mochi": 2, "aedes": 2, "amqtt": 2,
    "embedded": 2,
}
# The component of a profile that is not called as the profile is.
COMPONENTS = {"embedded": "broker"}
# How each is reached: a mapping of its profile, or a profile of its own. Who is not named speaks over TCP alone, without one.
WAYS = {
    "tcp": {"rabbitmq": "mqtt", "nats": "mqtt"},
    "tls": {
        "mosquitto": "tls", "rabbitmq": "mqtt-tls", "artemis": "mqtt-tls", "hivemq": "tls", "moquette": "tls", "mochi": "tls",
        "aedes": "tls", "amqtt": "tls",
    },
    "websocket": {
        "mosquitto": {"profile": "mosquitto-websocket"}, "rabbitmq": "mqtt-websocket", "nats": "mqtt-websocket",
        "artemis": "mqtt-websocket", "hivemq": "websocket", "moquette": "websocket", "mochi": "websocket", "aedes": "websocket",
        "amqtt": "websocket",
    },
}
# Which share of the differences that the page names may be false.
FALSE = 0.05
# Levels of a fixed load, in parts of it, of which the last one counts. A Java virtual machine compiles what it runs often.
LEVELS, LEVELS_OF_JAVA = [1, 1], [1, 5, 5, 1, 1]
# A broker is done with warming up where its last two levels differ by no more than that.
SETTLED = 0.1


def fixed(qos, devices, subscribers, rate, size, target="p/{run}/{device}", filters=None):
    """A load far below what most of them sustain. Levels before the last one warm the broker up."""
    receivers = {"count": subscribers, "filters": filters or ["p/{run}/#"]}
    return {
        "population": {"devices": devices, "subscribers": receivers},
        "mqtt": {"qos": qos},
        "message": {"target": target, "size": size},
        "load": {"arrivals": "poisson", "levels": [rate * part for part in LEVELS], "warm_up": "1s", "hold": "5s", "samples": 10, "drain": "3s", "again": "0s"},
    }


def pairs(qos, number, rate, size):
    return fixed(qos, number, number, rate, size, filters=["p/{run}/{subscriber}"])


def line(qos):
    found = pairs(qos, 100, 0, 100)
    search = {"from": 1000, "to": 100_000, "tolerance": "10 %", "time": "90s"}
    found["load"] = {"arrivals": "poisson", "search": search, "warm_up": "1s", "hold": "4s", "samples": 10, "drain": "1s"}
    found["objectives"] = {"subscribe_p99": "< 100 ms", "delivered": ">= 99.9 %"}
    return found


def with_sessions(found):
    """The same with sessions that the broker keeps."""
    return found | {"mqtt": found["mqtt"] | {"session": "persistent"}}


# Name: title, unit, whether it is quick, the least QoS that a broker has to do, the scenario, the figure of its summary, and how the
# broker is reached where that is not over TCP.
CELLS = {
    "in-0": ("fan-in, QoS 0, 1,000/s of 100 B", "µs", False, 0, fixed(0, 100, 1, 1000, 100), "each"),
    "in-1": ("fan-in, QoS 1, 1,000/s of 100 B", "µs", True, 1, fixed(1, 100, 1, 1000, 100), "each"),
    "in-2": ("fan-in, QoS 2, 500/s of 100 B", "µs", False, 2, fixed(2, 100, 1, 500, 100), "each"),
    "pairs-1": ("100 pairs, QoS 1, 1,000/s of 100 B", "µs", True, 1, pairs(1, 100, 1000, 100), "each"),
    "sessions-1": ("100 pairs, QoS 1, with sessions that the broker keeps, 1,000/s of 100 B", "µs", False, 1, with_sessions(pairs(1, 100, 1000, 100)), "each"),
    "tls-1": ("100 pairs, QoS 1, over TLS, 500/s of 100 B", "µs", True, 1, pairs(1, 100, 500, 100), "each", "tls"),
    "websocket-1": ("100 pairs, QoS 1, over WebSocket, 500/s of 100 B", "µs", False, 1, pairs(1, 100, 500, 100), "each", "websocket"),
    "out-1": ("100 pairs, QoS 0, 1,000/s of 100 B", "µs", False, 0, pairs(0, 100, 1000, 100), "each"),
    "out-10": ("fan-out to 10, QoS 0, 200/s of 100 B", "µs", False, 0, fixed(0, 10, 10, 200, 100), "each"),
    "out-100": ("fan-out to 100, QoS 0, 20/s of 100 B", "µs", True, 0, fixed(0, 10, 100, 20, 100), "each"),
    "out-500": ("fan-out to 500, QoS 0, 4/s of 100 B", "µs", False, 0, fixed(0, 4, 500, 4, 100), "each"),
    "size-32": ("100 pairs, QoS 0, 1,000/s of 32 B", "µs", False, 0, pairs(0, 100, 1000, 32), "each"),
    "size-16k": ("100 pairs, QoS 0, 200/s of 16 KiB", "µs", False, 0, pairs(0, 100, 200, 16384), "each"),
    "size-1m": ("4 pairs, QoS 0, 4/s of 1 MiB", "µs", True, 0, pairs(0, 4, 4, 1048576), "each"),
    "line-0": ("load line of 100 pairs, QoS 0, 100 B", "/s", False, 0, line(0), "line"),
    "line-1": ("load line of 100 pairs, QoS 1, 100 B", "/s", True, 1, line(1), "line"),
    "connections": ("connections of 2,000 idle devices", "/s", False, 0, {
        "population": {"devices": 2000},
        "load": {"connect_rates": [250, 350, 500, 700, 1000, 1400, 2000, 2800, 4000], "warm_up": "0s", "hold": "3s", "samples": 3, "drain": "1s", "again": "0s", "stop_after_missed": 1},
        "objectives": {"connected": ">= 99 %", "connect_p99": "< 1 s"},
    }, "line"),
    "memory": ("memory of an idle connection", "KiB", True, 0, {
        "population": {"devices": 4000},
        "load": {"devices": [500, 2000, 4000], "connect_rate": 500, "warm_up": "1s", "hold": "5s", "samples": 5, "drain": "1s", "again": "0s"},
        "objectives": {"connected": ">= 99 %"},
    }, "memory"),
    "storm": ("all 500 clients back after the broker was killed for 3 s", "s", False, 1, {
        "population": {"devices": 500, "subscribers": 1},
        "mqtt": {"qos": 1},
        "connection": {"offline": "buffer", "reconnect": {"from": "100ms", "to": "2s"}},
        "load": {"levels": [200], "warm_up": "5s", "hold": "40s", "samples": 20, "drain": "5s", "again": "0s", "storm": {"after": "5s", "down": "3s"}},
    }, "recovery"),
}


def way(cell):
    return (*CELLS[cell], "tcp")[6]


def works(cell, broker):
    is_reached = way(cell) == "tcp" or broker in WAYS[way(cell)]
    return is_reached and CELLS[cell][3] <= BROKERS[broker] and broker not in forgetful(cell)


def conformance():
    """What `conformance.py` found, of each broker."""
    names = sorted(os.listdir(CONFORMANCE)) if os.path.isdir(CONFORMANCE) else []
    return [json.load(open(f"{CONFORMANCE}/{name}")) for name in names]


def forgetful(cell):
    """The brokers without the sessions that a load is about, in MQTT 3.1.1, which runs speak: what came of messages for who was away."""
    if "session" not in CELLS[cell][4].get("mqtt", {}):
        return {}
    found = {one["broker"]: str(one["versions"]["3.1.1"]["session"]) for one in conformance()}
    return {broker: said for broker, said in found.items() if said.startswith("0 of ")}


def is_java(broker):
    """Whether the profile gives a Java virtual machine its memory."""
    return "-Xmx" in open(f"{ROOT}/platforms/{broker}.yaml").read()


def commit():
    """The commit of the sources; a plus says that they have changes beside it."""

    def git(*arguments):
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True).stdout.strip()

    changes = git("status", "--porcelain", "--untracked-files=no", "--", "bench", "crates", "platforms")
    return git("rev-parse", "--short=12", "HEAD") + ("+" if changes else "")


def scenario(cell, broker):
    title, _, _, _, keys, kind = CELLS[cell][:6]
    by = WAYS[way(cell)].get(broker, {})
    platform = {"profile": broker} | ({"mapping": by} if isinstance(by, str) else by)
    whole = {"name": f"brokers-{cell}", "description": title, "platform": platform, "connection": {"timeout": "30s"}} | keys
    if kind == "each" and is_java(broker):
        rate = keys["load"]["levels"][-1]
        whole["load"] = keys["load"] | {"levels": [rate * part for part in LEVELS_OF_JAVA]}
    if kind in ("each", "recovery"):
        # Only what the broker takes for a message matters here.
        whole["objectives"] = {"achieved": ">= 50 %", "publish_p99": None, "subscribe_p99": None, "delivered": None}
    if kind == "recovery":
        whole["load"]["storm"] |= {"component": COMPONENTS.get(broker, broker)}
    return whole


def each(level):
    """Processor time of a message in a level, in microseconds."""
    return level["platform_cpu"] * level["hold"] / level["sent"] * 1e6


def figure(kind, summary):
    """The figure of a run; `None` where there is none. Beside a load line stands whether it is one `at least`, beside a fixed load
    what the first level took, while the broker warmed up."""
    level = summary["levels"][-1] if summary["levels"] else None
    if kind == "each":
        return each(level), each(summary["levels"][0])
    if kind == "line":
        found = summary["load_line"] or {}
        return found.get("rate") or found.get("connect_rate"), found.get("at_least")
    if kind == "memory":
        return summary["memory_per_connection"] / 1024, None
    return level["recovery"], None


def run(cell, broker, turn, folder_of_results):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.yaml")
        json.dump(scenario(cell, broker), open(path, "w"))
        began = time.time()
        command = [PLIMSOLL, "run", path, "-q", "--no-report", "--store", os.path.join(folder, "runs.db"), "--summary-json", os.path.join(folder, "out.json")]
        done = subprocess.run(command, capture_output=True, text=True)
        try:
            summary = json.load(open(os.path.join(folder, "out.json")))
            found, beside = figure(CELLS[cell][5], summary)
            of_levels = [each(level) for level in summary["levels"]] if CELLS[cell][5] == "each" else []
            validity = [level["validity"] for level in summary["levels"]]
            levels = [{key: level[key] for key in ("offered", "sent", "acknowledged", "expected_deliveries", "delivered", "lost", "duplicated", "reordered", "reconnects")} for level in summary["levels"]]
            provenance = summary["provenance"]
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            found, beside, of_levels, validity, levels, provenance = None, None, [], [], [], {}
            print(f"  no figure: {error!r}; {(done.stdout + done.stderr).strip()[-300:]}", file=sys.stderr)
    kept = {
        "cell": cell, "broker": broker, "turn": turn, "figure": found, "beside": beside, "of_levels": of_levels, "validity": validity, "levels": levels,
        "seconds": round(time.time() - began), "code": done.returncode, "began": time.strftime("%Y-%m-%d %H:%M", time.gmtime(began)),
        "platform": provenance.get("platform"), "plimsoll": provenance.get("plimsoll"), "commit": commit(),
    }
    json.dump(kept, open(f"{folder_of_results}/{cell}-{broker}-{turn}.json", "w"), indent=1)
    print(f"{cell} {broker} {turn}: {found and round(found, 2)} {CELLS[cell][1]}, {kept['seconds']} s", flush=True)


# Quantiles of Student's distribution at 97.5 %, by degrees of freedom.
STUDENT = [None, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]


def interval(logs):
    """The geometric mean and its 95 % interval."""
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), None
    half = STUDENT[min(len(logs) - 1, 10)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), (math.exp(mean - half), math.exp(mean + half))


def beta(x, a, b):
    """The regularised incomplete beta function, by its continued fraction."""
    if x in (0, 1):
        return x
    if x > (a + 1) / (a + b + 2):
        return 1 - beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(1 - x)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 200):
        for numerator in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d = 1 / (1 + numerator * d)
            c = 1 + numerator / c
            value *= c * d
    return front * value


def apart(plus, minus):
    """The means of `plus` less those of `minus`, with the variance of that and its degrees of freedom (Welch), of two runs at least:
    for two brokers or, of a difference that was measured twice, for two on either side."""
    groups = plus + minus
    parts = [statistics.variance(logs) / len(logs) for logs in groups]
    spread = sum(part**2 / (len(logs) - 1) for part, logs in zip(parts, groups))
    freedom = sum(parts) ** 2 / spread if spread else math.inf
    return sum(map(statistics.fmean, plus)) - sum(map(statistics.fmean, minus)), sum(parts), freedom


def beyond(t, freedom):
    """With which probability a value of Student's distribution is as far from zero."""
    return beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def chance(plus, minus):
    """With which probability `plus` and `minus` would be as far apart if they were equal."""
    distance, variance, freedom = apart(plus, minus)
    if variance == 0:
        return 1.0 if distance == 0 else 0.0
    return beyond(distance / math.sqrt(variance), freedom)


def difference(one, other):
    """How many times the figures of one broker are those of another one, and the 95 % interval of that (Welch, on logarithms)."""
    if min(len(one), len(other)) < 2:
        return math.exp(statistics.fmean(one) - statistics.fmean(other)), None
    distance, variance, freedom = apart([one], [other])
    # Student's quantile for a fraction of degrees of freedom, by halving.
    low, high = 0.0, 1000.0
    for _ in range(100 if variance else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle, freedom) > 0.05 else (low, middle)
    half = high * math.sqrt(variance)
    return math.exp(distance), (math.exp(distance - half), math.exp(distance + half))


def differing(figures, bounds):
    """The pairs of brokers that differ, over all cells together (Benjamini and Hochberg, 1995). Where the lower one has only a lower
    bound in some run, it may be as high as the other one: nothing is tested."""
    tests = []
    for cell, of_brokers in figures.items():
        for one, other in itertools.combinations(of_brokers, 2):
            lower = min(one, other, key=lambda name: statistics.fmean(of_brokers[name]))
            # One run has no spread to compare.
            if (cell, lower) in bounds or min(len(of_brokers[one]), len(of_brokers[other])) < 2:
                continue
            tests.append((chance([of_brokers[one]], [of_brokers[other]]), cell, one, other))
    tests.sort()
    last = max((place for place, (p, *_) in enumerate(tests, 1) if p <= FALSE * place / len(tests)), default=0)
    return {(cell, *sorted((one, other))) for _, cell, one, other in tests[:last]}, len(tests)


def letters(names, differ):
    """A letter for each largest set of brokers of which no two differ."""
    # Each pair of which it cannot be said that they differ has a letter in common.
    sets = [{name} for name in names] + [set(pair) for pair in itertools.combinations(names, 2) if not differ(*pair)]
    for one in list(sets):
        for name in names:
            if all(not differ(name, other) for other in one):
                one.add(name)
    largest = [one for one in sets if not any(one < other for other in sets)]
    unique = [one for place, one in enumerate(largest) if one not in largest[:place]]
    unique.sort(key=lambda one: [names.index(name) for name in names if name in one])
    return {name: "".join(chr(ord("a") + at) for at, one in enumerate(unique) if name in one) for name in names}


def shown(number):
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def cold(kept):
    """What brokers take while they warm up, beside what they take then."""
    ratios, settled = {}, {}
    for one in kept:
        if one["figure"] and CELLS[one["cell"]][5] == "each" and one["beside"]:
            ratios.setdefault(one["broker"], []).append(math.log(one["beside"] / one["figure"]))
            # Earlier results have two levels, and no list of them.
            *_, before, last = one.get("of_levels") or (one["beside"], one["figure"])
            settled.setdefault(one["broker"], []).append(abs(before / last - 1) <= SETTLED)
    lines = ["## Warm and cold", "", "Processor time of a message in the first level / in the last one, over all cells at fixed loads. A ratio above 1 says that", f"the broker was still warming up in the first one. A run is *settled* where its last two levels differ by {SETTLED * 100:.0f} % at most.", ""]
    lines += ["| broker | ratio | 95 % | settled | runs |", "|---|---|---|---|---|"]
    for name, logs in sorted(ratios.items(), key=lambda item: statistics.fmean(item[1])):
        mean, span = interval(logs)
        lines.append(f"| {name} | {shown(mean)} | {f'{shown(span[0])} to {shown(span[1])}' if span else '–'} | {sum(settled[name])} | {len(logs)} |")
    return lines


def promises():
    """What `conformance.py` found."""
    names = {"retained": "retained", "will": "will", "order": "order", "session": "session", "expiry": "expiry", "alias": "topic alias"}

    def said(value):
        return {True: "kept", None: "–"}[value] if value in (True, None) else str(value)

    def share(counts):
        return f"{counts[0] / sum(counts) * 100:.0f} to {counts[-1] / sum(counts) * 100:.0f} %" if isinstance(counts, list) else said(counts)

    def named(one):
        said = one["said"] or ""
        return said if one["broker"] in said.lower() else f"{one['broker']} {said}".strip()

    def after(killed):
        if not isinstance(killed, dict):
            return said(killed)
        # In earlier results it is not known which were acknowledged.
        return f"{killed['came']} of {killed.get('acknowledged', str(killed['sent']) + ' sent')}, {killed['twice']} twice"

    lines = ["", "## Promises", ""]
    lines += ["An independent client looks whether brokers keep what MQTT promises (Eclipse Paho, `bench/conformance.py`).", "", "- *Shared*: what the members of a group of four get, from the least to the most.", "- *After kill -9*: of ten messages for an absent subscriber, those that the broker had acknowledged, and that come when it is back.", "  The profiles of all but RabbitMQ and NATS keep everything in memory.", "- `–` says that this version of MQTT does not have it, or the broker does not announce it.", "- Each check was made once.", ""]
    lines += [f"| broker | MQTT | {' | '.join(names.values())} | shared | after kill -9 |", "|---" * (len(names) + 4) + "|"]
    for one in conformance():
        for version, checks in one["versions"].items():
            cells = [said(checks.get(name)) for name in names]
            lines.append("| " + " | ".join([named(one), version, *cells, share(checks.get("shared")), after(checks["killed"])]) + " |")
    return lines


def builds(kept):
    """Which Plimsoll has made the runs."""
    said = [f"{one['plimsoll']} ({one['commit']})" for one in kept if one.get("plimsoll")]
    made = f"{len(said)} of them were made by Plimsoll {', '.join(sorted(set(said)))}" if said else "None says by which build it was made"
    return [f"{made}; earlier ones do not say by which build." if said and len(said) < len(kept) else f"{made}."] if kept else []


def wrapped(lines):
    """Paragraphs and items of lists in lines of 118 columns; tables, headings and code as they are."""
    out, open_one = [], []

    def close():
        text = " ".join(line.strip() for line in open_one)
        indent = "  " if text.startswith("- ") else ""
        out.extend(textwrap.wrap(text, 118, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False))
        open_one.clear()

    for line in lines:
        if line.startswith("- "):
            close()
        if line and not line.startswith(("|", "#", "**", "    ")):
            open_one.append(line)
        else:
            close()
            out.append(line)
    close()
    return out


def results(folder):
    return [json.load(open(f"{folder}/{name}")) for name in sorted(os.listdir(folder)) if name.endswith(".json")] if os.path.isdir(folder) else []


def sound(kept):
    """The logarithms of the figures by cell and broker, what is only a lower bound, and the runs without a figure."""
    figures, bounds, failed = {}, set(), []
    for one in kept:
        if one["broker"] in forgetful(one["cell"]):
            continue
        if not one["figure"] or one["validity"][-1:] not in ([], ["valid"]):
            failed.append(one)
            continue
        figures.setdefault(one["cell"], {}).setdefault(one["broker"], []).append(math.log(one["figure"]))
        if CELLS[one["cell"]][5] == "line" and one["beside"]:
            bounds.add((one["cell"], one["broker"]))
    return figures, bounds, failed


def shifts(kept, again):
    """How many differences of two brokers shifted beyond their 95 % intervals when all was measured again."""
    first, bounds, _ = sound(kept)
    second, bounds_again, _ = sound(again)
    lines = ["", "## Measured again", ""]
    lines += [f"{len(again)} runs were made a second time, from {min(one['began'] for one in again)} to {max(one['began'] for one in again)} UTC. A difference has shifted", "where its change excludes zero at 95 % (Welch's test on logarithms, over both times). Without any true change, 5 % do.", ""]
    lines += ["| cell | differences | shifted |", "|---|---|---|"]
    all_of, all_shifted = 0, 0
    for cell in [cell for cell in CELLS if cell in first and cell in second]:
        names = [name for name in first[cell] if name in second[cell] and (cell, name) not in bounds | bounds_again]
        pairs_of = [pair for pair in itertools.combinations(names, 2) if min(len(of[cell][name]) for of in (first, second) for name in pair) > 1]
        shifted = sum(chance([first[cell][a], second[cell][b]], [first[cell][b], second[cell][a]]) < 0.05 for a, b in pairs_of)
        all_of, all_shifted = all_of + len(pairs_of), all_shifted + shifted
        lines.append(f"| {CELLS[cell][0]} | {len(pairs_of)} | {shifted} |")
    return lines + [f"| all | {all_of} | {all_shifted}{f' ({all_shifted / all_of * 100:.1f} %)' if all_of else ''} |"]


def write():
    kept = results(KEPT)
    figures, bounds, failed = sound(kept)
    differ, tests = differing(figures, bounds)
    fates = {False: {}, True: {}}
    for one in kept:
        for level in one["levels"] if one["cell"] != "storm" else []:
            of = fates[CELLS[one["cell"]][5] == "line"].setdefault(one["broker"], {"sent": 0, "expected": 0, "lost": 0, "duplicated": 0, "reordered": 0})
            for key, name in (("sent", "sent"), ("expected", "expected_deliveries"), ("lost", "lost"), ("duplicated", "duplicated"), ("reordered", "reordered")):
                of[key] += level[name] or 0
    lines = [
        "# MQTT brokers on one processor",
        "",
        "Generator and broker have a core each of a host of two. So brokers with one thread are favoured, and no figure here says",
        "what a broker does on a larger machine. `bench/brokers.py` makes this page. Each broker is started by the profile of its",
        "name, whose `limits` say what is lifted. RabbitMQ and NATS keep sessions and messages at QoS 1 on disk, the others in",
        "memory.",
        "",
        f"There are {len(kept)} runs, which took {sum(one['seconds'] for one in kept) / 3600:.1f} hours, from {min(one['began'] for one in kept)} to {max(one['began'] for one in kept)} UTC."
        if kept else "Nothing was run yet.",
        *builds(kept),
        "These are the loads of `--quick`." if all(CELLS[one["cell"]][2] for one in kept) else "",
        "All loads, three runs each, take some 5 hours by an estimate. Each run starts its broker afresh. Figures are geometric means",
        "over runs with their 95 % intervals (Student, on logarithms). `embedded` is Plimsoll's own broker. The order of rows is that",
        "of the means, and no ranking.",
        "",
        f"Brokers with a letter in common are not distinguished. Of the {tests} pairs in all cells, {len(differ)} differ. The false",
        f"discovery rate is {FALSE * 100:.0f} % (Welch's test on logarithms; Benjamini and Hochberg, 1995).",
        "",
    ]
    for kind, title in (("each", "Processor time of a message at a fixed load"), ("line", "Load lines"), ("memory", "Memory"), ("recovery", "Storms")):
        cells = [cell for cell in CELLS if CELLS[cell][5] == kind and cell in figures]
        if not cells:
            continue
        lines += [f"## {title}", ""]
        if kind == "each":
            lines += [f"A run has {len(LEVELS)} equal levels of 5 s, and the last one counts. Brokers in Java have {len(LEVELS_OF_JAVA)}, and some in between have {max(LEVELS_OF_JAVA)} times the load,", "so that the virtual machine compiles what it runs. See below for how warm they are. The time that a broker uses without load is included. At 4/s and 20/s, with 20 to 100 messages, it may be most of the figure.", ""]
        if kind == "memory":
            lines += ["The slope of resident memory over 500, 2,000 and 4,000 connections. Of Java, that is how its heap grows.", ""]
        if kind == "line":
            lines += ["The highest rate at which 99 % of messages reach their subscriber within 100 ms and 99.9 % do at all. `≥` says that", "some run did not find where it ends: the generator was the limit, or a level decided nothing. It is not compared with what is", "higher.", ""]
        for cell in cells:
            of_brokers = figures[cell]
            order = sorted(of_brokers, key=lambda name: statistics.fmean(of_brokers[name]), reverse=kind == "line")
            told = letters(order, lambda one, other: (cell, *sorted((one, other))) in differ)
            lines += [f"**{CELLS[cell][0]}**, {CELLS[cell][1]}:", "", "| broker | mean | 95 % | x the first | 95 % | runs | |", "|---|---|---|---|---|---|---|"]
            for name in order:
                mean, span = interval(of_brokers[name])
                is_bound = (cell, name) in bounds
                mark = "≥ " if is_bound else ""
                between = f"{shown(span[0])} to {shown(span[1])}" if span and not is_bound else "–"
                times, times_span = difference(of_brokers[name], of_brokers[order[0]])
                is_compared = name != order[0] and not is_bound and (cell, order[0]) not in bounds
                compared = f"{shown(times)} | {f'{shown(times_span[0])} to {shown(times_span[1])}' if times_span else '–'}" if is_compared else "– | –"
                lines.append(f"| {name} | {mark}{shown(mean)} | {between} | {compared} | {len(of_brokers[name])} | {told[name]} |")
            lines += [f"| {name} | – | – | – | – | – | |" for name in forgetful(cell)]
            lines += ["", *(f"{name} keeps no session: of messages for an absent subscriber, {said}." for name, said in forgetful(cell).items())] if forgetful(cell) else []
            missing = [name for name in BROKERS if name not in of_brokers and works(cell, name)]
            if missing:
                lines += ["", f"Not run: {', '.join(missing)}."]
            lines.append("")
    lines += ["## What became of messages", ""]
    for is_line, title in ((False, "In all levels at fixed loads:"), (True, "In all levels of searches for load lines, of which many are far beyond the line:")):
        lines += [title, "", "| broker | sent | expected | lost | twice | out of order |", "|---|---|---|---|---|---|"]
        for name, of in sorted(fates[is_line].items()):
            lines.append("| " + " | ".join([name, *(f"{of[key]:,}" for key in ("sent", "expected", "lost", "duplicated", "reordered"))]) + " |")
        lines.append("")
    lines += cold(kept) + promises()
    again = results(AGAIN)
    if again:
        lines += shifts(kept, again)
    if failed:
        lines += ["", "## Runs without a figure", ""]
        lines += [f"- {one['cell']}, {one['broker']}, {one['turn']}: {', '.join(one['validity']) or 'no level'}, code {one['code']}" for one in failed]
    open(PAGE, "w").write("\n".join(wrapped(lines)) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--hours", type=float, default=math.inf)
    for name, choices in (("brokers", BROKERS), ("cells", CELLS)):
        parser.add_argument(f"--{name}", default=",".join(choices))
    for name in ("quick", "again", "write"):
        parser.add_argument(f"--{name}", action="store_true")
    options = parser.parse_args()
    kept = AGAIN if options.again else KEPT
    os.makedirs(kept, exist_ok=True)
    if options.write:
        return write()
    # What it has started ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Two at once would disturb each other. The lock ends with this program.
    try:
        fcntl.flock(os.open(KEPT, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"{sys.argv[0]} runs already: its figures would be disturbed")
    cells = [cell for cell in options.cells.split(",") if CELLS[cell][2] or not options.quick]
    end = time.time() + options.hours * 3600
    for turn in range(options.runs):
        wanted = [(cell, broker) for cell in cells for broker in options.brokers.split(",") if works(cell, broker)]
        random.Random(turn).shuffle(wanted)
        for cell, broker in wanted:
            if not os.path.exists(f"{kept}/{cell}-{broker}-{turn}.json") and time.time() < end:
                run(cell, broker, turn, kept)
    write()


if __name__ == "__main__":
    main()
