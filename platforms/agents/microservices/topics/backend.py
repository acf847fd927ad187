"""The back end: does what is asked at the topic of requests. Devices are in PostgreSQL, and what is asked for often is in Redis."""

import asyncio
import datetime
import itertools
import json
import random
import time

import asyncpg
import redis.asyncio

from planted import Planted, options, run
from topics.link import Link, Refused

# Notifications of a device that are remembered.
REMEMBERED = 1000
EPOCH = datetime.datetime(1970, 1, 1)


def shown(milliseconds):
    return (EPOCH + datetime.timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")


def read(timestamp):
    return round((datetime.datetime.fromisoformat(timestamp) - EPOCH) / datetime.timedelta(milliseconds=1))


class Backend:
    def __init__(self, given):
        self.user, self.planted = given.user, Planted(given)
        self.link = Link(given.proxy, "requests", self.planted.put)
        self.postgres, self.redis = given.postgres, given.redis
        self.numbers, self.stamped = itertools.count(random.getrandbits(20)), 0
        # Who follows a device, or all of them: subscriptions, each a topic and a number there.
        self.followers = {}

    async def begin(self):
        host, port = self.postgres
        while True:
            try:
                self.store = await asyncpg.create_pool(host=host, port=port, user="plimsoll", database="postgres", min_size=1, max_size=4)
                break
            except (OSError, asyncpg.CannotConnectNowError):
                await asyncio.sleep(0.1)
        await self.store.execute("CREATE TABLE IF NOT EXISTS device (id text PRIMARY KEY, content text)")
        self.cache = redis.asyncio.Redis(host=self.redis[0], port=self.redis[1])

    async def do(self, asked):
        answer = {"number": asked["number"]}
        try:
            answer["result"] = await self.act(asked)
        except Refused as refusal:
            answer |= {"code": refusal.code, "error": str(refusal)}
        await self.link.publish(asked["to"], answer)

    async def act(self, asked):
        match asked["action"]:
            case "user/check":
                if f"{asked['login']}:{asked['password']}" != self.user:
                    raise Refused(401, "Invalid credentials")
                return {}
            case "server/time":
                return {"timestamp": shown(time.time_ns() // 1_000_000)}
            case "device/save":
                return await self.save(str(asked.get("deviceId")), asked.get("device"))
            case "device/get":
                return {"device": await self.device(str(asked.get("deviceId")))}
            case "device/delete":
                return await self.delete(str(asked.get("deviceId")))
            case "notification/insert":
                return await self.insert(str(asked.get("deviceId")), asked.get("notification"))
            case "notification/subscribe":
                return await self.subscribe(asked)
            case "notification/unsubscribe":
                for followers in self.followers.values():
                    followers.discard((asked["to"], asked["subscription"]))
                return {}
            case other:
                raise Refused(400, f"Unknown action requested: {other}")

    async def save(self, device, content):
        if not isinstance(content, dict) or not content.get("name"):
            raise Refused(400, "Device name is required")
        text = json.dumps({"id": device, **content})
        asked = "INSERT INTO device VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET content = excluded.content"
        await self.store.execute(asked, device, text)
        await self.cache.set(f"device:{device}", text)
        return {}

    async def device(self, device):
        """As the cache has it, else as the store does."""
        text = await self.cache.get(f"device:{device}")
        if text is None:
            text = await self.store.fetchval("SELECT content FROM device WHERE id = $1", device)
            if text is None:
                raise Refused(404, f"Device with id = {device} not found")
            await self.cache.set(f"device:{device}", text)
        return json.loads(text)

    async def delete(self, device):
        deleted = await self.store.execute("DELETE FROM device WHERE id = $1", device)
        await self.cache.delete(f"device:{device}", f"notifications:{device}")
        if deleted == "DELETE 0":
            raise Refused(404, f"Device with id = {device} not found")
        return {}

    async def insert(self, device, content):
        await self.device(device)
        if not isinstance(content, dict) or not content.get("notification"):
            raise Refused(400, "notification with a name is required")
        # Later than all before: a poll for what came after one must miss nothing.
        self.stamped = max(time.time_ns() // 1_000_000, self.stamped + 1)
        full = {"id": next(self.numbers), "deviceId": device, "timestamp": shown(self.stamped)}
        full |= {"notification": content["notification"], "parameters": content.get("parameters")}
        text = json.dumps(full, separators=(",", ":"))
        # What the back end loses is acknowledged, and comes to nobody.
        for _ in range(self.planted.times(text)):
            async with self.cache.pipeline(transaction=False) as pipeline:
                pipeline.zadd(f"notifications:{device}", {text: self.stamped})
                pipeline.zremrangebyrank(f"notifications:{device}", 0, -REMEMBERED - 1)
                await pipeline.execute()
            for topic, number in [*self.followers.get(device, ()), *self.followers.get(None, ())]:
                await self.link.publish(topic, {"subscription": number, "notification": full})
        return {"notification": {"id": full["id"], "timestamp": full["timestamp"]}}

    async def subscribe(self, asked):
        device, since, known = asked.get("deviceId"), asked.get("since"), []
        if device is not None:
            await self.device(device)
        if since is not None:
            found = await self.cache.zrangebyscore(f"notifications:{device}", read(since), "+inf")
            known = [json.loads(text) for text in found]
        if not known:
            self.followers.setdefault(device, set()).add((asked["to"], asked["subscription"]))
        return known


async def serve(given):
    backend = Backend(given)
    await backend.begin()
    keeping = asyncio.create_task(backend.link.keep())
    await backend.link.is_reading.wait()
    # Whoever waits for a port learns by it that requests are read.
    await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", given.port)
    await asyncio.gather(keeping, backend.planted.serve(backend.do))


def main():
    parser = options(__doc__, "proxy", "postgres", "redis")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--user", required=True, metavar="NAME:PASSWORD")
    run(serve(parser.parse_args()))
