"""The front end: WebSocket and REST for devices and those who follow them."""

import asyncio
import json

from aiohttp import WSMsgType, web

from planted import Planted, options, run
from topics import tokens
from topics.actions import Actions, Session, pushed
from topics.link import Refused

LONGEST, POLL = 4 << 20, 30
POLLED = ("id", "deviceId", "notification", "timestamp", "parameters")


class Frontend:
    def __init__(self, given):
        self.planted = Planted(given)
        self.actions = Actions(given, self.planted)

    async def socket(self, request):
        socket = web.WebSocketResponse(max_msg_size=LONGEST, compress=False)
        await socket.prepare(request)

        async def push(event):
            if not socket.closed:
                await socket.send_str(pushed(event))

        async def answer(text):
            answered = json.dumps(await session.answer(text), separators=(",", ":"))
            if not socket.closed:
                await socket.send_str(answered)

        session, answering = Session(self.actions, push), set()
        try:
            async for frame in socket:
                if frame.type != WSMsgType.TEXT:
                    break
                # The next request need not wait for the answer to this one.
                task = asyncio.create_task(answer(frame.data))
                answering.add(task)
                task.add_done_callback(answering.discard)
        finally:
            await session.end()
        return socket

    async def rest(self, request):
        try:
            if request.path != "/api/rest/info":
                scheme, _, token = request.headers.get("Authorization", "").partition(" ")
                tokens.check(self.actions.secret, token if scheme == "Bearer" else None)
            return await self.ask(request)
        except Refused as refusal:
            return web.json_response({"error": refusal.code, "message": str(refusal)}, status=refusal.code)

    async def ask(self, request):
        call, device = self.actions.link.call, request.match_info.get("device")
        match request.method, request.match_info.get("rest", ""):
            case "GET", "" if device is None:
                now = await call("requests", {"action": "server/time"})
                return web.json_response({"apiVersion": "4.1.0", "serverTimestamp": now["timestamp"]})
            case "PUT", "":
                await call("requests", {"action": "device/save", "deviceId": device, "device": await request.json()})
            case "GET", "":
                return web.json_response(await call("requests", {"action": "device/get", "deviceId": device}))
            case "DELETE", "":
                await call("requests", {"action": "device/delete", "deviceId": device})
            case "POST", "notification":
                asked = {"action": "notification/insert", "deviceId": device, "notification": await request.json()}
                answer = await call("requests", asked)
                return web.json_response(answer["notification"], status=201)
            case "GET", "notification/poll":
                return web.json_response(await self.poll(device, request.query))
            case _:
                raise Refused(404, "Not found")
        return web.Response(status=204)

    async def poll(self, device, query):
        """What came since a time, as a list; where nothing did, the next notification alone, or an empty list."""
        arrived = asyncio.get_running_loop().create_future()

        async def push(event):
            if not arrived.done():
                arrived.set_result(event["notification"])

        shown = lambda full: {key: full[key] for key in POLLED}
        number, known = await self.actions.subscribe(device, push, query.get("timestamp") or None)
        try:
            if known:
                return [shown(full) for full in known]
            async with asyncio.timeout(int(query.get("waitTimeout", POLL))):
                return shown(await arrived)
        except TimeoutError:
            return []
        finally:
            await self.actions.unsubscribe(number)


async def serve(given):
    frontend = Frontend(given)
    keeping = asyncio.create_task(frontend.actions.link.keep())
    await frontend.actions.link.is_reading.wait()
    app = web.Application(client_max_size=LONGEST)
    app.router.add_get("/api/websocket", frontend.socket)
    app.router.add_get("/api/rest/info", frontend.rest)
    app.router.add_route("*", "/api/rest/device/{device}", frontend.rest)
    app.router.add_route("*", "/api/rest/device/{device}/{rest:.*}", frontend.rest)
    # A client that goes while its poll waits is nobody's subscriber any more.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", given.port).start()
    await asyncio.gather(keeping, frontend.planted.serve(frontend.actions.hand_on))


def main():
    parser = options(__doc__, "proxy")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--secret", required=True)
    run(serve(parser.parse_args()))
