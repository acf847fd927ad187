#!/usr/bin/env python3
"""What `plimsoll why` says of real rows of stations: where one limit is planted, and where nothing of the platform limits.

    bench/verdict.py [--cases KIND-POSITION-STATIONS,...] [--within TIME] [--write]

Each case starts two to five stations as processes of their own on this host, one behind the other, and runs `plimsoll why`
against them. Where one limit is planted, the others are busy for up to half of the time. Two levels come before the
experiment then, at 0.6 and at 1.3 times what the limit allows: the second one has a blame without any experiment. Where a faster one of it is
forecast, the row is then started with a limit that is 25 % faster, and with a second one, and its throughput is measured.
A result is kept in docs/results/verdict/ as JSON, and a case that has one is not run again. Delete the file to do so.
`--write` makes docs/results/verdict.md of all results, failures included. Nothing else should run meanwhile.
All cases of a kind are to be run with one build of the program.

Planted: sleeping, workers (a pool of waiting threads), quota, pool (three connections to the next station; before it
a relay stands if the limit is the first or second station: then `why` should count them), lock (two
stations that hold one lock file while they wait), spinning (the others wait), cores (all compute on the platform's
processors). Nobody's: generator (it makes each message of thousands of random numbers), subscriber (it takes long for a
message), host (somebody else uses the processors). These are KIND-NUMBER: experiments where that is even, else a level
whose objective is missed. The order of the cases is shuffled.
"""
import argparse, contextlib, fcntl, hashlib, json, math, os, random, signal, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BUILT = os.environ.get("CARGO_TARGET_DIR", f"{ROOT}/target")
KEPT = f"{ROOT}/docs/results/verdict"
PAGE = f"{ROOT}/docs/results/verdict.md"
PLANTED = ["sleeping", "workers", "quota", "pool", "lock", "spinning", "cores"]
# Station of the limit, and stations in the row.
PLACES = [(0, 3), (1, 3), (2, 3), (1, 4), (3, 5)]
# Cases of each kind in which nothing of the platform limits.
NOBODYS = {"generator": 17, "subscriber": 17, "host": 16}
# What may be said of the limit. Stops cannot tell a lock that components hold while they wait from a small pool.
KINDS = {
    "sleeping": ["waiting"],
    "workers": ["waiting"],
    "quota": ["quota"],
    "pool": ["coupled", "pool"],
    "lock": ["lock", "coupled"],
    "spinning": ["processor"],
    "cores": ["processors"],
    "generator": ["generator"],
    "subscriber": ["subscribers"],
    "host": [],
}
# Connections of a pool.
PLACES_OF_POOL = 3
# What a capacity may be off the planted one: as much as the elasticity of a limit may be off its theory.
NEAR = 0.2
# Seconds for which the throughput of a row is measured that was made faster.
MEASURED = 30


def cases():
    planted = [f"{kind}-{place}-{count}" for kind in PLANTED for place, count in PLACES]
    nobodys = [f"{kind}-{number}" for kind, many in NOBODYS.items() for number in range(1, many + 1)]
    both = sorted(planted + nobodys)
    random.Random("verdict").shuffle(both)
    return both


def micros(seconds):
    """A law of service times: those of real services vary, by less than an exponential law has it."""
    return f"lognormal:{seconds * 1e6:.0f}us:0.5"


