"""What all adapters have in common: jobs that they ask for, and the messages that come for those who are connected."""

import asyncio
import collections
import json

from jobs.queue import Queue, client
from planted import Planted


class Adapter:
    def __init__(self, given):
        self.planted, self.queue = Planted(given), Queue(given.redis)
        self.redis = client(given.redis)
        self.channels = self.redis.pubsub(ignore_subscribe_messages=True)
        # Who is connected as a device: what each is called with that comes for it.
        self.followers = collections.defaultdict(set)

    async def follow(self, device, push):
        """Has what comes for a device pushed from now on."""
        self.followers[device].add(push)
        if len(self.followers[device]) == 1:
            await self.channels.subscribe(f"messages:{device}")

    async def leave(self, device, push):
        self.followers[device].discard(push)
        if not self.followers[device]:
            del self.followers[device]
            await self.channels.unsubscribe(f"messages:{device}")

    async def hand_on(self, came):
        device, text = came
        for _ in range(self.planted.times(text)):
            for push in [*self.followers.get(device, ())]:
                await push(json.loads(text))

    async def listen(self):
        # Without a channel there is no connection to read.
        await self.channels.subscribe("messages:nobody")
        while True:
            came = await self.channels.get_message(timeout=1)
            if came:
                self.planted.put((came["channel"].decode().partition(":")[2], came["data"].decode()))

    async def serve(self):
        await asyncio.gather(self.listen(), self.queue.answers(), self.planted.serve(self.hand_on))
