"""A small, strict MQTT 3.1.1 server on asyncio, for platform stand-ins that speak MQTT.

It is modelled on no product and relays nothing by itself. What clients publish goes to a callback, and the stand-in
publishes what it wants. QoS 0 and 1 both ways; a client that publishes at QoS 2 is cut off, as after any malformed
packet. Each message is sent once. No session outlives its connection; wills and the retain flag are read and ignored.
"""
import asyncio, re, uuid
from types import SimpleNamespace

LARGEST_PACKET, LARGEST_BACKLOG, PACKET_IDS = 4 << 20, 16 << 20, 65535
CLEAN_SESSION, WILL, WILL_QOS, WILL_OPTIONS, PASSWORD, USER = 0x02, 0x04, 0x18, 0x38, 0x40, 0x80
TOPIC = re.compile("[^+#\0\ud800-\udfff]+")
FILTER = re.compile(r"(?!\Z)((\+|[^+#/\0]*)/)*(\+|#|[^+#/\0]*)")  # a wildcard is a whole level, and # is the last one


class Kind:
    CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK = 1, 2, 3, 4, 8, 9, 10, 11
    PINGREQ, PINGRESP, DISCONNECT = 12, 13, 14


class Fields:
    """Takes the fields of a packet one after another; a ValueError says that the packet is malformed."""

    def __init__(self, body):
        self.body, self.at = body, 0

    def take(self, count):
        self.at += count
        if self.at > len(self.body):
            raise ValueError("the packet is too short")
        return self.body[self.at - count:self.at]

    def number(self, size=2):
        return int.from_bytes(self.take(size), "big")

    def binary(self):
        return self.take(self.number())

    def text(self, form=re.compile("[^\0]*")):
        text = self.binary().decode()
        if not form.fullmatch(text):
            raise ValueError("a text has characters that it must not have")
        return text

    def packet_id(self):
        ident = self.take(2)
        if ident == b"\0\0":
            raise ValueError("packet id 0")
        return ident

    def rest(self):
        return self.take(len(self.body) - self.at)

    def ended(self):
        return self.at == len(self.body)


def packet(kind, flags, body):
    head, length = bytearray([kind << 4 | flags]), len(body)
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    head.append(length)
    return bytes(head) + body


async def read_packet(reader):
    first, length = (await reader.readexactly(1))[0], 0
    for shift in (0, 7, 14, 21):
        byte = (await reader.readexactly(1))[0]
        length |= (byte & 127) << shift
        if byte < 128:
            break
    else:
        raise ValueError("the length has more than four bytes")
    if length > LARGEST_PACKET:
        raise ValueError("the packet is too large")
    return first >> 4, first & 15, Fields(await reader.readexactly(length))


class Client:
    def __init__(self, ident, keep_alive, writer):
        self.id, self.writer, self.silence = ident, writer, keep_alive * 1.5 or None
        self.filters = set()
        self.unacknowledged, self.last_packet_id = set(), 0

    def is_open(self):
        """Cuts off a client that never reads or never acknowledges: what is sent to it must not fill the memory."""
        transport = self.writer.transport
        if transport.get_write_buffer_size() > LARGEST_BACKLOG or len(self.unacknowledged) == PACKET_IDS:
            transport.abort()
        return not transport.is_closing()

    def send(self, data):
        if self.is_open():
            self.writer.write(data)  # without waiting, so that a slow client holds nobody up

    def new_packet_id(self):
        """Never one that is still unacknowledged; the caller has asked is_open(), so one is free."""
        while True:
            self.last_packet_id = self.last_packet_id % PACKET_IDS + 1
            ident = self.last_packet_id.to_bytes(2, "big")
            if ident not in self.unacknowledged:
                self.unacknowledged.add(ident)
                return ident

    def publish(self, name, payload, qos):
        ident = self.new_packet_id() if qos else b""
        self.writer.write(packet(Kind.PUBLISH, qos << 1, len(name).to_bytes(2, "big") + name + ident + payload))


