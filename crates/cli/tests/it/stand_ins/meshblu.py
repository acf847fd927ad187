#!/usr/bin/env python3
"""A small stand-in for Meshblu 1.18 (the monolith), for tests of clients.

Modelled after its HTTP, WebSocket and MQTT adapters. HTTP, headers meshblu_auth_uuid and meshblu_auth_token: POST /devices,
GET /v2/whoami, DELETE /devices/{uuid}, POST /messages, GET /subscribe/{uuid} and /subscribe/{uuid}/broadcast.
WebSocket /ws/v2, text frames [type, data] without request ids: identity, subscribe, unsubscribe, message, whoami, status;
message and subscribe get no answer unless they fail.
With --core the status codes are those of the microservices core (403 for bad authentication, 204 for done).

A subscription over HTTP is one chunked answer without end, whose head comes with the first broadcast. It has each
broadcast of the device as a JSON object over several lines. Only every second object has a newline after it, so a reader
must find where each ends.

MQTT, user uuid, password token. A client may subscribe to its own uuid only: other filters are granted but bring nothing.
The topics message and whoami take the data of the WebSocket frame of that name; what is published elsewhere is ignored.
On its uuid a client gets {"topic","data","_request"}. For whoami, _request is the request, with any callback id in it.
For message it is empty, because a push answers no request. A message has no answer, except that PUBACK comes at QoS 1,
even if the message is then refused. Whatever is refused over MQTT closes the connection.

Who gets a message: every WebSocket connection of a device named in "devices" (from identity on), and its MQTT clients
that have subscribed. For "*", every WebSocket connection and HTTP stream that has subscribed to the sender's broadcasts.
A device may also subscribe to what itself has sent, over WebSocket.

--lose-every N pushes the N-th message to nobody. --duplicate-every N pushes the N-th broadcast twice to each subscriber.
--rate N refuses messages above N in a second and device with the 429 error and closes the connection (MQTT: only closes).
--record FILE gets CSV lines time_ns,what,device,id,text: what is inserted, pushed (once for each connection reached and
copy) or lost. The product gives messages no id, so id counts them here; device is the sender, for pushed the recipient.
"""
import asyncio, collections, contextvars, itertools, json, secrets, time, uuid
from types import SimpleNamespace
from server import LARGEST_BACKLOG, Record, Refused, compact, is_json, is_open, listen, options, parse_json, push, reason
from mqtt_server import MqttServer

SUBSCRIPTION_TYPES = ("broadcast", "sent", "received")
# Whose an MQTT connection is. Each is served by a task of its own, and a task has its own value of this.
MQTT_DEVICE = contextvars.ContextVar("MQTT_DEVICE")


