"""A client of AMQP 0-9-1 on the library pika: counts what comes to the exchange amq.topic until it is told to end."""

import signal, sys

import pika

connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(sys.argv[1])))
channel = connection.channel()
queue = channel.queue_declare("", exclusive=True).method.queue
channel.queue_bind(queue, "amq.topic", "#")
counted = {"came": 0, "bytes": 0}


def came(_channel, _method, _properties, body):
    counted["came"] += 1
    counted["bytes"] += len(body)


channel.basic_consume(queue, came, auto_ack=True)
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
print("ready=1", flush=True)
while True:
    was = counted["came"]
    connection.process_data_events(0.2)
    if ended and counted["came"] == was:
        break
print(" ".join(f"{name}={number}" for name, number in counted.items()), flush=True)
