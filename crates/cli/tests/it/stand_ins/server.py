"""What the platform stand-ins share: a small, strict HTTP/1.1 server on asyncio, refusals, the record of messages.

It is modelled on no product: each stand-in brings its own routes and its own shape of error.
"""
import argparse, asyncio, csv, datetime, http, json, logging, os, re, signal, time, urllib.parse
from types import SimpleNamespace
from websockets.asyncio.server import broadcast, serve
from websockets.protocol import State

LARGEST_BODY, LARGEST_BACKLOG = 1 << 20, 16 << 20


class Refused(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code, self.text = code, text


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def parse_json(text, expected_type):
    def no_constant(name):
        raise ValueError(name + " is not JSON")
    try:
        value = json.loads(text, parse_constant=no_constant)
    except (ValueError, RecursionError):
        raise Refused(400, "Malformed JSON") from None
    if not isinstance(value, expected_type):
        raise Refused(400, "Unexpected JSON type")
    return value


def is_json(request):
    return request.headers.get("content-type", "").split(";")[0].strip().lower() == "application/json"


def json_body(request):
    """For products that refuse a body not declared as JSON."""
    if not is_json(request):
        raise Refused(415, "Unsupported Media Type")
    return parse_json(request.body, dict)


def parse_timestamp(value):
    """The normal form (UTC, milliseconds, no zone) sorts as text; nothing given means nothing returned."""
    if value is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(value)
        if moment.tzinfo:
            moment = moment.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return moment.isoformat(timespec="milliseconds")
    except (TypeError, ValueError, OverflowError):
        raise Refused(400, "Invalid timestamp") from None


class Record:
    """CSV lines time_ns,what,device,id,text (wall clock), or nothing at all without a path."""

    def __init__(self, path):
        self.file = None
        if path:  # line buffered, so that a reader sees each line at once
            self.file = open(path, "w", buffering=1, newline="", encoding="utf-8", errors="backslashreplace")
            self.writer = csv.writer(self.file, lineterminator="\n")
            self.writer.writerow(["time_ns", "what", "device", "id", "text"])

    def add(self, what, device, ident, text):
        if self.file:
            self.writer.writerow([time.time_ns(), what, device, ident, text])


def is_open(socket):
    """Cuts off a WebSocket that never reads: what is pushed to it must not fill the memory."""
    if socket.transport.get_write_buffer_size() > LARGEST_BACKLOG:
        socket.transport.abort()
        return False
    return socket.state is State.OPEN


def push(sockets, text):
    broadcast(sockets, text)  # writes without waiting, so that a slow subscriber holds nobody up


def reason(failure):
    return (failure.code, failure.text) if isinstance(failure, Refused) else (500, repr(failure))


async def read_request(reader):
    """The next HTTP request, or None when the client has closed between two requests."""
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError:
        raise Refused(431, "Header too large") from None
    first = re.fullmatch(r"([A-Z]+) (/\S*) HTTP/1\.([01])", lines[0])
    fields = [re.fullmatch(r"([!#-'*+.0-9A-Z^_`a-z|~-]+):[ \t]*(.*?)[ \t]*", line) for line in lines[1:]]
    if not first or not all(fields):
        raise Refused(400, "Bad request")
    headers = {field[1].lower(): field[2] for field in fields}
    length = headers.get("content-length", "0")
    if (first[3] == "1" and "host" not in headers) or not re.fullmatch("[0-9]{1,9}", length):
        raise Refused(400, "Bad request")
    if "transfer-encoding" in headers:
        raise Refused(411, "Length required")
    if int(length) > LARGEST_BODY:
        raise Refused(413, "Body too large")
    path, _, query = first[2].partition("?")
    return SimpleNamespace(method=first[1], path=[urllib.parse.unquote(part) for part in path.split("/")], headers=headers,
                           query=dict(urllib.parse.parse_qsl(query)), body=await reader.readexactly(int(length)), reader=reader,
                           keep=first[3] == "1" and headers.get("connection", "").lower() != "close")


async def serve_http(route, error_body, reader, writer):
    """route(request) returns (status, body or None) or raises Refused; a 429 closes the connection."""
    try:
        keep = True
        while keep:
            keep = False  # after a request that cannot be read, the start of the next one is unknown
            try:
                request = await read_request(reader)
                if request is None:
                    break
                keep = request.keep
                status, body = await route(request)
            except (ConnectionError, asyncio.IncompleteReadError):
                break
            except Exception as failure:
                status, text = reason(failure)
                body, keep = error_body(status, text), keep and status != 429
            text = "" if body is None else compact(body)
            head = f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\nConnection: {'keep-alive' if keep else 'close'}\r\n"
            if status != 204:
                head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n"
            writer.write((head + "\r\n" + text).encode())
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


def options(description, numbers, *flags):
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    for option in numbers:
        parser.add_argument(option, type=int, default=0)
    for option in flags:
        parser.add_argument(option, action="store_true")
    parser.add_argument("--record")
    return parser.parse_args()


async def listen(http_servers, error_body, websocket_port, websocket_path, websocket_handler, record, others=()):
    """http_servers is a list of (name, port, route). others are the (name, port) of servers that listen already: they
    are only printed. Ends the process on SIGTERM."""
    def only_path(connection, request):
        if request.path.partition("?")[0] != websocket_path:
            return connection.respond(404, "Not found\n")
    logging.getLogger("websockets").setLevel(logging.CRITICAL)  # refused handshakes are part of the tests
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    servers = []  # asyncio sets TCP_NODELAY on every connection it accepts
    for name, port, route in http_servers:
        servers.append((name, await asyncio.start_server(
            lambda reader, writer, route=route: serve_http(route, error_body, reader, writer), "127.0.0.1", port, backlog=1024)))
    servers.append(("websocket", await serve(websocket_handler, "127.0.0.1", websocket_port, process_request=only_path,
                    compression=None, ping_interval=None, max_size=LARGEST_BODY, backlog=1024)))
    ports = [(name, next(iter(server.sockets)).getsockname()[1]) for name, server in servers]
    print("listening", *(f"{name}={port}" for name, port in [*ports, *others]), flush=True)
    await stop.wait()
    if record.file:
        record.file.close()
    os._exit(0)  # no goodbyes: open polls and connections end with the process
