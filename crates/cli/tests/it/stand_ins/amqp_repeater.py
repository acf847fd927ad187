"""A client of AMQP 0-9-1 on the library pika: keeps the first messages that come to the exchange amq.topic at a routing key, and on SIGUSR1
publishes them again over another connection, as what repeats after an unclean restart does.

    amqp_repeater.py PORT ROUTING_KEY COUNT
"""

import signal, sys, threading

import pika


def connected():
    parameters = pika.ConnectionParameters("127.0.0.1", int(port), connection_attempts=50, retry_delay=0.2)
    return pika.BlockingConnection(parameters)


port, wanted, count = sys.argv[1:]
asked = threading.Event()
signal.signal(signal.SIGUSR1, lambda *_: asked.set())
connection, heard = connected(), []
channel = connection.channel()
queue = channel.queue_declare("", exclusive=True).method.queue
channel.queue_bind(queue, "amq.topic", wanted)
print("ready=1", flush=True)
for method, _properties, body in channel.consume(queue, auto_ack=True):
    heard.append((method.routing_key, body))
    if len(heard) == int(count):
        break
connection.close()
print("heard=1", flush=True)
asked.wait()
connection = connected()
channel = connection.channel()
channel.confirm_delivery()
for routing_key, body in heard:
    channel.basic_publish("amq.topic", routing_key, body)
connection.close()
print(f"again={len(heard)}", flush=True)
