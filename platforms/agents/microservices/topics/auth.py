"""Authorization: gives access tokens to those whose name and password the back end knows."""

import asyncio

from aiohttp import web

from planted import Planted, options, run
from topics import tokens
from topics.link import Link, Refused


class Auth:
    def __init__(self, given):
        self.secret, self.planted = given.secret, Planted(given)
        self.link = Link(given.proxy, f"responses-auth-{given.port}", lambda _: None)

    async def do(self, asked):
        body, answer = asked
        try:
            if "refreshToken" in body:
                tokens.check(self.secret, body["refreshToken"], "refresh")
                result = {"accessToken": tokens.pair(self.secret)["accessToken"]}
            else:
                await self.link.call("requests", {"action": "user/check", "login": body.get("login"), "password": body.get("password")})
                result = tokens.pair(self.secret)
            answer.set_result(web.json_response(result, status=201))
        except Refused as refusal:
            answer.set_result(web.json_response({"error": refusal.code, "message": str(refusal)}, status=refusal.code))

    async def asked(self, request):
        answer = asyncio.get_running_loop().create_future()
        self.planted.put((await request.json(), answer))
        return await answer


async def serve(given):
    auth = Auth(given)
    keeping = asyncio.create_task(auth.link.keep())
    await auth.link.is_reading.wait()
    app = web.Application()
    app.router.add_post("/auth/rest/token", auth.asked)
    app.router.add_post("/auth/rest/token/refresh", auth.asked)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", given.port).start()
    await asyncio.gather(keeping, auth.planted.serve(auth.do))


def main():
    parser = options(__doc__, "proxy")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--secret", required=True)
    run(serve(parser.parse_args()))
