"""The brokers that `brokers.py` compares, and its cells: what is measured of each.

A cell has a load that all brokers get, and a figure of its runs.
"""
import json, os

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
CONFORMANCE = f"{ROOT}/docs/results/conformance"
# Each with the greatest QoS that it does.
BROKERS = {
    "mosquitto": 2, "rabbitmq": 1, "nats": 1, "artemis": 2, "hivemq": 2, "moquette": 2, "mochi": 2, "aedes": 2, "amqtt": 2,
    "embedded": 2,
}
# How `conformance.py` looks by now: what it finds is kept with that.
METHOD = "a broker for each check"
# Those in a language whose virtual machine compiles what runs often, while it runs.
COMPILED_AS_THEY_RUN = {"artemis", "hivemq", "moquette", "aedes"}
# The component of a profile that is not called as the profile is.
COMPONENTS = {"embedded": "broker"}
# How each is reached: a mapping of its profile, or a profile of its own. Who is not named speaks over TCP alone, without one.
WAYS = {
    "tcp": {"rabbitmq": "mqtt", "nats": "mqtt"},
    "tls": {
        "mosquitto": "tls", "rabbitmq": "mqtt-tls", "nats": "mqtt-tls", "artemis": "mqtt-tls", "hivemq": "tls", "moquette": "tls",
        "mochi": "tls", "aedes": "tls", "amqtt": "tls",
    },
    "websocket": {
        "mosquitto": {"profile": "mosquitto-websocket"}, "rabbitmq": "mqtt-websocket", "nats": "mqtt-websocket",
        "artemis": "mqtt-websocket", "hivemq": "websocket", "moquette": "websocket", "mochi": "websocket", "aedes": "websocket",
        "amqtt": "websocket",
    },
}
# Levels of a fixed load, in parts of it, of which the last one counts.
LEVELS, LEVELS_WHERE_COMPILED = [1, 1], [1, 5, 5, 1, 1]
# A cell of a turn is measured within so many seconds.
BLOCK = 3600
# How long a storm keeps a broker down, in seconds.
DOWN = 3


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
    "size-16": ("100 pairs, QoS 0, 1,000/s of 16 B", "µs", False, 0, pairs(0, 100, 1000, 16), "each"),
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
    "storm": (f"from the start of a broker that was killed for {DOWN} s until all 500 clients are back", "s", False, 1, {
        "population": {"devices": 500, "subscribers": 1},
        "mqtt": {"qos": 1},
        "connection": {"offline": "buffer", "reconnect": {"from": "100ms", "to": "500ms"}},
        "load": {"levels": [200], "warm_up": "5s", "hold": "40s", "samples": 20, "drain": "5s", "again": "0s", "storm": {"after": "5s", "down": f"{DOWN}s"}},
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
    found = {one["broker"]: str(one["versions"]["3.1.1"].get("session")) for one in conformance()}
    return {broker: said for broker, said in found.items() if said.startswith("0 of ") and not said.endswith(("1 times of 3", "2 times of 3"))}


