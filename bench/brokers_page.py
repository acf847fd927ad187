"""The page of the compared brokers: docs/results/brokers.md, and all differences in docs/results/brokers/differences.csv."""
import csv, datetime, json, math, os, statistics, textwrap

from broker_cells import BLOCK, BROKERS, CELLS, COMPILED_AS_THEY_RUN, LEVELS, LEVELS_WHERE_COMPILED, METHOD, ROOT, conformance, forgetful, works
from differences import FALSE, FEWEST, Comparison, interval, letters, share_of_cells, shifted, spreads

KEPT = f"{ROOT}/docs/results/brokers"
AGAIN = f"{KEPT}/again"
PAGE = f"{ROOT}/docs/results/brokers.md"
TABLE = f"{KEPT}/differences.csv"
# A broker is done with warming up where its last two levels differ by no more than that.
SETTLED = 0.1
# A search knows a figure to such a step.
STEPS = {"line-0": 1.1, "line-1": 1.1, "connections": 1.4}
# What each kind of figure is called, and where it stands.
KINDS = {
    "each": "Processor time of a message at a fixed load", "line": "Load lines", "memory": "Memory", "recovery": "Storms",
}


# A broker that takes more of its processor at a fixed load is not compared there.
MOST_OF_PROCESSOR = 0.5
# Exit code of a run that missed its objectives.
MISSED = 99
# When the limits were lifted of which the page says that earlier runs had them.
LIMITS_LIFTED = "2026-12-01 01:00:00+00:00"
# A share of what has shifted is small where it is surely not above that.
FEW_SHIFTED = 0.1


def missed_lowest(kind, result):
    """Whether a search has missed its lowest level, so that the line is below that."""
    validity = result["validity"]
    return kind == "line" and result["figure"] is None and result["code"] == MISSED and bool(validity) and set(validity) == {"valid"}


def path_of(folder, cell, broker, turn):
    return f"{folder}/{cell}-{broker}-{turn}.json"


def results(folder):
    if not os.path.isdir(folder):
        return []
    return [json.load(open(f"{folder}/{name}")) for name in sorted(os.listdir(folder)) if name.endswith(".json")]


class Measured:
    """All runs of a campaign: what they say, and which of them say nothing."""

    def __init__(self, folder):
        self.runs = [one for one in results(folder) if one["cell"] in CELLS and one["broker"] not in forgetful(one["cell"])]
        began = {}
        for one in self.runs:
            began.setdefault((one["cell"], one["turn"]), []).append(datetime.datetime.fromisoformat(one["began"]))
        # What was not measured together is not compared.
        self.apart = {block for block, times in began.items() if (max(times) - min(times)).total_seconds() > 2 * BLOCK}
        # Of whom a load line is known to be at least so high, and at most.
        self.figures, self.bounds, self.ceilings, self.failed = {}, set(), set(), []
        for one in self.runs:
            if (one["cell"], one["turn"]) in self.apart:
                continue
            cell, broker, kind = one["cell"], one["broker"], CELLS[one["cell"]][5]
            figure = one["figure"]
            if missed_lowest(kind, one):
                figure = min(level["offered"] for level in one["levels"])
                self.ceilings.add((cell, broker))
            elif not one["counts"]:
                self.failed.append(one)
                continue
            elif kind == "line" and one["beside"]:
                self.bounds.add((cell, broker))
            self.figures.setdefault(cell, {}).setdefault(broker, {})[one["turn"]] = math.log(figure)
        self.not_compared = {(cell, broker): why for cell in self.figures for broker in self.figures[cell] if (why := self.reason(cell, broker))}
        compared = {
            cell: {broker: turns for broker, turns in of.items() if (cell, broker) not in self.not_compared} for cell, of in self.figures.items()
        }
        self.spreads = {cell: spreads(of, STEPS.get(cell, 1.0)) for cell, of in compared.items()}
        for cell, broker in self.bounds | self.ceilings:
            # Bounds are closer together than what they bound.
            of = self.spreads[cell]
            if broker in of:
                of[broker].variance = max(one.variance for one in of.values())

    def is_tested(self, cell, one, other):
        """Where the lower one has only a lower bound in some run, it may be as high as the other one, and where the higher one has only an
        upper bound, as low: nothing is tested."""
        lower, higher = sorted((one, other), key=lambda name: self.spreads[cell][name].mean)
        return (cell, lower) not in self.bounds and (cell, higher) not in self.ceilings

    def reason(self, cell, broker):
        """Why a broker is not compared at a fixed load, by the runs that count; `None` where it is."""
        runs = [one for one in self.runs if (one["cell"], one["broker"]) == (cell, broker) and one["counts"] and one["turn"] in self.figures[cell][broker]]
        if CELLS[cell][5] != "each" or len(runs) < FEWEST:
            return None
        rate = CELLS[cell][4]["load"]["levels"][-1]
        used = statistics.fmean(one["figure"] for one in runs) * rate / 1e6
        if used > MOST_OF_PROCESSOR:
            return f"{used * 100:.0f} % of its processor"
        before = statistics.fmean(math.log(one["of_levels"][-2] / one["of_levels"][-1]) for one in runs)
        if abs(before) > math.log(1 + SETTLED):
            return f"not settled: the last level but one took {math.exp(before):.2f} times as much"
        return None


