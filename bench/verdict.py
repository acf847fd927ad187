#!/usr/bin/env python3
"""What `plimsoll why` says of rows of real stations with one planted limit each.

    bench/verdict.py [--cases KIND-POSITION-STATIONS,...] [--within TIME] [--write]

Each case starts three to five stations as processes of their own on this host, one behind the other, and runs
`plimsoll why` against them. One of them limits, by its kind; the others are busy for up to half of the time. A result
is kept in docs/results/verdict/ as JSON, and a case that has one is not run again. Delete the file to do so. `--write`
makes docs/results/verdict.md of all results, failures included. Nothing else should run meanwhile.

Kinds: sleeping, workers (a pool of waiting threads), quota, pool (few connections to the next station), lock (two
stations that hold one lock file while they wait), cores (all compute on the platform's processors).
"""
import argparse, json, os, random, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BUILT = os.environ.get("CARGO_TARGET_DIR", f"{ROOT}/target")
KEPT = f"{ROOT}/docs/results/verdict"
PAGE = f"{ROOT}/docs/results/verdict.md"
KINDS = ["sleeping", "workers", "quota", "pool", "lock", "cores"]
# Station of the limit, and stations in the row.
PLACES = [(0, 3), (1, 3), (2, 3), (1, 4), (3, 5)]


def cases():
    return [f"{kind}-{place}-{count}" for kind in KINDS for place, count in PLACES]


def planted(case):
    """The stations, the quotas, who may be named, each one's theory where there is one, and the capacity by theory."""
    kind, place, count = case.split("-")
    place, count = int(place), int(count)
    draw = random.Random(case)
    # Stations that compute share one processor here: together they use less than 0.7 of it at the load line.
    rate = draw.uniform(100, 200)
    micros = lambda seconds: f"exponential:{seconds * 1e6:.0f}us"
    stations = []
    for at in range(count):
        computes = at != place and draw.random() < 0.3
        busy = draw.uniform(0.05, 0.15) if computes else draw.uniform(0.1, 0.5)
        stations.append({"work": "spin" if computes else "wait", "service": micros(busy / rate)})
    limit, quotas, names = stations[place], {}, [f"s{place}"]
    theory = {f"s{at}": 0.0 for at in range(count)}
    theory[f"s{place}"] = 1.0
    if kind == "sleeping":
        limit.update(work="wait", service=micros(1 / rate))
    elif kind == "workers":
        limit.update(work="wait", service=micros(4 / rate), workers=4)
    elif kind == "quota":
        limit.update(work="spin", service=micros(0.3 / rate))
        quotas = {f"s{place}": 0.3}
    elif kind == "pool":
        place = min(place, count - 2)
        stations[place].update(work="wait", service=micros(0.3 / rate), pool=3)
        stations[place + 1].update(work="wait", service=micros(3 / rate), workers=20)
        names = [f"s{place}", f"s{place + 1}"]
        theory = {f"s{at}": None if at in (place, place + 1) else 0.0 for at in range(count)}
    elif kind == "lock":
        other = (place + 1) % count
        share = draw.uniform(0.4, 0.6)
        for at, part in ((place, share), (other, 1 - share)):
            stations[at].update(work="wait", service=micros(0.02 / rate), lock=micros(part / rate), file="shared.lock", workers=2)
        names = sorted([f"s{place}", f"s{other}"])
        theory = {f"s{at}": None if at in (place, other) else 0.0 for at in range(count)}
    elif kind == "cores":
        parts = [draw.uniform(0.3, 1) for _ in range(count)]
        for at, part in enumerate(parts):
            stations[at].update(work="spin", service=micros(part / sum(parts) / rate))
        names = [f"s{at}" for at in range(count)]
        theory = {f"s{at}": part / sum(parts) for at, part in enumerate(parts)}
    return stations, quotas, names, theory, rate


def profile(stations):
    components = []
    for at, station in reversed(list(enumerate(stations))):
        command = ["{plimsoll}", "target", "station", "--port", f"{{port:p{at}}}", "--service", station["service"]]
        command += ["--workers", str(station.get("workers", 1)), "--work", station["work"], "--seed", str(at + 1)]
        if "lock" in station:
            command += ["--lock", station["lock"], "--lock-file", "{dir}/" + station["file"]]
        if at + 1 < len(stations):
            command += ["--next", f"127.0.0.1:{{port:p{at + 1}}}"]
            command += ["--pool", str(station["pool"])] if "pool" in station else []
        component = {"name": f"s{at}", "command": command, "ready_port": f"p{at}"}
        components.append(component | ({"mqtt_port": "p0"} if at == 0 else {}))
    return {"name": "row", "title": "stations in a row", "description": "planted", "components": components}


