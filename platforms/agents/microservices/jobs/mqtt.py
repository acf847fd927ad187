"""The adapter for MQTT: a client is a device, by its UUID and token. It publishes messages, and reads what comes for it."""

import asyncio
import json

from jobs.adapter import Adapter
from jobs.queue import REQUESTS
from mqtt_server import MqttServer
from planted import options, run


class Mqtt(Adapter):
    def __init__(self, given):
        super().__init__(given)
        self.doing = set()
        # The server asks before it knows the client's id: who a connection is stands in the task that serves it.
        self.server = MqttServer(self.authenticate, self.published, lambda _: None)
        self.known = {}

    def authenticate(self, device, token):
        """Each job is checked by the dispatcher; whoever is wrong is refused there."""
        self.known[asyncio.current_task()] = {"uuid": device, "token": token}
        asyncio.current_task().add_done_callback(lambda task: self.known.pop(task, None))
        return device is not None

    def published(self, client, topic, payload):
        own = self.known[asyncio.current_task()]
        try:
            about = json.loads(payload)
        except ValueError:
            return
        if topic == "message":
            self.begin(self.queue.put(REQUESTS, {"type": "SendMessage", **own}, about))
        elif topic == "whoami":
            self.begin(self.whoami(own, about))

    def begin(self, coroutine):
        task = asyncio.create_task(coroutine)
        self.doing.add(task)
        task.add_done_callback(self.doing.discard)

    async def whoami(self, own, about):
        data = await self.queue.ask({"type": "Authenticate", **own}, None)
        answer = {"topic": "whoami", "data": data, "_request": about}
        self.server.publish(own["uuid"], json.dumps(answer).encode())


async def serve(given):
    adapter = Mqtt(given)
    await adapter.server.listen(given.port)
    await adapter.serve()


def main():
    parser = options(__doc__, "redis")
    parser.add_argument("--port", type=int, required=True)
    run(serve(parser.parse_args()))