def spoken(began):
    return began.replace("+00:00", " UTC")


def shown_span(span):
    return f"{shown(span[0])} to {shown(span[1])}" if span else "–"


def is_settled(one):
    *_, before, last = one["of_levels"]
    return abs(before / last - 1) <= SETTLED


def shown(number):
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def cold(measured):
    """What brokers take while they warm up, beside what they take then."""
    runs = [one for one in measured.runs if one["counts"] and CELLS[one["cell"]][5] == "each"]
    # Each broker in the same cells.
    cells = {cell for cell in CELLS if {one["broker"] for one in runs if one["cell"] == cell} == set(BROKERS)}
    runs = [one for one in runs if one["cell"] in cells]
    lines = ["## Warm and cold", "", "Processor time of a message in the first level / in the last one, over the cells that all brokers have. A ratio above 1 says that", f"the broker was still warming up in the first one. A run is *settled* where its last two levels differ by {SETTLED * 100:.0f} % at most.", ""]
    lines += ["| broker | ratio | 95 % | settled | runs |", "|---|---|---|---|---|"]
    logs = {name: [math.log(one["beside"] / one["figure"]) for one in runs if one["broker"] == name] for name in BROKERS}
    for name, of in sorted(((name, of) for name, of in logs.items() if of), key=lambda item: statistics.fmean(item[1])):
        mean, span = interval(of)
        settled = sum(is_settled(one) for one in runs if one["broker"] == name)
        lines.append(f"| {name} | {shown(mean)} | {shown_span(span)} | {settled} | {len(of)} |")
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
        return f"{killed['came']} of {killed['acknowledged']}, {killed['twice']} twice"

    is_fresh = all(one.get("method") == METHOD for one in conformance())
    lines = ["", "## Promises", ""]
    lines += ["An independent client looks whether brokers keep what MQTT promises (Eclipse Paho, `bench/conformance.py`).", "", "- *Shared*: what the members of a group of four get, from the least to the most.", f"- *After kill -9*: the broker is killed while 1,000 messages for an absent subscriber come to it{', 250 in a second' if is_fresh else ', as fast as it acknowledges them'}. Of those that it had acknowledged before, so many come when it is back. The client sends again what was not acknowledged, so some may come twice. The profiles of all but RabbitMQ and NATS keep everything in memory. A killed process is no power failure: what the kernel has is not lost.", "- *On disk*: the same where a variable of the profile (`persistence`) lets the broker keep sessions and messages on disk. RabbitMQ and NATS do so without. Moquette writes once a second, and acknowledges before.", "- `–` says that this version of MQTT does not have it, or the broker does not announce it.", "- Each check has a broker of its own. One that found a promise broken was made twice more, but for shares and kills." if is_fresh else "- Each check was made once, and all of a version at one broker, one after the other.", ""]
    lines += [f"| broker | MQTT | {' | '.join(names.values())} | shared | after kill -9 | on disk |", "|---" * (len(names) + 5) + "|"]
    for one in conformance():
        for version, checks in one["versions"].items():
            cells = [said(checks.get(name)) for name in names]
            lines.append("| " + " | ".join([named(one), version, *cells, share(checks.get("shared")), after(checks.get("killed")), after(checks.get("killed_on_disk"))]) + " |")
    return lines


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


