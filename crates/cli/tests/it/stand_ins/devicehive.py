#!/usr/bin/env python3
"""A small stand-in for DeviceHive 4.1, for tests of clients.

Modelled after four of its services: auth (POST /auth/rest/token, /token/refresh), the REST frontend
(/api/rest: info; device PUT, GET, DELETE; notification and command POST and long poll), the WebSocket frontend
(/api/websocket: one JSON per text frame, an answer has the request's action and requestId, a push has a
subscriptionId and no requestId) and the MQTT plugin. All state is in memory: one user, network 1 and device type 1.
Each device has its last 10000 notifications and 50 commands for polls; subscriptions look back at most 50 messages.

MQTT takes user and password of the REST login, and needs no token. A request is the JSON of the WebSocket frontend,
published to dh/request. Its answer is published on dh/response/<action>@<clientId>, as over WebSocket. It is published
only if the client has subscribed to that very topic before; a wildcard alone brings no answer. Pushes come on
dh/notification/<networkId>/<deviceTypeId>/<deviceId>/<name>, commands on dh/command/..., however inserted, with the
WebSocket's JSON. The subscriptionId in it is the plugin's own, of no use to clients. What they publish elsewhere is
dropped. MQTT subscriptions do not look back.

A long poll (query timestamp, waitTimeout in seconds, names) answers a list. With a timestamp it is at once the list of
what came then or later, if there is anything, of notifications in no order. Otherwise it waits, and the first
notification that comes is the answer. An empty list says that none came.

--lose-every N answers the N-th inserted notification but hands it to nobody, neither by push nor by poll.
--record FILE gets CSV lines time_ns,what,device,id,text: what is inserted, pushed, polled or lost, time is the wall
clock, text is the content as JSON. Pushed is once for each WebSocket subscription and each MQTT client reached, and for
each command in a poll's answer. Polled is once for each notification in a poll's answer.
"""
import asyncio, base64, bisect, collections, datetime, itertools, operator, os, random, re, time
from types import SimpleNamespace
from server import Record, Refused, compact, is_open, json_body, listen, options, parse_json, parse_timestamp, push, reason
from mqtt_server import MqttServer

LOGIN, PASSWORD = "dhadmin", "dhadmin_#911"
LIFETIME = {"access": 30 * 60, "refresh": 180 * 24 * 3600}
KINDS = ("notification", "command")
REMEMBERED, LOOK_BACK = {"notification": 10_000, "command": 50}, 50
POLLED = ("id", "deviceId", "notification", "timestamp", "parameters")
EPOCH, BY_TIME = datetime.datetime(1970, 1, 1), operator.attrgetter("timestamp")
# Stands for the socket of what a request over MQTT subscribes to. The request is answered, but nothing is ever pushed:
# the plugin passes on only what its own subscriptions bring.
NOWHERE = SimpleNamespace(state=None, transport=SimpleNamespace(get_write_buffer_size=lambda: 0))


def is_user(login, password):
    return (login, password) == (LOGIN, PASSWORD)


def new_subscription_id():
    """Always above 2^53: a client that reads the number as a double gets it wrong."""
    return random.getrandbits(62) | 1 << 62


def push_text(message, subscription_id):
    return f'{{"action":"{message.kind}/insert","subscriptionId":{subscription_id},"{message.kind}":{message.json}}}'


def new_session(authenticated):
    return SimpleNamespace(authenticated=authenticated, subscriptions={})