class Platform:
    def __init__(self, given, record):
        self.given, self.record = given, record
        self.unauthorized, self.done = (403, 204) if given.core else (401, 200)
        self.devices = {}                                 # uuid -> what whoami tells
        self.tokens = {}                                  # uuid -> token
        self.subscribers = collections.defaultdict(dict)  # (uuid, subscription type) -> {session: None}, in order
        self.windows = {}                                 # uuid -> [start of the current second, messages in it]
        self.messages = self.broadcasts = 0
        # Nothing to do when an MQTT client has left: the server holds all there is about it.
        self.mqtt = OwnTopicOnly(self.mqtt_log_in, self.mqtt_published, lambda client_id: None)

    def authenticate(self, device, token):
        known = self.tokens.get(device) if isinstance(device, str) else None
        if known is None or token != known:
            raise Refused(self.unauthorized, "Unauthorized")
        return device

    def register(self, properties):
        device = str(uuid.uuid4())
        self.tokens[device] = token = secrets.token_hex(20)
        self.devices[device] = {key: value for key, value in properties.items() if key != "token"} | {"uuid": device}
        return self.devices[device] | {"token": token}

    def unregister(self, device):
        del self.devices[device], self.tokens[device]
        self.windows.pop(device, None)
        for key in [key for key in self.subscribers if key[0] == device]:
            for session in self.subscribers.pop(key):
                session.subscriptions.discard(key)

    def check_rate(self, sender):
        if self.given.rate:
            now, window = time.monotonic(), self.windows.setdefault(sender, [0, 0])
            if now - window[0] >= 1:
                window[:] = now, 0
            window[1] += 1
            if window[1] > self.given.rate:
                raise Refused(429, "Too Many Requests")

    def accept(self, sender, message):
        """Checks and delivers one message; raises Refused for one the platform would not take."""
        self.check_rate(sender)
        devices = message.get("devices") if isinstance(message, dict) else None
        if not isinstance(devices, list) or not devices or not all(isinstance(device, str) for device in devices):
            raise Refused(422, "Invalid message: \"devices\" must be a list of uuids or \"*\"")
        if not all(device == "*" or device in self.devices for device in devices):
            raise Refused(404, "Device not found")
        self.messages += 1
        ident, text = self.messages, compact(message.get("payload"))
        self.record.add("inserted", sender, ident, text)
        copies = 1
        if "*" in devices:
            self.broadcasts += 1
            if self.given.duplicate_every and self.broadcasts % self.given.duplicate_every == 0:
                copies = 2
        if self.given.lose_every and self.messages % self.given.lose_every == 0:
            self.record.add("lost", sender, ident, text)
            return
        # The sender is the one that has authenticated, whatever the message itself claims.
        message = message | {"fromUuid": sender}
        frame, mqtt_payload = compact(["message", message]), mqtt_json("message", message, {})
        for device in dict.fromkeys(devices):
            if device == "*":
                self.push_to((sender, "broadcast"), copies, message, frame, ident, text)
            else:
                self.push_to((device, "received"), 1, message, frame, ident, text)
                self.mqtt.publish(device, mqtt_payload, before_each=lambda: self.record.add("pushed", device, ident, text))
        self.push_to((sender, "sent"), 1, message, frame, ident, text)

    def push_to(self, key, times, message, frame, ident, text):
        sessions = [session for session in self.subscribers.get(key, ()) if session.is_open()]
        for _ in range(times):
            for session in sessions:
                self.record.add("pushed", session.device, ident, text)
                session.push(message, frame)

    def subscribe(self, session, device, subscription_type):
        self.subscribers[device, subscription_type][session] = None
        session.subscriptions.add((device, subscription_type))

    def unsubscribe(self, session, key):
        session.subscriptions.discard(key)
        self.subscribers.get(key, {}).pop(session, None)
        if not self.subscribers.get(key, True):
            del self.subscribers[key]

    def change_subscriptions(self, session, action, data):
        device, types = data.get("uuid"), data.get("types")
        if not isinstance(types, list) or not types or not all(each in SUBSCRIPTION_TYPES for each in types):
            raise Refused(422, "\"types\" must be a list of broadcast, sent, received")
        if not isinstance(device, str) or device not in self.devices:
            raise Refused(404, "Device not found")
        if action == "subscribe" and device != session.device and set(types) != {"broadcast"}:
            raise Refused(403, "Only the device itself may subscribe to what it sends and receives")
        for each in types:
            if action == "subscribe":
                self.subscribe(session, device, each)
            else:
                self.unsubscribe(session, (device, each))

    def identify(self, session, data):
        """Starts anew: what the connection had as another device is gone, even if this identity is refused."""
        self.leave(session)
        try:
            session.device = self.authenticate(data.get("uuid"), data.get("token"))
        except Refused as refusal:
            return ["notReady", {"api": "connect", "status": refusal.code, "message": refusal.text}]
        self.subscribe(session, session.device, "received")
        return ["ready", {"api": "connect", "status": 201, "uuid": session.device}]

    def leave(self, session):
        session.device = None
        for key in list(session.subscriptions):
            self.unsubscribe(session, key)

    def act(self, session, frame):
        """One frame of a client: returns the frame that answers it, or None."""
        if not frame or len(frame) > 2 or not isinstance(frame[0], str):
            raise Refused(400, "Invalid frame, must be in the form of [type, data]")
        action, data = frame[0], frame[1] if len(frame) == 2 else {}
        if action == "status":
            return ["status", {"meshblu": "online"}]
        if action not in ("identity", "message", "subscribe", "unsubscribe", "whoami"):
            raise Refused(422, f"Unknown type: {action}")
        if not isinstance(data, dict):
            raise Refused(422, "The data of a frame must be an object")
        if action == "identity":
            return self.identify(session, data)
        if session.device not in self.devices:  # not identified, or unregistered since
            raise Refused(self.unauthorized, "Unauthorized")
        if action == "whoami":
            return ["whoami", self.devices[session.device]]
        if action == "message":
            self.accept(session.device, data)
        else:
            self.change_subscriptions(session, action, data)
        return None

    async def websocket(self, socket):
        session = Session(socket)
        try:
            async for text in socket:  # a broken connection raises here or below; the library then ends it
                frame, status = None, None
                try:
                    if isinstance(text, bytes):
                        raise Refused(400, "Text frames only")
                    frame = parse_json(text, list)
                    answer = self.act(session, frame)
                except Exception as failure:
                    status, message = reason(failure)
                    answer = ["error", {"message": message, "frame": frame, "status": status}]
                if answer:
                    await socket.send(compact(answer))
                if status == 429:
                    await socket.close(1008, "Too Many Requests")
                    return
        finally:
            self.leave(session)

    def mqtt_log_in(self, user, password):
        try:
            MQTT_DEVICE.set(self.authenticate(user, password))
        except Refused:
            return False
        return True

    def mqtt_published(self, client_id, topic, payload):
        if topic not in ("message", "whoami"):
            return
        device = MQTT_DEVICE.get()
        try:
            request = parse_json(payload.decode() or "{}", dict)
            answer = self.act(SimpleNamespace(device=device), [topic, request])
        except (Refused, UnicodeDecodeError) as failure:
            raise ConnectionError(str(failure)) from None  # the MQTT server then closes the connection
        if answer:
            self.mqtt.publish(device, mqtt_json(*answer, request))

    async def stream(self, own, device, request):
        """A subscription over HTTP, which lasts as long as the connection."""
        if device not in self.devices:
            raise Refused(404, "Device not found")
        session = Stream(own, request.reader._transport)  # the server hands routes no writer
        self.subscribe(session, device, "broadcast")
        try:
            while await request.reader.read(1 << 16):
                pass  # what else the client sends has no meaning; only that it has closed
        finally:
            self.leave(session)
        raise ConnectionError("The subscriber has closed")  # the server then closes, without another answer

    async def http(self, request):
        def sender():
            return self.authenticate(request.headers.get("meshblu_auth_uuid"), request.headers.get("meshblu_auth_token"))

        def body():  # a body that is not declared as JSON is not read
            return parse_json(request.body, dict) if request.body and is_json(request) else {}
        method = request.method
        match request.path[1:]:
            case ["devices"] if method == "POST":
                return 201, self.register(body())
            case ["v2", "whoami"] if method == "GET":
                return 200, self.devices[sender()]
            case ["v2", "devices", device] if method == "GET":
                sender()
                if device not in self.devices:
                    raise Refused(404, "Device not found")
                return 200, self.devices[device]
            case ["devices", device] if method == "DELETE":
                own = sender()
                if device not in self.devices:
                    raise Refused(404, "Device not found")
                if device != own:
                    raise Refused(403, "Only the device itself may be unregistered")
                self.unregister(device)
                return self.done, None if self.given.core else {"uuid": device}
            case ["messages"] if method == "POST":
                own, message = sender(), body()
                self.accept(own, message)
                return self.done, None if self.given.core else message
            case ["subscribe", device] | ["subscribe", device, "broadcast"] if method == "GET":
                return await self.stream(sender(), device, request)
        raise Refused(404, "Not found")  # whatever the method: the product knows no 405