def planted(case):
    """The stations, the quotas, who may be named, each one's theory where there is one, and the capacity by theory."""
    kind, place, count = case.split("-")
    place, count = int(place), int(count)
    draw = random.Random(case)
    # Stations that compute share one processor here: together they use less than 0.7 of it at the load line.
    rate = draw.uniform(250, 500)
    stations = []
    for at in range(count):
        computes = at != place and draw.random() < 0.3 and kind != "spinning"
        busy = draw.uniform(0.05, 0.15) if computes else draw.uniform(0.1, 0.5)
        stations.append({"work": "spin" if computes else "wait", "service": busy / rate})
    limit, quotas, names = stations[place], {}, [f"s{place}"]
    theory = {f"s{at}": 0.0 for at in range(count)}
    theory[f"s{place}"] = 1.0
    if kind == "sleeping":
        limit.update(work="wait", service=1 / rate)
    elif kind == "workers":
        limit.update(work="wait", service=4 / rate, workers=4)
    elif kind == "quota":
        limit.update(work="spin", service=0.3 / rate)
        quotas = {f"s{place}": 0.3}
    elif kind == "pool":
        place = min(place, count - 2)
        stations[place].update(work="wait", service=0.3 / rate, pool=PLACES_OF_POOL)
        stations[place + 1].update(work="wait", service=PLACES_OF_POOL / rate, workers=20)
        names = [f"s{place}", f"s{place + 1}"]
        theory = {f"s{at}": 0.0 if at < place else None for at in range(count)}
    elif kind == "lock":
        other = (place + 1) % count
        share = draw.uniform(0.4, 0.6)
        for at, part in ((place, share), (other, 1 - share)):
            stations[at].update(work="wait", service=0.02 / rate, lock=part / rate, file="shared.lock", workers=2)
        names = sorted([f"s{place}", f"s{other}"])
        theory = {f"s{at}": None if at in (place, other) else 0.0 for at in range(count)}
    elif kind == "spinning":
        limit.update(work="spin", service=1 / rate)
    elif kind == "cores":
        parts = [draw.uniform(0.3, 1) for _ in range(count)]
        for at, part in enumerate(parts):
            stations[at].update(work="spin", service=part / sum(parts) / rate)
        names = [f"s{at}" for at in range(count)]
        theory = {f"s{at}": part / sum(parts) for at, part in enumerate(parts)}
    return stations, quotas, names, theory, rate


def relays(case):
    """Before which stations of a case relays stand."""
    kind, place, count = case.split("-")
    # A station behind the pool answers before a place is free, so that three stop each other: only delays tell them apart.
    is_counted = kind == "pool" and place in ("0", "1")
    return {f"s{min(int(place), int(count) - 2) + 1}": {}} if is_counted else {}


def better(case, percent):
    """The stations and quotas of a case whose limit is 25 % faster, or twice there."""
    stations, quotas, names, _, _ = planted(case)
    name, factor = names[0], 1 + percent / 100
    limit = stations[int(name[1:])]
    if name in quotas:
        quotas[name] *= factor
    elif percent == 100:
        limit["workers"] = 2 * limit.get("workers", 1)
    else:
        limit["service"] /= factor
    return stations, quotas


def nobodys(case):
    """Two fast stations, and the keys of a population and a message for which these are not what limits."""
    kind, number = case.split("-")
    draw = random.Random(case)
    fast = lambda: {"work": draw.choice(["spin", "wait"]), "service": draw.uniform(0.1e-3, 0.3e-3)}
    stations, devices, message = [fast(), fast()], {"devices": 200}, {}
    if kind == "generator":
        body = json.dumps({f"value{at}": "{random:18.0..25.0:1}" for at in range(draw.randint(3000, 6000))})
        message = {"template": "{marker} {{" + body[1:-1] + "}}"}
    if kind == "subscriber":
        devices["subscribers"] = {"count": 1, "work": f"{draw.uniform(1, 2):.1f}ms"}
    return stations, devices, message


@contextlib.contextmanager
def busy_host(case):
    """Processes outside the platform that use all processors for much of the time, ahead of everybody else."""
    draw = random.Random(case)
    share = draw.uniform(0.5, 0.9)
    # It ends with this program, however that ends.
    code = f"import os, time\nwhile os.getppid() == {os.getpid()}:\n t = time.monotonic() + {0.02 * share}\n while time.monotonic() < t: pass\n time.sleep({0.02 * (1 - share)})"
    command = ["nice", "-n", "-10", sys.executable, "-c", code]
    running = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)] if case.startswith("host") else []
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def profile(stations):
    components = []
    for at, station in reversed(list(enumerate(stations))):
        command = ["{plimsoll}", "target", "station", "--port", f"{{port:p{at}}}", "--service", micros(station["service"])]
        command += ["--workers", str(station.get("workers", 1)), "--work", station["work"], "--seed", str(at + 1)]
        if "lock" in station:
            command += ["--lock", micros(station["lock"]), "--lock-file", "{dir}/" + station["file"]]
        if at + 1 < len(stations):
            command += ["--next", f"127.0.0.1:{{port:p{at + 1}}}"]
            command += ["--pool", str(station["pool"])] if "pool" in station else []
        component = {"name": f"s{at}", "command": command, "ready_port": f"p{at}"}
        components.append(component | ({"mqtt_port": "p0"} if at == 0 else {}))
    return {"name": "row", "title": "stations in a row", "description": "planted", "components": components}