class Platform:
    def __init__(self, lose_every, record):
        self.lose_every, self.record = lose_every, record
        self.notifications, self.numbers = 0, itertools.count(1)
        self.tokens, self.devices = {}, {}
        self.stamped = {}                                   # device -> its last timestamp, in milliseconds
        self.remembered = collections.defaultdict(list)     # (kind, device) -> messages, in the order of timestamps
        self.subscriptions = collections.defaultdict(dict)  # (kind, device or None for all) -> {id: subscription}
        self.polls = collections.defaultdict(dict)          # (kind, device) -> {future: (names or None, what came)}
        self.mqtt = MqttServer(is_user, self.mqtt_published, self.mqtt_left)
        self.mqtt_sessions = {}                             # client id -> session, from the first request on
        self.mqtt_subscription_ids = {kind: new_subscription_id() for kind in KINDS}

    def note(self, what, message):
        self.record.add(what, message.device, message.id, message.text)

    def new_token(self, use):
        # Looks like a JWT; what counts is that it was handed out here.
        parts = (b'{"alg":"HS256"}', compact({"payload": {"a": [0], "u": 1, "n": ["*"], "dt": ["*"], "t": use == "access",
                 "e": int((time.time() + LIFETIME[use]) * 1000)}}).encode(), os.urandom(32))
        token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
        self.tokens[token] = (use, time.monotonic() + LIFETIME[use])
        return token

    def check_token(self, token, use="access", code=401):
        known = self.tokens.get(token) if isinstance(token, str) else None
        if known is None or known[0] != use or known[1] < time.monotonic():
            raise Refused(code, "Invalid or expired token")

    def log_in(self, body):
        if not is_user(body.get("login"), body.get("password")):
            raise Refused(401, "Invalid credentials")
        return {"accessToken": self.new_token("access"), "refreshToken": self.new_token("refresh")}

    def refresh(self, body):
        self.check_token(body.get("refreshToken"), "refresh", 400)
        return {"accessToken": self.new_token("access")}

    def device(self, device_id):
        if not isinstance(device_id, str) or device_id not in self.devices:
            raise Refused(404 if device_id and isinstance(device_id, str) else 400, f"Device with id = {device_id} not found")
        return self.devices[device_id]

    def save_device(self, device_id, update):
        if not isinstance(device_id, str) or not re.fullmatch(r"[A-Za-z0-9-]{1,48}", device_id):
            raise Refused(400, "Device Id can only contain letters, digits and dashes.")
        if not isinstance(update, dict) or not isinstance(update.get("name"), str) or not update["name"]:
            raise Refused(400, "Device name is required")
        if update.get("networkId") not in (None, 1) or update.get("deviceTypeId") not in (None, 1):
            raise Refused(404, "Network or device type not found")
        self.devices[device_id] = {"id": device_id, "name": update["name"], "data": update.get("data"), "networkId": 1,
                                   "deviceTypeId": 1, "isBlocked": bool(update.get("isBlocked"))}

    def delete_device(self, device_id):
        self.device(device_id)
        del self.devices[device_id]
        for kind in KINDS:
            self.remembered.pop((kind, device_id), None)

    def stamp(self, device_id):
        """The time now, yet always after the device's last: a poll for what came after one must miss nothing."""
        moment = max(time.time_ns() // 1_000_000, self.stamped.get(device_id, 0) + 1)
        self.stamped[device_id] = moment
        return (EPOCH + datetime.timedelta(milliseconds=moment)).isoformat(timespec="milliseconds")

    def insert(self, kind, device_id, content):
        """Accepts a notification or command and returns the answer's inner object."""
        self.device(device_id)
        if not isinstance(content, dict) or not isinstance(content.get(kind), str) or not content[kind]:
            raise Refused(400, f"{kind} with a name is required")
        timestamp = parse_timestamp(content.get("timestamp") or None) or self.stamp(device_id)
        number = next(self.numbers)
        # Multiplying by an odd number permutes the 31-bit numbers: ids are unique, yet in no order.
        ident = number * 0x9E3779B1 & 0x7FFFFFFF
        full = {"id": ident, kind: content[kind], "deviceId": device_id, "networkId": 1, "deviceTypeId": 1,
                "timestamp": timestamp, "parameters": content.get("parameters")}
        answer = {"id": ident, "timestamp": timestamp}
        if kind == "command":
            full["userId"] = answer["userId"] = 1
        message = SimpleNamespace(kind=kind, device=device_id, id=ident, name=content[kind], timestamp=timestamp, full=full,
                                  json=compact(full), text=compact({key: full[key] for key in (kind, "parameters")}))
        self.note("inserted", message)
        if kind == "notification":
            self.notifications += 1
            if self.lose_every and self.notifications % self.lose_every == 0:
                self.note("lost", message)
                return answer
        self.give_to_polls(message)
        subscriptions = [subscription for key in ((kind, device_id), (kind, None))
                         for subscription in self.subscriptions.get(key, {}).values()]
        # The product promises no order of answer and push, so both occur: every other push comes after the answer.
        if number % 2:
            self.hand_out(subscriptions, message)
        else:
            asyncio.get_running_loop().call_soon(self.hand_out, subscriptions, message)
        return answer

    def give_to_polls(self, message):
        """Never late, unlike pushes: a poller that got a later message first would not ask for this one again."""
        key = (message.kind, message.device)
        bisect.insort(self.remembered[key], message, key=BY_TIME)
        del self.remembered[key][:-REMEMBERED[message.kind]]
        for arrival, (names, came) in self.polls.get(key, {}).items():
            if not names or message.name in names:
                came.append(message)
                if not arrival.done():
                    arrival.set_result(None)

    def hand_out(self, subscriptions, message):
        self.push_to(subscriptions, message)
        full = message.full
        topic = f"dh/{message.kind}/{full['networkId']}/{full['deviceTypeId']}/{message.device}/{message.name}"
        text = push_text(message, self.mqtt_subscription_ids[message.kind])
        self.mqtt.publish(topic, text.encode(), before_each=lambda: self.note("pushed", message))

    def push_to(self, subscriptions, message):
        for subscription in subscriptions:
            current = subscription.id in self.subscriptions[subscription.key]  # not unsubscribed since
            if current and is_open(subscription.socket) and (not subscription.names or message.name in subscription.names):
                self.note("pushed", message)
                push([subscription.socket], push_text(message, subscription.id))

    def subscribe(self, kind, socket, own, request):
        device_id, names = request.get("deviceId"), request.get("names")
        since = parse_timestamp(request.get("timestamp"))
        if device_id is not None:
            self.device(device_id)
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise Refused(400, "names must be a list of strings")
        if any(request.get(field) not in (None, [], [1]) for field in ("networkIds", "deviceTypeIds")):
            raise Refused(404, "Network or device type not found")
        subscription = SimpleNamespace(id=new_subscription_id(), socket=socket, key=(kind, device_id),
                                       names=set(names) if names else None)
        self.subscriptions[kind, device_id][subscription.id] = own[subscription.id] = subscription
        if since:
            for key in [key for key in self.remembered if key[0] == kind and device_id in (None, key[1])]:
                for message in [message for message in self.remembered[key][-LOOK_BACK:] if message.timestamp > since]:
                    asyncio.get_running_loop().call_soon(self.push_to, [subscription], message)
        return {"subscriptionId": subscription.id}

    def unsubscribe(self, kind, own, ident):
        if ident is not None and (not isinstance(ident, int) or ident not in own or own[ident].key[0] != kind):
            raise Refused(404, f"Subscription with id = {ident} not found")
        for each in [ident] if ident is not None else [i for i in own if own[i].key[0] == kind]:
            del self.subscriptions[own.pop(each).key][each]

    async def poll(self, kind, device_id, request):
        """Without a timestamp only what comes while it waits; an empty list when nothing comes in time."""
        self.device(device_id)
        wait = request.query.get("waitTimeout", "30")
        if not re.fullmatch(r"[0-9]{1,2}", wait) or int(wait) > 60:
            raise Refused(400, "waitTimeout must be 0 to 60")
        names, since = request.query.get("names"), parse_timestamp(request.query.get("timestamp"))
        names, key, found = set(names.split(",")) if names else None, (kind, device_id), []
        if since:
            remembered = self.remembered.get(key, [])
            after = remembered[bisect.bisect_left(remembered, since, key=BY_TIME):]
            found = [message for message in after if not names or message.name in names]
        waited = not found
        if waited:
            arrival = asyncio.get_running_loop().create_future()
            self.polls[key][arrival] = (names, found)
            await asyncio.wait([arrival], timeout=int(wait))
            del self.polls[key][arrival]
            if kind == "notification":
                del found[1:]  # the next poll asks for these, by timestamp
        for message in found if not request.reader.at_eof() else ():
            self.note("polled" if kind == "notification" else "pushed", message)
        if kind == "command":
            return [message.full for message in found]
        answer = [{field: message.full[field] for field in POLLED} for message in found]
        random.shuffle(answer)
        return answer

    def act(self, session, socket, request):
        """One request: returns what the answer has beside action, requestId and status, if anything."""
        device_id = request.get("deviceId")
        if request.get("action") == "authenticate":
            session.authenticated = False
            self.check_token(request.get("token"))
            session.authenticated = True
            return None
        if not session.authenticated:
            raise Refused(401, "Unauthorized")
        match str(request.get("action")).split("/"):
            case ["device", "save"]:
                return self.save_device(device_id, request.get("device"))
            case ["device", "get"]:
                return {"device": self.device(device_id)}
            case ["device", "delete"]:
                return self.delete_device(device_id)
            case ["notification" | "command" as kind, "insert"]:
                return {kind: self.insert(kind, device_id, request.get(kind))}
            case ["notification" | "command" as kind, "subscribe"]:
                return self.subscribe(kind, socket, session.subscriptions, request)
            case ["notification" | "command" as kind, "unsubscribe"]:
                return self.unsubscribe(kind, session.subscriptions, request.get("subscriptionId"))
        raise Refused(400, f"Unknown action requested: {request.get('action')}")

    def answer(self, session, socket, text):
        """The whole answer to one request, over WebSocket or MQTT."""
        answer = {}
        try:
            request = parse_json(text, dict)
            answer = {key: request[key] for key in ("action", "requestId") if key in request}
            answer |= {"status": "success"} | (self.act(session, socket, request) or {})
        except Exception as failure:
            code, text = reason(failure)
            answer |= {"status": "error", "code": code, "error": text}
        return answer

    def end(self, session):
        for kind in KINDS:
            self.unsubscribe(kind, session.subscriptions, None)

    async def websocket(self, socket):
        session = new_session(authenticated=False)
        try:
            async for frame in socket:  # a broken connection raises here or below; the library then ends it
                if isinstance(frame, bytes):
                    return await socket.close(1003, "Binary messages not supported")
                await socket.send(compact(self.answer(session, socket, frame)))
        finally:
            self.end(session)

    def mqtt_published(self, client_id, topic, payload):
        if topic != "dh/request":
            return
        session = self.mqtt_sessions.setdefault(client_id, new_session(authenticated=True))
        answer = self.answer(session, NOWHERE, payload.decode(errors="replace"))
        response = f"dh/response/{answer.get('action', '')}@{client_id}"
        if self.mqtt.subscribed(client_id, response):
            self.mqtt.publish(response, compact(answer).encode())

    def mqtt_left(self, client_id):
        if client_id in self.mqtt_sessions:
            self.end(self.mqtt_sessions.pop(client_id))

    async def auth(self, request):
        match request.path[1:]:
            case ["auth", "rest", "token"] if request.method == "POST":
                return 201, self.log_in(json_body(request))
            case ["auth", "rest", "token", "refresh"] if request.method == "POST":
                return 201, self.refresh(json_body(request))
        raise Refused(404, "Not found")

    async def rest(self, request):
        if request.path[:3] != ["", "api", "rest"]:
            raise Refused(404, "Not found")
        if request.path[3:] == ["info"] and request.method == "GET":
            now = EPOCH + datetime.timedelta(milliseconds=time.time_ns() // 1_000_000)
            return 200, {"apiVersion": "4.1.0", "serverTimestamp": now.isoformat(timespec="milliseconds")}
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        self.check_token(token.strip() if scheme.lower() == "bearer" else None)
        method = request.method
        match request.path[3:]:
            case ["device", device_id] if method == "PUT":
                return 204, self.save_device(device_id, json_body(request))
            case ["device", device_id] if method == "GET":
                return 200, self.device(device_id)
            case ["device", device_id] if method == "DELETE":
                return 204, self.delete_device(device_id)
            case ["device", device_id, "notification" | "command" as kind] if method == "POST":
                return 201, self.insert(kind, device_id, json_body(request))
            case ["device", device_id, "notification" | "command" as kind, "poll"] if method == "GET":
                return 200, await self.poll(kind, device_id, request)
            case ["device", _] | ["device", _, "notification" | "command"] | ["device", _, "notification" | "command", "poll"]:
                raise Refused(405, "Method not allowed")
        raise Refused(404, "Not found")


async def main(given, record):
    platform = Platform(given.lose_every, record)
    mqtt_port = await platform.mqtt.listen(given.mqtt_port)
    await listen([("rest", given.rest_port, platform.rest), ("auth", given.auth_port, platform.auth)],
                 lambda code, text: {"error": code, "message": text},
                 given.websocket_port, "/api/websocket", platform.websocket, record, [("mqtt", mqtt_port)])


if __name__ == "__main__":
    given = options(__doc__, ("--rest-port", "--auth-port", "--websocket-port", "--mqtt-port", "--lose-every"))
    asyncio.run(main(given, Record(given.record)))
