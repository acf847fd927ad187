#!/usr/bin/env python3
"""What the MQTT brokers of the profiles keep of the promises of MQTT, as an independent client sees it (Eclipse Paho).

    brokers-python bench/conformance.py [--brokers NAME,...] [--storage memory,disk]

Each is started by its profile for each check, in MQTT 3.1.1 and, where it has that, in MQTT 5. A check that finds a promise broken is made
twice more. With `disk`, the profile's variable lets it keep
sessions and messages on disk, and the promise after a kill is looked at once more. The results are kept in
docs/results/conformance/ as JSON; `bench/brokers.py --write` shows them. It needs `cargo build --release`, `source scripts/peers` and
`source scripts/brokers` before."""

import argparse
import json
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from paho.mqtt import client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from broker_cells import METHOD
from server import ROOT, Server

KEPT = ROOT / "docs/results/conformance"
BOTH = (4, 5)
# The versions of MQTT that each one has, as paho numbers them.
BROKERS = {
    "mosquitto": BOTH, "rabbitmq": (4,), "nats": (4,), "artemis": BOTH, "hivemq": BOTH, "moquette": (4,), "mochi": BOTH,
    "aedes": (4,), "amqtt": (4,), "embedded": BOTH,
}
# What a profile has to be given for a broker that keeps sessions and messages on disk. RabbitMQ and NATS do so always.
ON_DISK = {
    "mosquitto": {"persistence": "true"}, "artemis": {"persistence": "true"}, "hivemq": {"persistence": "file"},
    "moquette": {"persistence": "true"},
}
# How long something may take that has to come, and how long is waited for what must not.
PATIENCE = 5.0
SILENCE = 1.5
MANY = 1000
# From one message to the next while a broker is killed, in seconds: some write once a second.
GAP = 0.004
# How often a check is made that finds a promise broken.
TRIES = 3
KEPT_FOR_ABSENT = 10
MEMBERS = 4


class Client:
    """A connection that keeps what comes."""

    def __init__(self, port, version, name, clean=True, will=None):
        self.came, self.changed, self.acknowledged = [], threading.Condition(), set()
        self.version = version
        options = {} if version == 5 else {"clean_session": clean}
        self.paho = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=name, protocol=version, **options)
        self.paho.max_inflight_messages_set(20)
        if will:
            self.paho.will_set(will, b"gone", qos=1)
        self.paho.on_connect = self.connected
        self.paho.on_message = self.take
        self.paho.on_subscribe = lambda *_: self.note("subscribed")
        self.paho.on_publish = lambda _client, _data, number, *_: self.note(number)
        self.answer = None
        more = {}
        if version == 5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = 0 if clean else 3600
            more = {"clean_start": clean, "properties": properties}
        self.paho.connect("127.0.0.1", port, keepalive=60, **more)
        self.paho.loop_start()
        self.until(lambda: self.answer is not None)

    def connected(self, _client, _data, _flags, _code, properties):
        self.answer = properties or {}
        self.note("connected")

    def note(self, what):
        with self.changed:
            self.acknowledged.add(what)
            self.changed.notify_all()

    def take(self, _client, _data, message):
        with self.changed:
            self.came.append((message.topic, message.payload.decode(), message.retain))
            self.changed.notify_all()

    def until(self, holds, patience=PATIENCE):
        with self.changed:
            return self.changed.wait_for(holds, patience)

    def subscribe(self, topic, qos=1):
        self.acknowledged.discard("subscribed")
        self.paho.subscribe(topic, qos)
        if not self.until(lambda: "subscribed" in self.acknowledged):
            raise TimeoutError("no SUBACK")

    def publish(self, topic, content, qos=1, retain=False, **properties):
        own = None
        if properties:
            own = Properties(PacketTypes.PUBLISH)
            for key, value in properties.items():
                setattr(own, key, value)
        return self.paho.publish(topic, content, qos, retain, properties=own).mid

    def published(self, *numbers):
        return self.until(lambda: all(number in self.acknowledged for number in numbers), 20.0)

    def vanish(self):
        """The connection ends without a DISCONNECT."""
        self.paho.socket().shutdown(socket.SHUT_RDWR)
        self.paho.loop_stop()

    def leave(self):
        self.paho.disconnect()
        self.paho.loop_stop()


