"""What a client may ask of the front end, whatever it speaks: a request has an action and a name, and its answer repeats both."""

import itertools
import json

from topics import tokens
from topics.link import Link, Refused

CALLED = ["device/save", "device/get", "device/delete", "notification/insert", "notification/subscribe", "notification/unsubscribe"]


class Actions:
    """Asks the back end, and hands on the events that it sends."""

    def __init__(self, given, planted):
        self.secret, self.planted = given.secret, planted
        self.link = Link(given.proxy, f"responses-{given.port}", planted.put)
        self.subscriptions, self.numbers = {}, itertools.count(1)

    async def hand_on(self, event):
        """An event for a subscription, which may have ended meanwhile."""
        push = self.subscriptions.get(event.get("subscription"))
        if push is None:
            return
        for _ in range(self.planted.times(json.dumps(event, separators=(",", ":")))):
            await push(event)

    async def subscribe(self, device, push, since=None):
        """The number of a subscription, and what is there already."""
        number = next(self.numbers)
        self.subscriptions[number] = push
        asked = {"action": "notification/subscribe", "deviceId": device, "subscription": number, "since": since}
        try:
            return number, await self.link.call("requests", asked)
        except Refused:
            del self.subscriptions[number]
            raise

    async def unsubscribe(self, number):
        if self.subscriptions.pop(number, None) is not None:
            try:
                await self.link.call("requests", {"action": "notification/unsubscribe", "subscription": number})
            except Refused:
                pass


class Session:
    """A client, and what it has subscribed to."""

    def __init__(self, actions, push, is_let_in=False):
        self.actions, self.push, self.is_let_in, self.subscriptions = actions, push, is_let_in, []

    async def answer(self, text):
        """The answer to a request."""
        answer = {}
        try:
            request = json.loads(text)
            answer = {key: request[key] for key in ("action", "requestId") if key in request}
            return {**answer, "status": "success", **(await self.act(request) or {})}
        except Refused as refusal:
            return {**answer, "status": "error", "code": refusal.code, "error": str(refusal)}
        except (ValueError, AttributeError) as error:
            return {**answer, "status": "error", "code": 400, "error": str(error)}

    async def act(self, request):
        action = request.get("action")
        if action == "authenticate":
            tokens.check(self.actions.secret, request.get("token"))
            self.is_let_in = True
            return None
        if not self.is_let_in:
            raise Refused(401, "Unauthorized")
        if action == "notification/subscribe":
            number, _ = await self.actions.subscribe(request.get("deviceId"), self.push)
            self.subscriptions.append(number)
            return {"subscriptionId": number}
        if action not in CALLED:
            raise Refused(400, f"Unknown action requested: {action}")
        asked = {key: value for key, value in request.items() if key != "requestId"}
        return await self.actions.link.call("requests", asked)

    async def end(self):
        for number in self.subscriptions:
            await self.actions.unsubscribe(number)


def pushed(event):
    """An event as clients get it."""
    push = {"action": "notification/insert", "subscriptionId": event["subscription"], "notification": event["notification"]}
    return json.dumps(push, separators=(",", ":"))
