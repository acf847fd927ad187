"""A service's connection to the proxy: calls that are answered at a topic of its own, and events that come there."""

import asyncio
import itertools
import json

import aiohttp

PATIENCE, PAUSE = 10, 0.1
LONGEST = 4 << 20


class Refused(Exception):
    """What a service answers in place of a result: a code, and why."""

    def __init__(self, code, why):
        super().__init__(why)
        self.code = code


class Link:
    """Made again where it was lost. What was called meanwhile is refused."""

    def __init__(self, proxy, topic, came):
        self.url, self.topic, self.came = "http://{}:{}/".format(*proxy), topic, came
        self.socket, self.numbers, self.calls = None, itertools.count(1), {}
        self.is_reading = asyncio.Event()

    async def keep(self):
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.ws_connect(self.url, max_msg_size=LONGEST) as self.socket:
                        await self.send("read", self.topic)
                        await self.read()
                except aiohttp.ClientError:
                    pass
                self.socket = None
                self.is_reading.clear()
                for call in self.calls.values():
                    if not call.done():
                        call.set_exception(Refused(503, "the proxy is away"))
                await asyncio.sleep(PAUSE)

    async def read(self):
        async for frame in self.socket:
            what, _, *rest = json.loads(frame.data)
            if what == "reading":
                self.is_reading.set()
                continue
            message = rest[0]
            # A request of somebody else has a number, too, and says where its answer is to go.
            call = None if "to" in message else self.calls.pop(message.get("number"), None)
            if call is None:
                self.came(message)
            elif not call.done():
                call.set_result(message)

    async def send(self, *frame):
        if self.socket is None or self.socket.closed:
            raise Refused(503, "the proxy is away")
        await self.socket.send_str(json.dumps(frame, separators=(",", ":")))

    async def publish(self, topic, message):
        await self.send("publish", topic, message)

    async def call(self, topic, message):
        """Asks whoever reads a topic, and gives its answer."""
        number = next(self.numbers)
        answer = self.calls[number] = asyncio.get_running_loop().create_future()
        try:
            await self.publish(topic, {"number": number, "to": self.topic, **message})
            async with asyncio.timeout(PATIENCE):
                answer = await answer
        except TimeoutError:
            raise Refused(504, "nobody answers") from None
        finally:
            self.calls.pop(number, None)
        if "code" in answer:
            raise Refused(answer["code"], answer["error"])
        return answer["result"]