def retained(port, version):
    one = Client(port, version, "retainer")
    one.published(one.publish("conformance/kept", "old", retain=True))
    late = Client(port, version, "late")
    late.subscribe("conformance/kept")
    found = late.until(lambda: bool(late.came))
    marked = found and late.came[0][2]
    one.published(one.publish("conformance/kept", "", retain=True))
    later = Client(port, version, "later")
    later.subscribe("conformance/kept")
    stays = later.until(lambda: bool(later.came), SILENCE)
    for client in (one, late, later):
        client.leave()
    if not found:
        return "a new subscriber does not get it"
    if not marked:
        return "it comes without the flag"
    return "an empty message does not remove it" if stays else True


def will(port, version):
    watcher = Client(port, version, "watcher")
    watcher.subscribe("conformance/will")
    Client(port, version, "mortal", will="conformance/will").vanish()
    found = watcher.until(lambda: bool(watcher.came))
    watcher.leave()
    return found or "it does not come"


def order(port, version):
    watcher = Client(port, version, "in-order")
    watcher.subscribe("conformance/order")
    one = Client(port, version, "orderly")
    one.published(*[one.publish("conformance/order", str(number)) for number in range(MANY)])
    watcher.until(lambda: len(watcher.came) >= MANY, 20.0)
    numbers = [int(content) for _, content, _ in watcher.came]
    for client in (watcher, one):
        client.leave()
    return in_order(numbers, MANY)


def in_order(numbers, sent):
    once = set(numbers)
    if len(once) < sent:
        return f"{len(once)} of {sent} come"
    if len(numbers) > len(once):
        return f"{len(numbers) - len(once)} of {sent} come twice"
    return True if numbers == sorted(numbers) else "not in order"


def away(port, version, name, meanwhile, **properties):
    """Of the messages for a subscriber with a session that is kept, while it is away: those that were acknowledged before something
    happens meanwhile, and what it finds when it is back."""
    absent = Client(port, version, name, clean=False)
    absent.subscribe(f"conformance/{name}")
    absent.leave()
    one = Client(port, version, f"{name}-publisher")
    numbers = [one.publish(f"conformance/{name}", str(number), **properties) for number in range(KEPT_FOR_ABSENT)]
    one.published(*numbers)
    acknowledged = {place for place, number in enumerate(numbers) if number in one.acknowledged}
    # It would send again what was not.
    one.leave()
    meanwhile()
    back = Client(port, version, name, clean=False)
    back.until(lambda: len(back.came) >= KEPT_FOR_ABSENT)
    time.sleep(SILENCE)
    found = [int(content) for _, content, _ in back.came]
    back.leave()
    return acknowledged, found


def not_acknowledged(acknowledged):
    """That nothing was promised of some messages; `None` where all were acknowledged."""
    count = len(acknowledged)
    return None if count == KEPT_FOR_ABSENT else f"{count} of {KEPT_FOR_ABSENT} acknowledged"


def session(port, version):
    acknowledged, found = away(port, version, "session", lambda: None)
    return not_acknowledged(acknowledged) or in_order(found, KEPT_FOR_ABSENT)


def expiry(port, version):
    acknowledged, found = away(port, version, "expiry", lambda: time.sleep(3), MessageExpiryInterval=1)
    if gap := not_acknowledged(acknowledged):
        return gap
    return f"{len(found)} of {KEPT_FOR_ABSENT} come two seconds later" if found else True


def alias(port, version):
    one = Client(port, version, "short")
    if not getattr(one.answer, "TopicAliasMaximum", 0):
        one.leave()
        return None
    watcher = Client(port, version, "long")
    watcher.subscribe("conformance/alias")
    one.published(one.publish("conformance/alias", "1", TopicAlias=1), one.publish("", "2", TopicAlias=1))
    watcher.until(lambda: len(watcher.came) >= 2)
    numbers = [int(content) for _, content, _ in watcher.came]
    for client in (one, watcher):
        client.leave()
    return in_order(numbers, 2)


def shared(port, version):
    """How many of the messages each member of a group gets, the least first."""
    members = [Client(port, version, f"member-{number}") for number in range(MEMBERS)]
    for member in members:
        member.subscribe("$share/crew/conformance/shared")
    one = Client(port, version, "sharer")
    one.published(*[one.publish("conformance/shared", str(number)) for number in range(MANY)])
    time.sleep(SILENCE)
    counts = sorted(len(member.came) for member in members)
    for client in (one, *members):
        client.leave()
    # Who takes the filter for a topic like any other sends nothing.
    return counts if sum(counts) else None