def shifts(measured, again):
    """How many differences of two brokers shifted when all was measured again."""
    began = [one["began"] for one in again.runs]

    def is_tested(cell, *pair):
        bounds = measured.bounds | measured.ceilings | again.bounds | again.ceilings
        return not any((cell, name) in bounds for name in pair)

    found = shifted(measured.spreads, again.spreads, is_tested)
    lines = ["", "## Measured again", ""]
    lines += [f"{len(again.runs)} runs were made a second time, from {spoken(min(began))} to {spoken(max(began))}, in another order. A difference has", "shifted where its change excludes zero at 95 % (Welch's test on logarithms, over both times). Without any true change, 5 % do at", "most.", ""]
    lines += ["| cell | differences | shifted |", "|---|---|---|"]
    lines += [f"| {CELLS[cell][0]} | {pairs} | {moved} |" for cell, (pairs, moved) in found.items()]
    share = share_of_cells(found)
    if share:
        mean, low, high = (f"{part * 100:.1f} %" for part in share)
        if share[1] > FALSE:
            told = "This is more than that rate: something else than chance shifts them."
        elif share[2] <= FEW_SHIFTED:
            told = f"This is not more than {FEW_SHIFTED * 100:.0f} %."
        else:
            told = "Whether this is more than that rate is not known: it needs more cells."
        lines += ["", f"{mean} have shifted (95 %: {low} to {high}, by drawing cells). {told}"]
    return lines


def intro(measured, comparison):
    runs = measured.runs
    programs = {}
    for one in runs:
        if one["plimsoll"]:
            named = f"{one['plimsoll']} ({one['program']}, sources {one['commit']})"
            programs[named] = programs.get(named, 0) + 1
    grid = sum(works(cell, broker) for cell in CELLS for broker in BROKERS)
    mean = {kind: statistics.fmean([one["seconds"] for one in runs if CELLS[one["cell"]][5] == kind] or [0]) for kind in KINDS}
    hours = {
        is_quick: 3 * sum(mean[CELLS[cell][5]] for cell in CELLS for broker in BROKERS if works(cell, broker) and (CELLS[cell][2] or not is_quick)) / 3600
        for is_quick in (False, True)
    }
    unknown = [title.lower() for kind, title in KINDS.items() if not mean[kind]]
    told_hours = f"all take {hours[False]:.1f} hours{' without ' + ' and '.join(unknown) if unknown else ''}, those of `--quick` {hours[True]:.1f}"
    lines = [
        "# MQTT brokers on one processor",
        "",
        "Generator and broker have a core each of a host of two. So brokers with one thread are favoured, and no figure here says",
        "what a broker does on a larger machine. `bench/brokers.py` makes this page. Each broker is started by the profile of its",
        "name, whose `limits` say what is lifted. RabbitMQ and NATS keep sessions and messages at QoS 1 on disk, the others in",
        "memory. `embedded` is Plimsoll's own broker.",
        "",
    ]
    if not runs:
        return lines + ["Nothing was run yet."]
    done = len({(one["cell"], one["broker"], one["turn"]) for one in runs if one["turn"] < 3})
    return lines + [
        f"There are {len(runs)} runs, which took {sum(one['seconds'] for one in runs) / 3600:.1f} hours, from {spoken(min(one['began'] for one in runs))} to {spoken(max(one['began'] for one in runs))}.",
        f"Of these, {sum(one['began'] < LIMITS_LIFTED for one in runs)} are from before {LIMITS_LIFTED[:16]} UTC, when three profiles had further limits. HiveMQ had 50 messages in flight for a client, and dropped all but 1,000 messages at QoS 0 for one that reads slowly. A thread of Moquette's dropped what waited beyond 1,024 messages. RabbitMQ and Moquette had 128 connections that wait to be accepted.",
        f"They were made by Plimsoll {', '.join(f'{named}: {count} runs' for named, count in sorted(programs.items()))}." if programs else "",
        "Brokers are compared within a turn of a cell, which one program has measured." if len(programs) > 1 else "",
        f"Three runs of each of the {grid} cells are {3 * grid} runs, of which {done} were made. By these, {told_hours}." if mean["each"] else "",
        "",
        "Each run starts its broker afresh. Runs go in turns. In a turn, all brokers are measured in a cell one after the other, in an",
        "order that is drawn. Figures are geometric means over turns with their 95 % intervals (Student, on logarithms). The order of",
        "rows is that of the means, and no ranking.",
        "",
        f"Cells with fewer than three turns are not compared. Two brokers have a letter in common exactly where they are not distinguished, or were not compared. Of the {len(comparison.pairs)} pairs in all cells, {comparison.count()}",
        f"differ. The false discovery rate is {FALSE * 100:.0f} % (Benjamini and Hochberg, 1995), by Welch's tests on logarithms from which what",
        f"turns have in common was taken out. Intervals of differences are at {(1 - comparison.level) * 100:.1f} %: one excludes 1 exactly where the two differ",
        "(Benjamini and Yekutieli, 2005). [All differences](brokers/differences.csv) are in a table.",
        "",
        "Compare brokers within a table, and not tables: these were measured in different hours, and the host is not always as fast.",
        "",
    ]