class Session:
    """One WebSocket connection; compared by identity, so that it can be a key."""

    def __init__(self, socket):
        self.socket, self.device, self.subscriptions = socket, None, set()

    def is_open(self):
        return is_open(self.socket)

    def push(self, message, frame):
        push([self.socket], frame)


class Stream:
    """One HTTP answer without end, which takes part in subscriptions as a WebSocket connection does."""

    def __init__(self, device, transport):
        self.device, self.transport, self.subscriptions = device, transport, set()
        self.has_begun = False
        self.endings = itertools.cycle(("", "\n"))  # so that no reader can rely on a newline

    def is_open(self):
        """Cuts off a client that never reads, as for WebSockets."""
        if self.transport.get_write_buffer_size() > LARGEST_BACKLOG:
            self.transport.abort()
        return not self.transport.is_closing()

    def begin(self):
        self.has_begun = True
        self.transport.write(b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n"
                             b"Transfer-Encoding: chunked\r\n\r\n")

    def push(self, message, frame):
        if not self.has_begun:
            self.begin()
        text = json.dumps(message, indent=2) + next(self.endings)
        self.transport.write(f"{len(text):x}\r\n{text}\r\n".encode())


class OwnTopicOnly(MqttServer):
    def set_filter(self, client, topic_filter, qos):
        """Enters no filter but the own uuid. Taking out is always right, and may happen in another client's task."""
        if qos is None or topic_filter == MQTT_DEVICE.get():
            super().set_filter(client, topic_filter, qos)


def mqtt_json(topic, data, request):
    return compact({"topic": topic, "data": data, "_request": request}).encode()


def error_body(code, text):
    return {"error": text}


async def main(given, record):
    platform = Platform(given, record)
    mqtt_port = await platform.mqtt.listen(given.mqtt_port)
    await listen([("http", given.http_port, platform.http)], error_body, given.websocket_port, "/ws/v2",
                 platform.websocket, record, [("mqtt", mqtt_port)])


if __name__ == "__main__":
    given = options(__doc__, ("--http-port", "--websocket-port", "--mqtt-port", "--lose-every", "--duplicate-every",
                              "--rate"), "--core")
    asyncio.run(main(given, Record(given.record)))
