"""Stands before Kafka. Each service has a WebSocket to it, over which it publishes to topics and reads some.

Frames are arrays of JSON: ["read", TOPIC] is answered by ["reading", TOPIC] once all that is published from then on will come, as
["message", TOPIC, MESSAGE]; ["publish", TOPIC, MESSAGE] has no answer.
"""

import asyncio
import json

from aiohttp import WSMsgType, web
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import TopicAlreadyExistsError

from planted import Planted, options, run

LONGEST = 4 << 20


class Proxy:
    def __init__(self, given):
        self.kafka, self.planted = "{}:{}".format(*given.kafka), Planted(given)

    async def begin(self):
        self.producer = AIOKafkaProducer(bootstrap_servers=self.kafka, linger_ms=0, acks="all", max_request_size=LONGEST)
        await self.producer.start()
        self.admin = AIOKafkaAdminClient(bootstrap_servers=self.kafka)
        await self.admin.start()

    async def publish(self, what):
        topic, message = what
        # What the services say of themselves is not lost: it carries nobody's message.
        times = self.planted.times(message) if '"notification/insert"' in message else 1
        for _ in range(times):
            await self.producer.send(topic, message.encode())

    async def read(self, socket, topic):
        """Passes on what comes to a topic until the service has gone."""
        try:
            await self.admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
        except TopicAlreadyExistsError:
            pass
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.kafka, enable_auto_commit=False, max_partition_fetch_bytes=LONGEST
        )
        await consumer.start()
        try:
            own = TopicPartition(topic, 0)
            consumer.assign([own])
            await consumer.seek_to_end(own)
            await consumer.position(own)
            await socket.send_str(json.dumps(["reading", topic]))
            async for record in consumer:
                await socket.send_str(f'["message",{json.dumps(topic)},{record.value.decode()}]')
        finally:
            await consumer.stop()

    async def serve(self, request):
        socket = web.WebSocketResponse(max_msg_size=LONGEST, compress=False)
        await socket.prepare(request)
        readers = []
        try:
            async for frame in socket:
                if frame.type != WSMsgType.TEXT:
                    break
                what, topic, *rest = json.loads(frame.data)
                if what == "read":
                    readers.append(asyncio.create_task(self.read(socket, topic)))
                else:
                    self.planted.put((topic, json.dumps(rest[0], separators=(",", ":"))))
        finally:
            for reader in readers:
                reader.cancel()
        return socket


async def serve(given):
    proxy = Proxy(given)
    await proxy.begin()
    app = web.Application()
    app.router.add_get("/", proxy.serve)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", given.port).start()
    await proxy.planted.serve(proxy.publish)


def main():
    parser = options(__doc__, "kafka")
    parser.add_argument("--port", type=int, required=True)
    run(serve(parser.parse_args()))