class MqttServer:
    """Callbacks: authenticate(user, password) -> bool, both None if not given; published(client_id, topic, payload);
    left(client_id) at the end of each accepted connection."""

    def __init__(self, authenticate, published, left):
        self.authenticate, self.published, self.left = authenticate, published, left
        self.clients = {}                                      # client id -> client
        self.tree = SimpleNamespace(below={}, subscribers={})  # one step a level, so that a publish looks at few filters

    async def listen(self, port):
        """Returns the port, which the system chooses for 0."""
        # asyncio sets TCP_NODELAY on every connection it accepts.
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", port, backlog=1024)
        return self.server.sockets[0].getsockname()[1]

    def subscribed(self, client_id, topic_filter):
        """Whether this client has subscribed to this very filter."""
        return client_id in self.clients and topic_filter in self.clients[client_id].filters

    def publish(self, topic, payload, qos=1, before_each=lambda: None):
        """Sends to every client with a filter that matches, once, and calls before_each before each sending."""
        name = topic.encode(errors="replace")
        if not TOPIC.fullmatch(topic) or len(name) > 65535:
            return  # made from a name that no topic can have
        for client, granted in self.receivers(topic).items():
            if client.is_open():
                before_each()
                client.publish(name, payload, min(qos, granted))

    def receivers(self, topic):
        """Client -> the highest QoS granted to one of its filters that match."""
        nodes, ends = [self.tree], []
        for level in topic.split("/"):
            ends += [node.below["#"] for node in nodes if "#" in node.below]
            nodes = [node.below[step] for node in nodes for step in (level, "+") if step in node.below]
        ends += nodes + [node.below["#"] for node in nodes if "#" in node.below]  # a/# matches a too
        highest = {}
        for node in ends:
            for client, qos in node.subscribers.items():
                highest[client] = max(qos, highest.get(client, 0))
        return highest

    def set_filter(self, client, topic_filter, qos):
        """Enters a subscription, or takes it out if qos is None."""
        node, path = self.tree, []
        for level in topic_filter.split("/"):
            path.append((node, level))
            node = node.below.setdefault(level, SimpleNamespace(below={}, subscribers={}))
        if qos is None:
            client.filters.discard(topic_filter)
            node.subscribers.pop(client, None)
        else:
            client.filters.add(topic_filter)
            node.subscribers[client] = qos
        for parent, level in reversed(path):
            if parent.below[level].below or parent.below[level].subscribers:
                break
            del parent.below[level]

    def leave(self, client):
        if self.clients.get(client.id) is client:  # else a newer connection with this id has already ended it
            del self.clients[client.id]
            for topic_filter in list(client.filters):
                self.set_filter(client, topic_filter, None)
            self.left(client.id)

    async def accept(self, reader, writer):
        """Reads and answers CONNECT; returns the client, or None if it was refused."""
        kind, flags, fields = await read_packet(reader)
        protocol = fields.text()
        if (kind, flags) != (Kind.CONNECT, 0) or protocol not in ("MQTT", "MQIsdp"):
            raise ValueError("not a CONNECT")
        if (protocol, fields.number(1)) != ("MQTT", 4):  # what follows has another form, so the code comes now
            writer.write(packet(Kind.CONNACK, 0, b"\0\1"))
            return None
        flags, keep_alive, ident = fields.number(1), fields.number(), fields.text()
        impossible_will = flags & WILL_OPTIONS and not flags & WILL or flags & WILL_QOS == WILL_QOS
        if flags & 1 or flags & (USER | PASSWORD) == PASSWORD or impossible_will:
            raise ValueError("flags that cannot be")
        if flags & WILL:
            fields.text(TOPIC)
            fields.binary()
        user = fields.text() if flags & USER else None
        password = fields.binary().decode(errors="replace") if flags & PASSWORD else None
        if not fields.ended():
            raise ValueError("the packet is too long")
        code = 2 if not ident and not flags & CLEAN_SESSION else 0 if self.authenticate(user, password) else 4
        if code:
            writer.write(packet(Kind.CONNACK, 0, bytes([0, code])))
            return None
        client = Client(ident or uuid.uuid4().hex, keep_alive, writer)
        if client.id in self.clients:
            former = self.clients[client.id]
            self.leave(former)
            former.writer.close()
        self.clients[client.id] = client
        client.send(packet(Kind.CONNACK, 0, b"\0\0"))
        return client

    def handle(self, client, kind, flags, fields):
        match kind, flags:
            case Kind.PUBLISH, _:
                qos, topic = flags >> 1 & 3, fields.text(TOPIC)
                if qos > 1:
                    raise ValueError("QoS 2 is not supported")
                if qos:  # acknowledged before it is dealt with: the callback's answer is another message
                    client.send(packet(Kind.PUBACK, 0, fields.packet_id()))
                self.published(client.id, topic, fields.rest())
            case Kind.PUBACK, 0:
                client.unacknowledged.discard(fields.packet_id())
            case Kind.SUBSCRIBE, 2:
                ident, granted = fields.packet_id(), bytearray()
                while not granted or not fields.ended():
                    topic_filter, asked = fields.text(FILTER), fields.number(1)
                    if asked > 2:
                        raise ValueError("not a subscription")
                    granted.append(min(asked, 1))
                    self.set_filter(client, topic_filter, granted[-1])
                client.send(packet(Kind.SUBACK, 0, ident + granted))
            case Kind.UNSUBSCRIBE, 2:
                ident, filters = fields.packet_id(), []
                while not filters or not fields.ended():
                    filters.append(fields.text(FILTER))
                    self.set_filter(client, filters[-1], None)
                client.send(packet(Kind.UNSUBACK, 0, ident))
            case Kind.PINGREQ, 0:
                client.send(packet(Kind.PINGRESP, 0, b""))
            case _:
                raise ValueError("a packet that a client must not send now")
        if not fields.ended():
            raise ValueError("the packet is too long")

    async def serve(self, reader, writer):
        client = None
        try:
            client = await self.accept(reader, writer)
            while client:
                async with asyncio.timeout(client.silence):
                    kind, flags, fields = await read_packet(reader)
                if kind == Kind.DISCONNECT or writer.is_closing():
                    break
                self.handle(client, kind, flags, fields)
        except (OSError, ValueError, asyncio.IncompleteReadError):  # OSError is also a keep-alive that ran out
            pass
        finally:
            if client:
                self.leave(client)
            writer.close()
