#!/usr/bin/env python3
"""A small proxy that authenticates and lets only so many requests through at once, as a policy enforcement point before a
context broker does: 401 without the token, 503 when it is full. Everything else it passes on, and the answer back.

  proxy.py --port 1027 --behind 1026 --token TOKEN [--most N] [--pause SECONDS]
"""
import argparse
import http.client
import http.server
import json
import signal
import sys
import threading
import time

# Fields that belong to one connection alone.
OWN = {"connection", "content-length", "host", "keep-alive", "server", "date", "transfer-encoding"}
# How long the one behind may take.
PATIENCE = 30


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # Head and body leave together.
    wbufsize = -1
    behind = None

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/health":
            return self.answer(200, [])
        # Agents send a token as OAuth 2 does.
        if self.headers.get("X-Auth-Token", "").removeprefix("Bearer ") != self.server.token:
            return self.refuse(401, "X-Auth-Token is not known")
        if not self.server.places.acquire(blocking=False):
            return self.refuse(503, "too many requests at once")
        try:
            time.sleep(self.server.pause)
            self.pass_on(body)
        finally:
            self.server.places.release()

    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

    def pass_on(self, body):
        if self.behind is None:
            self.behind = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=PATIENCE)
        fields = {name: value for name, value in self.headers.items() if name.lower() not in OWN}
        try:
            self.behind.request(self.command, self.path, body or None, fields)
            answer = self.behind.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.behind.close()
            return self.refuse(502, f"the context broker: {error}")
        self.answer(answer.status, [field for field in answer.getheaders() if field[0].lower() not in OWN], content)

    def refuse(self, status, why):
        content = json.dumps({"error": str(status), "description": why}).encode()
        self.answer(status, [("Content-Type", "application/json")], content)

    def answer(self, status, fields, content=b""):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def finish(self):
        if self.behind is not None:
            self.behind.close()
        super().finish()

    def log_message(self, *_):
        pass


class Proxy(http.server.ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def __init__(self, options):
        self.behind, self.token, self.pause = options.behind, options.token, options.pause
        self.places = threading.BoundedSemaphore(options.most)
        super().__init__(("127.0.0.1", options.port), Handler)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--behind", type=int, required=True, help="port of the context broker")
    parser.add_argument("--token", required=True)
    parser.add_argument("--most", type=int, default=200, help="requests that are let through at once")
    parser.add_argument("--pause", type=float, default=0.0, help="planted: seconds before each is passed on")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    Proxy(parser.parse_args()).serve_forever()


if __name__ == "__main__":
    main()
