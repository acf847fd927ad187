"""Clients of Kafka on the library kafka-python.

    count ADDRESS TOPIC                 makes a topic of four partitions, and counts its records until it is told to end
    topics ADDRESS                      says which topics there are once it is told to end
    bridge ADDRESS TOPIC MQTT_PORT      passes on what an MQTT broker has, with the MQTT topic as the key
"""

import signal, sys, threading

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
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
    producer = KafkaProducer(bootstrap_servers=address, acks="all")
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