def plimsoll(command, stations, quotas, devices, message, load, objectives={}, relays={}):
    """The summary of a run against such stations."""
    with tempfile.TemporaryDirectory() as folder:
        json.dump(profile(stations), open(f"{folder}/row.yaml", "w"))
        limits = f", quotas: {json.dumps(quotas)}" if quotas else ""
        limits += f", relays: {json.dumps(relays)}" if relays else ""
        open(f"{folder}/run.yaml", "w").write(
            f"name: verdict\nplatform: {{ profile: ./row.yaml{limits} }}\npopulation: {json.dumps(devices)}\nmessage: {json.dumps(message)}\n"
            f"load: {{ warm_up: 1s, drain: 3s, {load} }}\nobjectives: {json.dumps(objectives)}\n"
        )
        command = [f"{BUILT}/release/plimsoll", *command.split(), "run.yaml", "-q", "--no-report", "--summary-json", "out.json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if not os.path.exists(f"{folder}/out.json"):
            sys.exit(f"no summary: {done.stdout}{done.stderr}")
        summary = json.load(open(f"{folder}/out.json"))
    if summary["verdict"] == "interrupted":
        sys.exit(summary["reason"])
    return summary


def run(case, within):
    is_planted = case.split("-")[0] in PLANTED
    devices, message, quotas, names, theory, rate = {"devices": 200}, {}, {}, [], {}, None
    if is_planted:
        stations, quotas, names, theory, rate = planted(case)
    else:
        stations, devices, message = nobodys(case)
    begin = time.time()
    if is_planted:
        levels = f"levels: [{0.6 * rate:.0f}, {1.3 * rate:.0f}], hold: 10s, samples: 10"
        load, objectives = f"{levels}, experiment: {{ within: {within} }}", {"publish_p99": "< 1 s"}
        asked = ["run --why", stations, quotas, devices, message, load, objectives]
    elif int(case.split("-")[1]) % 2 == 0:
        asked = ["why", stations, quotas, devices, message, f"experiment: {{ within: {within} }}"]
    else:
        load, time_of = "model: closed, in_flight: [64], hold: 10s, samples: 10", "subscribe" if "subscribers" in devices else "publish"
        asked = ["run", stations, quotas, devices, message, load, {f"{time_of}_p50": "< 1 ms"}]
    with busy_host(case):
        summary = plimsoll(*asked, relays=relays(case) if is_planted else {})
    took = round(time.time() - begin)
    print(f"{case}: {took} s: {summary['verdict']}: {summary['reason']}", flush=True)
    forecasts = []
    for forecast in (summary["experiment"] or {"faster": []})["faster"]:
        if not is_planted or len(names) > 1 or forecast["percent"] == 10:
            continue
        load = f"model: closed, in_flight: [{summary['experiment']['in_flight']}], hold: {MEASURED}s, samples: 10"
        # A level that the generator or the host spoilt is run again.
        level = plimsoll("run", *better(case, forecast["percent"]), devices, message, load)["levels"][-1]
        forecasts.append(forecast | {"measured": level["achieved"]})
        print(f"{case}: {forecast['percent']} %: {forecast['capacity']}, measured {level['achieved']}", flush=True)
    kept = {key: summary[key] for key in ("verdict", "reason", "limits", "experiment", "notes")}
    blames = [level.get("blame") for level in summary["levels"]]
    kept |= {"case": case, "seconds": took, "program": program(), "stations": stations, "names": names, "theory": theory}
    kept |= {"rate": rate, "forecasts": forecasts, "blames": blames}
    os.makedirs(KEPT, exist_ok=True)
    json.dump(kept, open(f"{KEPT}/{case}.json", "w"), indent=1)


def program():
    """Which program it is: the beginning of its SHA-256. A commit would be that of the sources, whatever was built."""
    with open(f"{BUILT}/release/plimsoll", "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:8]


def by_levels(kept):
    """Whom levels blame, without the experiment."""
    return {blame["component"] for blame in kept["blames"] if blame and blame["component"]}


def has_theory(part, kept):
    """Whether a part is a component whose elasticity is known by theory and by experiment."""
    names = part["components"]
    return len(names) == 1 and part["elasticity"]["ci95"] is not None and kept["theory"].get(names[0]) is not None


def judged(kept):
    """Who was named, whether rightly with that kind, and the elasticities that lie outside of what theory allows."""
    named = {name for limit in kept["limits"] for name in [limit["component"], *limit["components"]] if name}
    named = sorted(named | by_levels(kept))
    outside = []
    for part in (kept["experiment"] or {"parts": []})["parts"]:
        if not has_theory(part, kept):
            continue
        name, (low, high) = part["components"][0], part["elasticity"]["ci95"]
        theory = kept["theory"][name]
        margin = 0.2 * theory if name in kept["names"] else 0.15
        if low < theory - margin or high > theory + margin:
            outside.append(f"{name} {low:.2f} to {high:.2f} ({theory:.2f})")
    for path in (kept["experiment"] or {}).get("paths", []):
        at_once = path["at_once"] or {"mean": 0, "ci95": [0, 0]}
        low, high = at_once["ci95"]
        if low < 0.8 * PLACES_OF_POOL or high > 1.2 * PLACES_OF_POOL:
            outside.append(f"{path['component']} {low:.1f} to {high:.1f} at once ({PLACES_OF_POOL})")
    kinds = {limit["kind"] for limit in kept["limits"]}
    is_right = named == sorted(kept["names"]) or not kept["limits"] and set(named) <= set(kept["names"])
    if is_right and kinds <= set(KINDS[kept["case"].split("-")[0]]):
        return named, "right", outside
    return named, "wrong" if kept["limits"] or named else "no name", outside


def why_slower(kept):
    """What the summary says of the time that a limit did not work."""
    said = [line for limit in kept["limits"] for line in limit["evidence"] if "waited for a processor" in line]
    reason = (said or (kept["experiment"] or {}).get("open") or ["nothing is said of it"])[0]
    return f"{reason[:1].upper()}{reason[1:]}."


def forecasts(all_kept):
    """The lines about forecasts, and whether as many hold as of nominal 95 % intervals (binomial test at 1 %), and these are narrow."""
    told = [(kept["case"], one) for kept in all_kept for one in kept["forecasts"]]
    if not told:
        return [], True
    misses, widths = [], []
    for case, one in told:
        low, high = one["capacity"]["ci95"]
        widths.append((high - low) / 2 / one["measured"])
        if not low <= one["measured"] <= high:
            misses.append(f"- {case}, {one['percent']:.0f} % faster: {low:.0f} to {high:.0f}, measured {one['measured']:.0f}")
    many, held = len(told), len(told) - len(misses)
    chance = sum(math.comb(many, k) * 0.95**k * 0.05 ** (many - k) for k in range(held + 1))
    width = sorted(widths)[many // 2]
    is_narrow = width <= 0.1
    lines = [
        "## Forecasts",
        "",
        "The limit of the row was really made 25 % faster, or got a second one (100 %). Each forecast is compared with the",
        f"throughput of that row over {MEASURED} s.",
        "",
        f"Within the 95 % interval: {held} of {many}. If the intervals were right, so few or fewer would be within them",
        f"with a probability of {chance:.2f}. The median half-width is {width * 100:.1f} % of what was measured.",
        "",
        *(["Outside:", "", *misses, ""] if misses else []),
    ]
    return lines, chance >= 0.01 and is_narrow


def write():
    all_kept = [json.load(open(f"{KEPT}/{case}.json")) for case in sorted(cases()) if os.path.exists(f"{KEPT}/{case}.json")]
    rows, accused, counts, near, off, far = [], [], {"right": 0, "no name": 0, "wrong": 0}, [0, 0], [], []
    at_nobody = [kept for kept in all_kept if not kept["names"]]
    for kept in all_kept:
        named, verdict, outside = judged(kept)
        kind = kept["limits"][0]["kind"] if kept["limits"] else ""
        if not kept["names"]:
            accused += [f"- {kept['case']}: {', '.join(named) or kind}"] if verdict == "wrong" or named else []
            continue
        verdict = "no name" if verdict == "right" and not kept["limits"] else verdict
        counts[verdict] += 1
        capacity = f"{kept['experiment']['capacity']['mean']:.0f}" if kept["experiment"] else ""
        known = [part for part in (kept["experiment"] or {"parts": []})["parts"] if has_theory(part, kept)]
        near = [near[0] + len(known) - sum("at once" not in one for one in outside), near[1] + len(known)]
        if kept["experiment"]:
            off.append(kept["experiment"]["capacity"]["mean"] / kept["rate"] - 1)
            far += [f"- {kept['case']}: {100 * off[-1]:+.0f} %. {why_slower(kept)}"] if abs(off[-1]) > NEAR / 2 else []
        rows.append(
            f"| {kept['case']} | {', '.join(kept['names'])} | {', '.join(named)} | {kind} | {verdict} | {', '.join(sorted(by_levels(kept)))} | {kept['rate']:.0f} "
            f"| {capacity} | {'; '.join(outside)} | {kept['seconds']} | {kept['program']} |"
        )
    told, forecasts_hold = forecasts(all_kept)
    programs = {kept["program"] for kept in all_kept}
    # After a mending, all cases of the kinds that it concerns are run again: none may be chosen by its result.
    of_kind = {kept["case"].split("-")[0]: set() for kept in all_kept}
    for kept in all_kept:
        of_kind[kept["case"].split("-")[0]].add(kept["program"])
    mixed = sorted(kind for kind, builds in of_kind.items() if len(builds) > 1)
    slowed = [kept for kept in at_nobody if kept["experiment"] and len(kept["experiment"]["parts"]) > 0]
    missing = len(cases()) - len(all_kept)
    total = sum(kept["seconds"] for kept in all_kept)
    lines = [
        "# Experiments on real stations",
        "",
        "`bench/verdict.py` starts rows of stations and runs `plimsoll why` against them ([experiments](../why.md)). The runs",
        f"of `plimsoll why` took {total / 60:.0f} minutes.",
        *([f"{missing} of {len(cases())} cases were not run yet."] if missing else []),
        "",
        "## Planted limits",
        "",
        "A case is named by its kind, the position of the limit and the number of stations. `planted` and `named` are",
        "components. `by levels` has whom the level beyond the limit blames by what was observed, without an experiment.",
        "Components that hardly compute do not show there. `outside` has each elasticity whose 95 % interval is not within",
        "what theory allows, with the theory. That is a fifth of it for the limit, and 0.15 for the others. Locks, pools and",
        "what stands behind a pool have no theory for a component alone.",
        "",
        f"Named right: {counts['right']}, wrong: {counts['wrong']}, not at all: {counts['no name']}.",
        f"{near[0]} of {near[1]} elasticities are within what theory allows. The capacity that was found is between",
        f"{100 * min(off, default=0):+.0f} % and {100 * max(off, default=0):+.0f} % of the planted one, which knows nothing of what a station does beside its work.",
        "Stations that compute share a processor with those that wait, which then begin late. More than "
        f"{100 * NEAR / 2:.0f} % are missing here:",
        "",
        *far,
        "",
        *([f"The rows are of {len(programs)} builds of the program, each kind of one."] if len(programs) > 1 and not mixed else []),
        *([f"Rows of one kind are of several builds: {', '.join(mixed)}."] if mixed else []),
        "",
        "| case | planted | named | kind | | by levels | planted /s | found /s | outside | seconds | build |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *rows,
        "",
        *told,
        "## Nothing of the platform limits",
        "",
        "The generator, the subscriber or the host limits. No component may be named, and no other cause than the planted one.",
        "",
        f"Something else was named in {len(accused)} of {len(at_nobody)} runs. In {len(slowed)} of them, an experiment slowed components. The",
        "others are judged by a level that was missed, or their experiment ended before it slowed anything.",
        "",
        *([*accused, ""] if accused else []),
    ]
    open(PAGE, "w").write("\n".join(lines))
    identified = counts["right"] >= 0.9 * sum(counts.values()) and not counts["wrong"]
    is_near = near[0] >= 0.8 * near[1] and all(abs(one) < NEAR for one in off)
    return identified and is_near and forecasts_hold and not accused and not missing and not mixed


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cases", default=",".join(cases()))
    options.add_argument("--within", default="20m")
    options.add_argument("--write", action="store_true")
    chosen = options.parse_args()
    # What it has started ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if not chosen.write:
        # Two at once would disturb each other. The lock ends with this program.
        os.makedirs(KEPT, exist_ok=True)
        lock = os.open(KEPT, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"{sys.argv[0]} runs already: its cases would be disturbed")
    for case in [] if chosen.write else chosen.cases.split(","):
        if not os.path.exists(f"{KEPT}/{case}.json"):
            run(case, chosen.within)
    is_met = write()
    for line in open(PAGE):
        if line.startswith(("Named right", "Within the 95", "Something else was named")):
            print(line.strip())
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