def run(case, within):
    stations, quotas, names, theory, rate = planted(case)
    with tempfile.TemporaryDirectory() as folder:
        json.dump(profile(stations), open(f"{folder}/row.yaml", "w"))
        limits = f", quotas: {json.dumps(quotas)}" if quotas else ""
        open(f"{folder}/run.yaml", "w").write(
            f"name: verdict\nplatform: {{ profile: ./row.yaml{limits} }}\npopulation: {{ devices: 100 }}\n"
            f"load: {{ warm_up: 1s, drain: 3s, experiment: {{ within: {within} }} }}\n"
        )
        begin = time.time()
        command = [f"{BUILT}/release/plimsoll", "why", "run.yaml", "-q", "--no-report", "--summary-json", "out.json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if not os.path.exists(f"{folder}/out.json"):
            sys.exit(f"{case}: {done.stdout}{done.stderr}")
        summary = json.load(open(f"{folder}/out.json"))
    if summary["verdict"] == "interrupted":
        sys.exit(f"{case}: {summary['reason']}")
    took = round(time.time() - begin)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    kept = {key: summary[key] for key in ("verdict", "reason", "limits", "experiment", "notes")}
    kept |= {"case": case, "seconds": took, "commit": commit, "stations": stations, "names": names, "theory": theory, "rate": rate}
    os.makedirs(KEPT, exist_ok=True)
    json.dump(kept, open(f"{KEPT}/{case}.json", "w"), indent=1)
    print(f"{case}: {took} s: {summary['reason']}", flush=True)


def judged(kept):
    """Who was named, whether rightly, and the elasticities that lie outside of what theory allows."""
    named = sorted({name for limit in kept["limits"] for name in [limit["component"], *limit["components"]] if name})
    outside = []
    for part in (kept["experiment"] or {"parts": []})["parts"]:
        if len(part["components"]) != 1 or not part["elasticity"]["ci95"]:
            continue
        name, (low, high) = part["components"][0], part["elasticity"]["ci95"]
        theory = kept["theory"][name]
        if theory is None:
            continue
        margin = 0.2 * theory if name in kept["names"] else 0.15
        if low < theory - margin or high > theory + margin:
            outside.append(f"{name} {low:.2f} to {high:.2f} ({theory:.2f})")
    return named, outside


def write():
    rows, right, wrong, silent = [], 0, 0, 0
    for case in cases():
        path = f"{KEPT}/{case}.json"
        if not os.path.exists(path):
            continue
        kept = json.load(open(path))
        named, outside = judged(kept)
        verdict = "right" if named == sorted(kept["names"]) else "no name" if not named else "wrong"
        right, wrong, silent = right + (verdict == "right"), wrong + (verdict == "wrong"), silent + (verdict == "no name")
        kind = kept["limits"][0]["kind"] if kept["limits"] else ""
        capacity = kept["experiment"]["capacity"]["mean"] if kept["experiment"] else float("nan")
        rows.append(
            f"| {case} | {', '.join(kept['names'])} | {', '.join(named)} | {kind} | {verdict} | {kept['rate']:.0f} "
            f"| {capacity:.0f} | {'; '.join(outside)} | {kept['seconds']} | {kept['commit']} |"
        )
    missing = [case for case in cases() if not os.path.exists(f"{KEPT}/{case}.json")]
    total = sum(json.load(open(f"{KEPT}/{case}.json"))["seconds"] for case in cases() if case not in missing)
    lines = [
        "# Experiments on real stations with a planted limit",
        "",
        "`bench/verdict.py` starts rows of stations and runs `plimsoll why` against them ([experiments](../why.md)). A case is",
        "named by its kind, the position of the limit and the number of stations. `planted` and `named` are components.",
        "`outside` has each elasticity whose 95 % interval is not within what theory allows, with the theory. That is a",
        "fifth of it for the limit, and 0.15 for the others. Locks and pools have no theory for a component alone.",
        "",
        f"Named right: {right}, wrong: {wrong}, not at all: {silent}. They took {total / 60:.0f} minutes.",
        *([f"{len(missing)} of {len(cases())} cases were not run yet."] if missing else []),
        "",
        "| case | planted | named | kind | | planted /s | found /s | outside | seconds | commit |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *rows,
        "",
    ]
    open(PAGE, "w").write("\n".join(lines))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cases", default=",".join(cases()))
    options.add_argument("--within", default="20m")
    options.add_argument("--write", action="store_true")
    chosen = options.parse_args()
    for case in [] if chosen.write else chosen.cases.split(","):
        if not os.path.exists(f"{KEPT}/{case}.json"):
            run(case, chosen.within)
    write()


if __name__ == "__main__":
    main()
