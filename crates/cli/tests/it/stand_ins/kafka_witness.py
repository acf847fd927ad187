"""Clients of Kafka on the library kafka-python.

    count ADDRESS TOPIC                 makes a topic of four partitions, and counts its records until it is told to end
    topics ADDRESS                      says which topics there are once it is told to end
    bridge ADDRESS TOPIC MQTT_PORT      passes on what an MQTT broker has, with the MQTT topic as the key, compressed
    intrude ADDRESS TOPIC               joins the first group of a run for three seconds, and says how many partitions it was given
    repeat ADDRESS TOPIC COUNT          writes the first records of a topic again, as what repeats after an unclean restart does
    make ADDRESS TOPIC                  makes a topic of eight partitions with a copy of each, and says how many brokers lead them
"""

import signal, sys, threading, time

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from paho.mqtt import client as mqtt

ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
what, address, *more = sys.argv[1:]
if what == "topics":
    print("ready=1", flush=True)
    ended.wait()
    named = KafkaAdminClient(bootstrap_servers=address).list_topics()
    print(" ".join(sorted(name for name in named if not name.startswith("__"))), flush=True)
    sys.exit()
topic, *more = more
if what == "make":
    print("ready=1", flush=True)
    admin = KafkaAdminClient(bootstrap_servers=address)
    while len(admin.describe_cluster()["brokers"]) < 2:
        time.sleep(0.1)
    admin.create_topics([NewTopic(topic, num_partitions=8, replication_factor=2)])
    partitions = []
    while len(partitions) < 8:
        partitions = admin.describe_topics([topic])[0]["partitions"]
    print(f"leaders={len({partition['leader'] for partition in partitions})}", flush=True)
    sys.exit()
if what == "repeat":
    print("ready=1", flush=True)
    records = []
    for record in KafkaConsumer(topic, bootstrap_servers=address, auto_offset_reset="earliest"):
        records.append(record)
        if len(records) == int(more[0]):
            break
    producer = KafkaProducer(bootstrap_servers=address, acks="all")
    for record in records:
        producer.send(topic, record.value, record.key)
    producer.flush()
    print(f"again={len(records)}", flush=True)
    sys.exit()
if what == "intrude":
    print("ready=1", flush=True)
    admin, groups = KafkaAdminClient(bootstrap_servers=address), []
    while not groups and not ended.is_set():
        listed = [group if isinstance(group, dict) else {"group_id": group[0]} for group in admin.list_consumer_groups()]
        groups = [group["group_id"] for group in listed if group["group_id"].startswith("plimsoll-")]
    consumer = KafkaConsumer(
        topic, bootstrap_servers=address, group_id=groups[0], enable_auto_commit=False,
        partition_assignment_strategy=[RoundRobinPartitionAssignor],
    )
    given, until = 0, time.time() + 3
    while time.time() < until or not given:
        # What it is given comes again to others, since it commits nothing.
        consumer.poll(200)
        given = max(given, len(consumer.assignment()))
    consumer.close(autocommit=False)
    print(f"given={given}", flush=True)
    sys.exit()
if what == "count":
    KafkaAdminClient(bootstrap_servers=address).create_topics([NewTopic(topic, num_partitions=4, replication_factor=1)])
    consumer = KafkaConsumer(topic, bootstrap_servers=address, auto_offset_reset="earliest", consumer_timeout_ms=200)
    print("ready=1", flush=True)
    came, partitions, keyless = 0, set(), 0
    while True:
        was = came
        for record in consumer:
            came += 1
            partitions.add(record.partition)
            keyless += record.key is None
        if ended.is_set() and came == was:
            break
    print(f"came={came} partitions={len(partitions)} keyless={keyless}", flush=True)
else:
    # Records wait a moment for others, so that several are compressed together.
    producer = KafkaProducer(bootstrap_servers=address, acks="all", compression_type="gzip", linger_ms=20)
    device_side = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    subscribed = threading.Event()
    device_side.on_message = lambda _c, _u, message: producer.send(topic, message.payload, message.topic.encode())
    device_side.on_subscribe = lambda *_: subscribed.set()
    device_side.connect("127.0.0.1", int(more[0]))
    device_side.subscribe("#")
    device_side.loop_start()
    subscribed.wait()
    print("ready=1", flush=True)
    ended.wait()
    producer.flush()
