#!/usr/bin/env python3
"""Compares MQTT brokers on one processor, by Plimsoll: processor time of a message at fixed loads, load lines, memory, storms.

    bench/brokers.py [--runs 3] [--quick] [--again] [--brokers NAME,...] [--cells NAME,...] [--hours HOURS] [--write]

Generator and broker have a core each of a host of two. Each run starts its broker anew. The runs go in turns. In a turn the cells
come one after the other, and in a cell all brokers, both in an order that is drawn. A cell of a turn is measured within an hour,
or once more, so that hours and hosts make no difference of brokers (`differences.py`). A run whose level does not count is made
once more, at once.

A result is kept in docs/results/brokers/ as JSON, and what has one is not run again; delete the file to do so. `--hours` begins
no run after that time. `--write` makes docs/results/brokers.md and differences.csv of all results (`brokers_page.py`). `--quick`
takes only the cells that are marked as quick. `--again` keeps the results in docs/results/brokers/again/; the page then says which
differences have shifted. Nothing else should run meanwhile. Before: `cargo build --release`, `source scripts/peers`,
`source scripts/brokers`.
"""
import argparse, datetime, fcntl, functools, hashlib, json, math, os, random, signal, subprocess, sys, tempfile, time

from broker_cells import BLOCK, BROKERS, CELLS, COMPILED_AS_THEY_RUN, COMPONENTS, DOWN, LEVELS_WHERE_COMPILED, ROOT, WAYS, way, works
from brokers_page import AGAIN, KEPT, missed_lowest, path_of, write

# The exit code of a scenario that is wrong: no other run would be better.
REFUSED = 104
PLIMSOLL = os.path.join(os.environ.get("CARGO_TARGET_DIR", f"{ROOT}/target"), "release/plimsoll")


def commit():
    """The commit of the sources; a plus says that they have changes beside it."""

    def git(*arguments):
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True).stdout.strip()

    changes = git("status", "--porcelain", "--untracked-files=no", "--", "bench", "crates", "platforms")
    return git("rev-parse", "--short=12", "HEAD") + ("+" if changes else "")


@functools.cache
def program():
    """The beginning of the digest of the program, which says whether two runs had the same one."""
    with open(PLIMSOLL, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def scenario(cell, broker):
    title, _, _, _, keys, kind = CELLS[cell][:6]
    by = WAYS[way(cell)].get(broker, {})
    platform = {"profile": broker} | ({"mapping": by} if isinstance(by, str) else by)
    whole = {"name": f"brokers-{cell}", "description": title, "platform": platform, "connection": {"timeout": "30s"}} | keys
    # Reading them would cost some brokers more than others.
    whole["record"] = {"profile_metrics": False}
    if kind == "each" and broker in COMPILED_AS_THEY_RUN:
        rate = keys["load"]["levels"][-1]
        whole["load"] = keys["load"] | {"levels": [rate * part for part in LEVELS_WHERE_COMPILED]}
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
    return level["recovery"] - DOWN, None


def counts(kind, result):
    """Whether a run has a figure of levels that count. A search says itself which of its levels do. One whose lowest level was missed has
    found that the line is below that."""
    found, validity = result["figure"], result["validity"]
    if missed_lowest(kind, result):
        return True
    needed = {"each": validity[-1:], "memory": validity, "line": [], "recovery": validity}[kind]
    return found is not None and found > 0 and all(one == "valid" for one in needed)


def tried(cell, broker):
    """What a run has found."""
    kind = CELLS[cell][5]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.yaml")
        json.dump(scenario(cell, broker), open(path, "w"))
        command = [PLIMSOLL, "run", path, "-q", "--no-report", "--store", os.path.join(folder, "runs.db"), "--summary-json", os.path.join(folder, "out.json")]
        done = subprocess.run(command, capture_output=True, text=True)
        found, beside, of_levels, validity, levels, platform, plimsoll, why = None, None, [], [], [], None, None, None
        try:
            summary = json.load(open(os.path.join(folder, "out.json")))
            platform, plimsoll = summary["provenance"].get("platform"), summary["provenance"].get("plimsoll")
            validity = [level["validity"] for level in summary["levels"]]
            levels = [{key: level[key] for key in ("offered", "sent", "acknowledged", "expected_deliveries", "delivered", "lost", "duplicated", "reordered", "reconnects")} for level in summary["levels"]]
            found, beside = figure(kind, summary)
            of_levels = [each(level) for level in summary["levels"]] if kind == "each" else []
        except (OSError, ValueError, KeyError, TypeError, IndexError, ZeroDivisionError) as error:
            why = f"{error!r}; {(done.stdout + done.stderr).strip()[-300:]}"
    return {
        "figure": found, "beside": beside, "of_levels": of_levels, "validity": validity, "levels": levels, "code": done.returncode, "why": why,
        "platform": platform, "plimsoll": plimsoll,
    }


def run(cell, broker, turn, folder_of_results):
    kind, began, spoiled = CELLS[cell][5], datetime.datetime.now(datetime.UTC), []
    found = tried(cell, broker)
    if found["code"] == REFUSED:
        sys.exit(f"{cell}, {broker}: {found['why']}")
    if not counts(kind, found):
        spoiled.append({key: found[key] for key in ("figure", "validity", "code", "why")})
        found = tried(cell, broker)
    seconds = (datetime.datetime.now(datetime.UTC) - began).total_seconds()
    kept = {
        "cell": cell, "broker": broker, "turn": turn, **found, "counts": counts(kind, found), "spoiled": spoiled,
        "seconds": round(seconds), "began": began.isoformat(sep=" ", timespec="seconds"), "program": program(), "commit": commit(),
    }
    json.dump(kept, open(path_of(folder_of_results, cell, broker, turn), "w"), indent=1)
    print(f"{cell} {broker} {turn}: {found['figure'] and round(found['figure'], 2)} {CELLS[cell][1]}, {kept['seconds']} s", flush=True)


def block(cell, brokers, turn, folder, end):
    """Measures a cell in a turn, as far as it has no results of the same hour. An older result stays until there is another one."""
    paths = {broker: path_of(folder, cell, broker, turn) for broker in brokers}
    began = {
        broker: datetime.datetime.fromisoformat(json.load(open(path))["began"]) for broker, path in paths.items() if os.path.exists(path)
    }
    is_together = began and max(began.values()) - min(began.values()) < datetime.timedelta(seconds=2 * BLOCK)
    if len(began) == len(brokers) and is_together:
        return
    oldest = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=BLOCK)
    for broker in brokers:
        if (broker not in began or began[broker] < oldest) and time.time() < end:
            run(cell, broker, turn, folder)


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
    for folder in (KEPT, kept):
        os.makedirs(folder, exist_ok=True)
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
        draw = random.Random(f"{turn} {options.again}")
        draw.shuffle(cells)
        for cell in cells:
            brokers = [broker for broker in options.brokers.split(",") if works(cell, broker)]
            draw.shuffle(brokers)
            block(cell, brokers, turn, kept, end)
    write()


if __name__ == "__main__":
    main()
