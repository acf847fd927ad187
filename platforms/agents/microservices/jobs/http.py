"""The adapter for HTTP: devices register and say messages, and those who follow a device read a stream."""

import asyncio
import json

from aiohttp import web

from jobs.adapter import Adapter
from jobs.queue import Refused
from planted import options, run

LONGEST = 4 << 20


class Http(Adapter):
    async def asked(self, request):
        try:
            return await self.do(request)
        except Refused as refusal:
            return web.json_response({"error": str(refusal)}, status=refusal.code)
        except ValueError as error:
            return web.json_response({"error": str(error)}, status=400)

    async def do(self, request):
        own = {"uuid": request.headers.get("meshblu_auth_uuid"), "token": request.headers.get("meshblu_auth_token")}
        match request.method, *request.path.strip("/").split("/"):
            case "POST", "devices":
                return web.json_response(await self.queue.ask({"type": "Register"}, await request.json()), status=201)
            case "GET", "v2", "whoami":
                return web.json_response(await self.queue.ask({"type": "Authenticate", **own}, None))
            case "DELETE", "devices", device:
                await self.queue.ask({"type": "Unregister", **own}, {"uuid": device})
                return web.Response(status=204)
            case "POST", "messages":
                await self.queue.ask({"type": "SendMessage", **own}, await request.json())
                return web.Response(status=204)
            case "GET", "subscribe", device, "broadcast":
                return await self.stream(request, own, device)
        raise Refused(404, "Not found")

    async def stream(self, request, own, device):
        """What a device says, until the client has gone."""
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})

        async def push(message):
            if message["fromUuid"] == device:
                await answer.write(json.dumps(message).encode() + b"\n")

        # Before the subscription, so that nothing is missed that comes of it.
        await self.follow(own["uuid"], push)
        try:
            await self.queue.ask({"type": "Subscribe", **own}, {"uuid": device})
            await answer.prepare(request)
            await asyncio.get_running_loop().create_future()
        finally:
            await self.leave(own["uuid"], push)


async def serve(given):
    http = Http(given)
    app = web.Application(client_max_size=LONGEST)
    app.router.add_route("*", "/{path:.*}", http.asked)
    # A client that goes ends its stream.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", given.port).start()
    await http.serve()


def main():
    parser = options(__doc__, "redis")
    parser.add_argument("--port", type=int, required=True)
    run(serve(parser.parse_args()))
