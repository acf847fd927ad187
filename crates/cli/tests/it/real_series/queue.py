"""A platform that passes messages through a list of a real Redis.

  queue.py front PORT REDIS                   puts what is posted into the list
  queue.py worker PORT REDIS PAUSE GAP        takes it out, works on each message for PAUSE seconds, and notifies who is known
                                              at /hooks; where GAP is not 0, it looks into the list only so often
"""
import http.client
import http.server
import json
import socket
import sys
import threading
import time
import urllib.parse


class Redis:
    def __init__(self, port):
        self.stream = socket.create_connection(("127.0.0.1", port))
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lines = self.stream.makefile("rb")
        self.lock = threading.Lock()

    def ask(self, *parts):
        text = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        with self.lock:
            self.stream.sendall(b"*%d\r\n" % len(parts) + text)
            return self.reply()

    def reply(self):
        line = self.lines.readline()
        kind, rest = line[:1], line[1:].strip()
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self.lines.read(int(rest) + 2)[:-2]
        return rest


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/hooks":
            subscribers.append(urllib.parse.urlsplit(json.loads(body)["url"]))
        else:
            redis.ask(b"LPUSH", b"messages", body)
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()


def take(gap):
    if gap == 0:
        return redis.ask(b"BRPOP", b"messages", b"0")[1]
    while True:
        message = redis.ask(b"RPOP", b"messages")
        if message is not None:
            return message
        time.sleep(gap)


def work(pause, gap):
    connections = {}
    while True:
        message = take(gap)
        time.sleep(pause)
        for url in subscribers:
            told = connections.setdefault(url.netloc, http.client.HTTPConnection(url.hostname, url.port))
            told.request("POST", url.path or "/", message)
            told.getresponse().read()


subscribers = []
role, port = sys.argv[1], int(sys.argv[2])
redis = Redis(int(sys.argv[3]))
if role == "worker":
    threading.Thread(target=work, args=(float(sys.argv[4]), float(sys.argv[5])), daemon=True).start()
http.server.ThreadingHTTPServer.request_queue_size = 64
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
print("ready", flush=True)
server.serve_forever()
