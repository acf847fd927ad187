"""The adapter for MQTT: clients publish requests to dh/request, and what they follow comes to dh/notification/..."""

import asyncio
import json

from mqtt_server import MqttServer
from planted import Planted, options, run
from topics.actions import Actions, Session, pushed
from topics.link import Refused


class Adapter:
    def __init__(self, given):
        self.planted = Planted(given)
        self.actions = Actions(given, self.planted)
        self.sessions, self.doing = {}, set()
        self.server = MqttServer(lambda name, password: f"{name}:{password}" == given.user, self.published, self.left)

    def published(self, client, topic, payload):
        if topic == "dh/request":
            task = asyncio.create_task(self.answer(client, payload.decode(errors="replace")))
            self.doing.add(task)
            task.add_done_callback(self.doing.discard)

    async def answer(self, client, text):
        session = self.sessions.setdefault(client, Session(self.actions, self.nobody, is_let_in=True))
        answer = await session.answer(text)
        topic = f"dh/response/{answer.get('action', '')}@{client}"
        if self.server.subscribed(client, topic):
            self.server.publish(topic, json.dumps(answer, separators=(",", ":")).encode())

    async def nobody(self, _):
        """Only the adapter's own subscription brings what clients follow."""

    def left(self, client):
        session = self.sessions.pop(client, None)
        if session:
            asyncio.create_task(session.end())

    async def push(self, event):
        own = event["notification"]
        topic = f"dh/notification/1/1/{own['deviceId']}/{own['notification']}"
        self.server.publish(topic, pushed(event).encode())


async def serve(given):
    adapter = Adapter(given)
    keeping = asyncio.create_task(adapter.actions.link.keep())
    await adapter.actions.link.is_reading.wait()
    # The back end may not read its requests yet.
    while True:
        try:
            await adapter.actions.subscribe(None, adapter.push)
            break
        except Refused:
            await asyncio.sleep(0.2)
    await adapter.server.listen(given.port)
    await asyncio.gather(keeping, adapter.planted.serve(adapter.actions.hand_on))


def main():
    parser = options(__doc__, "proxy")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--secret", required=True)
    parser.add_argument("--user", required=True, metavar="NAME:PASSWORD")
    run(serve(parser.parse_args()))
