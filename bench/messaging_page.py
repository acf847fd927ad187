"""The section of docs/performance.md about clients of message brokers, made of what `messaging.py` kept."""

import json
import math
import statistics
from pathlib import Path

from brokers_page import shown, wrapped
from differences import interval

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs/results/messaging"
PAGE = ROOT / "docs/performance.md"
HEADING = "## NATS, AMQP and Kafka"
NAMES = {"nats": "NATS, JetStream in memory", "amqp": "AMQP 0-9-1", "amqp1": "AMQP 1.0", "kafka": "Kafka"}
WAYS = {"plimsoll": "Plimsoll", "go": "Go client", "c": "C client"}


def one_or_range(values):
    values = sorted(set(values))
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"


def three(number):
    """A number in three digits."""
    return shown(number) if number >= 100 else f"{number:#.3g}"


def figures(of, way):
    return [one["ways"][way]["processor_us"] for one in of if way in one["ways"]]


def cell(values):
    return f"{three(statistics.median(values))} ({three(min(values))} to {three(max(values))})" if values else "–"


def times(of, way):
    """How many times a client's figure Plimsoll's is: the geometric mean over runs against the same start of a server, with its 95 %
    interval where there are enough."""
    ratios = [one["ways"]["plimsoll"]["processor_us"] / one["ways"][way]["processor_us"] for one in of if way in one["ways"]]
    if not ratios:
        return "–"
    mean, span = interval([math.log(ratio) for ratio in ratios])
    return f"{mean:.2f} ({span[0]:.2f} to {span[1]:.2f})" if span else f"{mean:.2f}"


def spoken(precision):
    return precision.replace("us", " µs").replace("ms", " ms")


def table(cells):
    lines = ["| rate, precision | | Plimsoll | Go client | C client | x Go | x C |", "|---|---|---|---|---|---|---|"]
    before = None
    for (rate, precision), protocols in cells.items():
        for protocol, of in protocols.items():
            load = f"{rate:,}/s, {spoken(precision)}"
            row = [load if load != before else "", NAMES[protocol], *(cell(figures(of, way)) for way in WAYS), times(of, "go"), times(of, "c")]
            lines.append("| " + " | ".join(row) + " |")
            before = load
    return lines


def lateness(blocks):
    lines = ["", "How late messages were sent, in ms:", "", "| precision | | p50 | p99 |", "|---|---|---|---|"]
    for precision in sorted({one["precision"] for one in blocks}, key=lambda text: (text[-2:] == "ms", text)):
        for way, name in WAYS.items():
            of = [one["ways"][way] for one in blocks if one["precision"] == precision and way in one["ways"]]
            if of:
                spans = [f"{min(each):.2f} to {max(each):.2f}" for each in ([one[key] for one in of] for key in ("late_p50_ms", "late_p99_ms"))]
                lines.append(f"| {spoken(precision)} | {name} | {spans[0]} | {spans[1]} |")
    return lines


def incomplete(blocks):
    """Runs in which not all was acknowledged, or did not come."""
    found = []
    for one in blocks:
        for way, of in one["ways"].items():
            where = f"{NAMES[one['protocol']]} at {one['rate']:,}/s and {spoken(one['precision'])}, turn {one['turn'] + 1}, {of['client']}"
            if of["acknowledged"] < of["sent_in_all"]:
                found.append(f"- {where}: {of['acknowledged']:,} of {of['sent_in_all']:,} were acknowledged.")
            if of["received"] < of["sent_in_all"]:
                found.append(f"- {where}: {of['received']:,} of {of['sent_in_all']:,} came.")
            if of.get("validity", "valid") != "valid":
                found.append(f"- {where}: the level is {of['validity']}.")
    return ["", "What is not complete:", "", *found] if found else ["", "All messages were acknowledged, and came to the subscriber."]


def section(blocks):
    cells = {}
    for one in blocks:
        cells.setdefault((one["rate"], one["precision"]), {}).setdefault(one["protocol"], []).append(one)
    cells = {
        key: {name: cells[key][name] for name in NAMES if name in cells[key]}
        for key in sorted(cells, key=lambda key: (key[1][-2:] == "ms", key[0]))
    }
    runs = [len(of) for protocols in cells.values() for of in protocols.values()]
    clients = {way: sorted({one["ways"][way]["client"] for one in blocks if way in one["ways"]}) for way in WAYS}
    said = {key: one_or_range(one[key] for one in blocks) for key in ("devices", "size", "seconds", "processors", "kernel")}
    return [
        HEADING,
        "",
        "`bench/messaging.py` measures Plimsoll beside a client in Go and one in C of each protocol.",
        f"{said['devices']} devices publish messages of {said['size']} bytes at even gaps, one subscriber receives all, and the server",
        "acknowledges all. Figures are processor time of a message in µs: that of Plimsoll's load threads, and that of the client's",
        f"process. Each is the median of {one_or_range(runs)} runs in turn, with the least and the most. *x* is Plimsoll's figure by that of",
        f"the client: the mean over turns with its 95 % interval (Student, on logarithms). Holds are {said['seconds']} s long.",
        f"The host had {said['processors']} virtual cores and Linux {said['kernel']}, which server and client shared. The runs were made",
        f"from {min(one['began'] for one in blocks)[:10]} to {max(one['began'] for one in blocks)[:10]}.",
        "",
        *table(cells),
        "",
        f"- **In Go:** {', '.join(clients['go'])}. Each device sleeps until its message is due.",
        f"- **In C:** {', '.join(clients['c'])}. Each device has a connection, and one thread sends for all. It sends together what",
        "  falls due within the precision, as Plimsoll does. Settings are those for low latency that the manuals of the libraries give;",
        "  the files in `bench/messaging_c` name them.",
        "- **Plimsoll's figure is that of its load threads, the client's that of its whole process.** This favours Plimsoll.",
        *lateness(blocks),
        *incomplete(blocks),
    ]


def write(kept):
    blocks = [json.loads(path.read_text()) for path in sorted(kept.glob("*.json"))]
    if not blocks:
        raise SystemExit(f"nothing is kept in {kept}: run bench/messaging.py first")
    before, _, rest = PAGE.read_text().partition(f"{HEADING}\n")
    _, _, after = rest.partition("\n## ")
    PAGE.write_text(before + "\n".join(wrapped(section(blocks))) + "\n\n## " + after)
