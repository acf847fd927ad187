"""The adapter for WebSocket: frames are arrays of JSON, a type and what it is about. Messages are not acknowledged."""

import json

from aiohttp import WSMsgType, web

from jobs.adapter import Adapter
from jobs.queue import REQUESTS, Refused
from planted import options, run

LONGEST = 4 << 20


class WebSocket(Adapter):
    async def serve_one(self, request):
        socket = web.WebSocketResponse(max_msg_size=LONGEST, compress=False)
        await socket.prepare(request)
        own = None

        async def say(what, about):
            if not socket.closed:
                await socket.send_str(json.dumps([what, about], separators=(",", ":")))

        async def push(message):
            await say("message", message)

        try:
            async for frame in socket:
                if frame.type != WSMsgType.TEXT:
                    break
                try:
                    what, about = json.loads(frame.data)
                    if what == "identity":
                        known = {"uuid": about.get("uuid"), "token": about.get("token")}
                        await self.queue.ask({"type": "Authenticate", **known}, None)
                        own = known
                        await self.follow(own["uuid"], push)
                        await say("ready", own)
                    elif own is None:
                        await say("notReady", {"status": 401})
                    elif what == "subscribe":
                        await self.queue.ask({"type": "Subscribe", **own}, {"uuid": about.get("uuid")})
                    elif what == "message":
                        # Nobody waits for an answer.
                        await self.queue.put(REQUESTS, {"type": "SendMessage", **own}, about)
                    else:
                        raise ValueError(f"unknown type {what}")
                except Refused as refusal:
                    await say("notReady" if own is None else "error", {"status": refusal.code, "message": str(refusal)})
                except (ValueError, AttributeError) as error:
                    await say("error", {"status": 400, "message": str(error)})
        finally:
            if own:
                await self.leave(own["uuid"], push)
        return socket


async def serve(given):
    adapter = WebSocket(given)
    app = web.Application()
    app.router.add_get("/{path:.*}", adapter.serve_one)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", given.port).start()
    await adapter.serve()


def main():
    parser = options(__doc__, "redis")
    parser.add_argument("--port", type=int, required=True)
    run(serve(parser.parse_args()))
