"""The dispatcher: does what adapters ask. A message that it takes becomes another job, of those that deliver."""

import asyncio
import json
import secrets
import uuid

from pymongo import AsyncMongoClient

from jobs.queue import DELIVERIES, REQUESTS, Queue, Refused
from planted import Planted, options, run


class Dispatcher:
    def __init__(self, given):
        self.planted, self.queue = Planted(given), Queue(given.redis)
        store = AsyncMongoClient("mongodb://{}:{}".format(*given.mongo)).meshblu
        self.devices, self.subscriptions = store.devices, store.subscriptions

    async def do(self, text):
        job, about = json.loads(text)
        try:
            await self.queue.answer(job, await self.act(job, about, text))
        except Refused as refusal:
            await self.queue.answer(job, None, refusal)

    async def act(self, job, about, text):
        if job["type"] == "Register":
            device = {"uuid": str(uuid.uuid4()), "token": secrets.token_hex(20), **about}
            await self.devices.insert_one(dict(device))
            return device
        own = await self.devices.find_one({"uuid": job["uuid"], "token": job["token"]})
        if own is None:
            raise Refused(403, "Forbidden")
        match job["type"]:
            case "Authenticate":
                return {key: own[key] for key in ("uuid", "type") if key in own}
            case "Unregister":
                if about["uuid"] != own["uuid"]:
                    raise Refused(403, "Forbidden")
                await self.devices.delete_one({"uuid": own["uuid"]})
                await self.subscriptions.delete_many({"$or": [{"emitter": own["uuid"]}, {"subscriber": own["uuid"]}]})
                return None
            case "Subscribe":
                if await self.devices.find_one({"uuid": about["uuid"]}) is None:
                    raise Refused(404, "Device not found")
                whose = {"emitter": about["uuid"], "subscriber": own["uuid"]}
                await self.subscriptions.replace_one(whose, whose, upsert=True)
                return None
            case "SendMessage":
                message = {**about, "fromUuid": own["uuid"]}
                for _ in range(self.planted.times(text)):
                    await self.queue.put(DELIVERIES, {"type": "DeliverBroadcast", "uuid": own["uuid"]}, message)
                return None
            case other:
                raise Refused(400, f"unknown job {other}")


async def serve(given):
    dispatcher = Dispatcher(given)
    # The first call finds out whether the store is there.
    await dispatcher.devices.create_index("uuid")
    await dispatcher.subscriptions.create_index("emitter")
    await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", given.port)
    await asyncio.gather(
        dispatcher.queue.take(REQUESTS, dispatcher.planted.put), dispatcher.planted.serve(dispatcher.do)
    )


def main():
    parser = options(__doc__, "redis", "mongo")
    parser.add_argument("--port", type=int, required=True)
    run(serve(parser.parse_args()))
