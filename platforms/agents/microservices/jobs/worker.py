"""The worker: finds out who follows a device, and publishes its message for each of them."""

import asyncio
import json

from pymongo import AsyncMongoClient

from jobs.queue import DELIVERIES, Queue
from planted import Planted, options, run


class Worker:
    def __init__(self, given):
        self.planted, self.queue = Planted(given), Queue(given.redis)
        self.subscriptions = AsyncMongoClient("mongodb://{}:{}".format(*given.mongo)).meshblu.subscriptions

    async def do(self, text):
        job, message = json.loads(text)
        for _ in range(self.planted.times(text)):
            async for found in self.subscriptions.find({"emitter": job["uuid"]}):
                said = json.dumps(message, separators=(",", ":"))
                await self.queue.redis.publish(f"messages:{found['subscriber']}", said)


async def serve(given):
    worker = Worker(given)
    await worker.subscriptions.find_one({})
    await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", given.port)
    await asyncio.gather(worker.queue.take(DELIVERIES, worker.planted.put), worker.planted.serve(worker.do))


def main():
    parser = options(__doc__, "redis", "mongo")
    parser.add_argument("--port", type=int, required=True)
    run(serve(parser.parse_args()))