def rows(cell, measured, comparison):
    """The table of a cell."""
    kind = CELLS[cell][5]
    of_brokers = {name: list(of.values()) for name, of in measured.figures[cell].items()}
    is_falling = kind == "line"
    order = sorted(of_brokers, key=lambda name: statistics.fmean(of_brokers[name]), reverse=is_falling)
    are_compared = any(pair[0] == cell for pair in comparison.pairs)
    own = [name for name in order if name in measured.spreads[cell]]
    told = dict.fromkeys(order, "–")
    if are_compared:
        told |= letters(own, lambda one, other: comparison.differ(cell, one, other))
    extra = " settled |" if kind == "each" else " lost |" if kind == "recovery" else ""
    lines = [f"**{CELLS[cell][0]}**, {CELLS[cell][1]}:", "", f"| broker | mean | 95 % | times the {'highest' if is_falling else 'lowest'} | interval | runs |{extra} |", "|---" * (7 + bool(extra)) + "|"]
    for name in order:
        runs = [one for one in measured.runs if one["counts"] and (one["cell"], one["broker"]) == (cell, name)]
        mean, span = interval(of_brokers[name])
        sign = "≥ " if (cell, name) in measured.bounds else "≤ " if (cell, name) in measured.ceilings else ""
        times = comparison.times(cell, name, own[0]) if own and name != own[0] else None
        # Where one of them is only bounded, so is their ratio: it is not tested in the other direction.
        is_bound = times and any((cell, one) in measured.bounds | measured.ceilings for one in (name, own[0]))
        compared = "– | –" if not times else f"≤ {shown(times[0])} | below {shown(times[2])}" if is_bound else f"{shown(times[0])} | {shown_span(times[1:])}"
        beside = ""
        if kind == "each":
            beside = f" {sum(map(is_settled, runs))} |"
        if kind == "recovery":
            beside = f" {sum(one['levels'][-1]['lost'] for one in runs):,} of {sum(one['levels'][-1]['expected_deliveries'] for one in runs):,} |"
        lines.append(f"| {name} | {sign}{shown(mean)} | {'–' if sign else shown_span(span)} | {compared} | {len(of_brokers[name])} |{beside} {told[name]} |")
    failed = sorted({one["broker"] for one in measured.failed if one["cell"] == cell} - set(of_brokers))
    lines += [f"| {name} | – | – | – | – | – |{' – |' if extra else ''} |" for name in [*forgetful(cell), *failed]]
    lines += ["", *(f"{name} keeps no session: of messages for an absent subscriber, {said}." for name, said in forgetful(cell).items())] if forgetful(cell) else []
    why_not = [f"- {name}: {why}" for (of, name), why in sorted(measured.not_compared.items()) if of == cell]
    lines += ["", "Not compared:", "", *why_not] if why_not else []
    missing = [name for name in BROKERS if name not in of_brokers and works(cell, name) and name not in failed]
    if missing:
        lines += ["", f"Not run yet: {', '.join(missing)}."]
    return lines + [""]


def explained(kind):
    if kind == "each":
        compiled = ", ".join(sorted(COMPILED_AS_THEY_RUN))
        return [
            f"A run has {len(LEVELS)} equal levels of 5 s, and the last one counts. Virtual machines that compile what runs often ({compiled}) have",
            f"{len(LEVELS_WHERE_COMPILED)}, and some in between have {max(LEVELS_WHERE_COMPILED)} times the load. *Settled* says in how many runs the last two levels agree within {SETTLED * 100:.0f} %.",
            f"Two kinds of brokers are not compared. One takes more than {MOST_OF_PROCESSOR * 100:.0f} % of its processor. Of the other one, the last two levels differ by more than {SETTLED * 100:.0f} % in the mean over turns: it has not settled.",
            "The time that a broker uses without load is included. At 4/s and 20/s, with 20 to 100 messages, it may be most of the figure.", "",
        ]
    if kind == "memory":
        return ["The slope of resident memory over 500, 2,000 and 4,000 connections. Of Java, that is how its heap grows.", ""]
    if kind == "line":
        return [
            "The highest rate at which 99 % of messages reach their subscriber within 100 ms and 99.9 % do at all. `≥` says that some run did",
            "not find where it ends: the generator was the limit, or a level decided nothing. It is not compared with what is higher. `≤` says",
            "that some run missed the lowest rate, which stands for it. Figures are known to a step of 10 %, and connections to one of 40 %;",
            "intervals of differences include that.", "",
        ]
    return [
        "A broker is killed and started 3 s later. The figure is the time from then until all clients are back, whose pauses between two",
        "attempts are 0.5 s at most. *Lost* are messages that devices had sent and that no subscriber received.", "",
    ]