# Name: what it is, the versions that have it, and the check: `True` where the promise is kept, else how it is not, and `None`
# where the broker does not have it.
CHECKS = {
    "retained": ("retained messages", BOTH, retained),
    "will": ("wills", BOTH, will),
    "order": ("order", BOTH, order),
    "session": ("sessions", BOTH, session),
    "expiry": ("message expiry", (5,), expiry),
    "alias": ("topic aliases", (5,), alias),
    "shared": ("shared subscriptions", BOTH, shared),
}


def killed(server, version):
    """A broker is killed (kill -9) while messages for an absent subscriber come to it, 250 in a second. Of those that it had acknowledged before, how many
    come when it is back, and how many of all come twice: the client sends again what was not acknowledged."""
    # What an earlier version left there is no concern of this one.
    port, name = server.at, f"killed-{version}"
    absent = Client(port, version, name, clean=False)
    absent.subscribe(f"conformance/{name}")
    absent.leave()
    one = Client(port, version, f"{name}-publisher")
    numbers = {}

    def publish(amount):
        for _ in range(amount):
            number = len(numbers)
            numbers[one.publish(f"conformance/{name}", str(number))] = number
            time.sleep(GAP)

    def acknowledged():
        return {numbers[mid] for mid in one.acknowledged if mid in numbers}

    publish(MANY * 3 // 4)
    # What is under way when it is killed is not acknowledged.
    publishing = threading.Thread(target=publish, args=(MANY // 4,))
    publishing.start()
    time.sleep(GAP * MANY / 8)
    server.kill()
    publishing.join()
    before = acknowledged()
    server.start()
    one.published(*numbers)
    one.leave()
    back = Client(port, version, name, clean=False)
    back.subscribe(f"conformance/{name}")
    back.until(lambda: len(back.came) >= MANY, 10.0)
    time.sleep(SILENCE)
    found = [int(content) for _, content, _ in back.came]
    back.leave()
    return {"sent": MANY, "acknowledged": len(before), "came": len(before & set(found)), "twice": len(found) - len(set(found))}


def attempt(broker, storage, check):
    """What a check finds at a broker of its own."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(broker, "mqtt", Path(folder), ON_DISK[broker] if storage == "disk" else None)
        try:
            return check(server)
        except TimeoutError as error:
            return str(error)
        finally:
            server.stop()


def tried(broker, storage, check):
    """The same, with how often a promise was broken that is."""
    found = attempt(broker, storage, check)
    if not isinstance(found, str):
        return found
    broken = [found] + [one for one in (attempt(broker, storage, check) for _ in range(TRIES - 1)) if isinstance(one, str)]
    return f"{' or '.join(sorted(set(broken)))}, {len(broken)} times of {TRIES}"


def measured(broker, storage):
    """What a broker does in each version of MQTT."""
    found = {}
    for version in BROKERS[broker]:
        if storage == "disk":
            checks = {"killed_on_disk": lambda server: killed(server, version)}
        else:
            checks = {name: lambda server, check=check: check(server.at, version) for name, (_, of, check) in CHECKS.items() if version in of}
            checks["killed"] = lambda server: killed(server, version)
        results = {name: tried(broker, storage, check) for name, check in checks.items()}
        found["5" if version == 5 else "3.1.1"] = results
        print(f"{broker}, {storage}, {version}: {results}", flush=True)
    return found


def said_by(broker):
    """The first line of what a broker says of its version."""

    def asked(server):
        answered = subprocess.run(server.version, env=server.environment, capture_output=True, text=True, check=False)
        return (answered.stdout + answered.stderr).strip().split("\n")[0]

    return attempt(broker, "memory", asked)


def keep(broker, said, versions):
    """Puts what was found beside what was found with the other storage."""
    path = KEPT / f"{broker}.json"
    kept = json.loads(path.read_text()) if path.exists() else {"versions": {}}
    versions = {version: kept["versions"].get(version, {}) | checks for version, checks in versions.items()}
    path.write_text(json.dumps({"broker": broker, "said": said, "method": METHOD, "versions": versions}, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", default=",".join(BROKERS))
    parser.add_argument("--storage", default="memory,disk")
    options = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    for broker in options.brokers.split(","):
        for storage in options.storage.split(","):
            if storage == "disk" and broker not in ON_DISK:
                continue
            keep(broker, said_by(broker), measured(broker, storage))


if __name__ == "__main__":
    main()