def became(measured):
    """What became of messages."""
    lines = ["## What became of messages", ""]
    for is_line, title in ((False, "In all levels at fixed loads:"), (True, "In all levels of searches for load lines, of which many are far beyond the line:")):
        fates = {}
        for one in measured.runs:
            if (CELLS[one["cell"]][5] == "line") != is_line or CELLS[one["cell"]][5] == "recovery":
                continue
            of = fates.setdefault(one["broker"], dict.fromkeys(("sent", "expected_deliveries", "lost", "duplicated", "reordered"), 0))
            for level in one["levels"]:
                for key in of:
                    of[key] += level[key] or 0
        lines += [title, "", "| broker | sent | expected | lost | twice | out of order |", "|---|---|---|---|---|---|"]
        lines += ["| " + " | ".join([name, *(f"{count:,}" for count in of.values())]) + " |" for name, of in sorted(fates.items())]
        lines.append("")
    return lines + silent(measured)


def silent(measured):
    """Runs in which a broker took messages, and acknowledged and delivered none of them in time, in all levels from some level on."""
    lines = []
    for one in measured.runs:
        if CELLS[one["cell"]][5] not in ("each", "line") or not one["levels"] or "acknowledged" not in one["levels"][0]:
            continue
        answers = [level["acknowledged"] or level["delivered"] or not level["sent"] for level in one["levels"]]
        after = next((place for place in range(len(answers)) if not any(answers[place:])), None)
        if after:
            before, lowest = one["levels"][after - 1]["offered"], min(level["offered"] for level in one["levels"][after:])
            lines.append(f"- {one['broker']}, {one['cell']}, turn {one['turn']}: in {len(answers) - after} levels after that of {before:,.0f}/s, of which the lowest had {lowest:,.0f}/s")
    return ["In these runs, a broker took messages and neither acknowledged nor delivered any of them in time, until the run ended:", "", *lines, ""] if lines else []


def left_out(measured):
    """Runs that say nothing."""
    lines = []
    if measured.failed or any(one["spoiled"] for one in measured.runs):
        head = ["", "## Runs that do not count", "", "A level that does not count says nothing of the broker. Such a run was made once more at once.", ""]
        for one in measured.runs:
            kind = CELLS[one["cell"]][5]
            for spoiled in [of for of in one["spoiled"] + ([] if one["counts"] else [one]) if not missed_lowest(kind, of)]:
                said = ", ".join(spoiled["validity"]) or (spoiled["why"] or "no level").splitlines()[0]
                lines.append(f"- {one['cell']}, {one['broker']}, turn {one['turn']}: {said}, code {spoiled['code']}")
        lines = head + lines if lines else []
    if measured.apart:
        lines += ["", "These cells were not measured within two hours, and are left out: " + ", ".join(f"{cell} in turn {turn}" for cell, turn in sorted(measured.apart)) + "."]
    return lines


def write():
    measured, again = Measured(KEPT), Measured(AGAIN)
    comparison = Comparison(measured.spreads, measured.is_tested)
    lines = intro(measured, comparison)
    for kind, title in KINDS.items():
        cells = [cell for cell in CELLS if CELLS[cell][5] == kind and cell in measured.figures]
        if cells:
            lines += [f"## {title}", "", *explained(kind)]
        for cell in cells:
            lines += rows(cell, measured, comparison)
    lines += became(measured) + cold(measured) + promises()
    if again.runs:
        lines += shifts(measured, again)
    lines += left_out(measured)
    open(PAGE, "w").write("\n".join(wrapped(lines)) + "\n")
    with open(TABLE, "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["cell", "broker", "other", "times", "from", "to", "probability", "differs", "bounded"])
        for cell, one, other in comparison.pairs:
            times = [f"{part:.4g}" for part in comparison.times(cell, one, other)]
            bounded = any((cell, name) in measured.bounds | measured.ceilings for name in (one, other))
            table.writerow([cell, one, other, *times, f"{comparison.chances[cell, one, other]:.3g}", comparison.differ(cell, one, other), bounded])
