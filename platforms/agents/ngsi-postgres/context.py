#!/usr/bin/env python3
"""A small context broker that keeps its entities in PostgreSQL and reads each before it writes it, as Orion does with its
database. Each notification has a connection of its own. For tests: it knows as much of NGSIv2 as an agent and the profile
beside it need.

  context.py --port 1026 --postgres 5432 [--sessions 4] [--pause SECONDS] [--database-pause SECONDS]
"""
import argparse
import http.client
import http.server
import json
import queue
import re
import signal
import sys
import threading
import time
import urllib.parse

import psycopg2

TABLES = """
CREATE TABLE IF NOT EXISTS entity (id text PRIMARY KEY, kind text NOT NULL, attributes jsonb NOT NULL);
CREATE OR REPLACE FUNCTION planted() RETURNS trigger AS $$ BEGIN PERFORM pg_sleep(%(pause)s); RETURN NEW; END $$ LANGUAGE plpgsql;
"""
PLANTED = "CREATE OR REPLACE TRIGGER planted BEFORE UPDATE ON entity FOR EACH ROW EXECUTE FUNCTION planted()"
# How long a listener may take.
PATIENCE = 10


class Store:
    """Entities in PostgreSQL; as many sessions as may ask at once."""

    def __init__(self, port, sessions, pause):
        self.free = queue.LifoQueue()
        for number in range(sessions):
            session = psycopg2.connect(host="127.0.0.1", port=port, user="context", dbname="postgres", sslmode="disable")
            session.autocommit = True
            if number == 0:
                with session.cursor() as cursor:
                    cursor.execute(TABLES, {"pause": pause})
                    if pause > 0:
                        cursor.execute(PLANTED)
            self.free.put(session)

    def session(self):
        return Borrowed(self.free)


class Borrowed:
    """A session of the store, given back at the end."""

    def __init__(self, free):
        self.free = free

    def __enter__(self):
        self.session = self.free.get()
        return self

    def __exit__(self, *_):
        self.free.put(self.session)

    def find(self, name):
        with self.session.cursor() as cursor:
            cursor.execute("SELECT id, kind, attributes FROM entity WHERE id = %s", (name,))
            return cursor.fetchone()

    def insert(self, name, kind, attributes):
        self.change("INSERT INTO entity VALUES (%s, %s, %s)", (name, kind, json.dumps(attributes)))

    def update(self, name, attributes):
        self.change("UPDATE entity SET attributes = attributes || %s::jsonb WHERE id = %s", (json.dumps(attributes), name))

    def delete(self, name):
        self.change("DELETE FROM entity WHERE id = %s", (name,))

    def change(self, text, values):
        with self.session.cursor() as cursor:
            cursor.execute(text, values)


class Subscription:
    """Tells one listener of changes, in their order, over a new connection for each."""

    def __init__(self, number, written):
        self.number = number
        [wanted] = written["subject"]["entities"]
        self.pattern = re.compile(wanted.get("idPattern") or re.escape(wanted["id"]))
        self.url = urllib.parse.urlsplit(written["notification"]["http"]["url"])
        self.waiting = queue.SimpleQueue()
        threading.Thread(target=self.carry, daemon=True).start()

    def tell(self, name, kind, attributes):
        if self.pattern.fullmatch(name):
            data = [{"id": name, "type": kind, **attributes}]
            self.waiting.put(json.dumps({"subscriptionId": self.number, "data": data}).encode())

    def carry(self):
        while True:
            body = self.waiting.get()
            try:
                listener = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=PATIENCE)
                listener.request("POST", self.url.path or "/", body, {"Content-Type": "application/json"})
                listener.getresponse().read()
                listener.close()
            except OSError as error:
                print(f"notification of {self.url.netloc}: {error}", file=sys.stderr, flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    # Head and body leave together.
    wbufsize = -1

    def do_GET(self):
        self.perform()

    do_POST = do_PATCH = do_DELETE = do_GET

    def perform(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        address = urllib.parse.urlsplit(self.path)
        parts = [urllib.parse.unquote(part) for part in address.path.split("/")[1:]]
        try:
            self.route(parts, json.loads(body) if body else None)
        except (ValueError, KeyError, TypeError, re.error) as error:
            self.answer(400, {"error": "BadRequest", "description": str(error)})
        except psycopg2.Error as error:
            self.answer(500, {"error": "InternalServerError", "description": str(error).strip()})

    def route(self, parts, written):
        match (self.command, parts):
            case ("GET", ["v2"]):
                self.answer(200, {"entities_url": "/v2/entities"})
            case ("POST", ["v2", "entities"]):
                attributes = {key: value for key, value in written.items() if key not in ("id", "type")}
                self.write(written["id"], written.get("type", "Thing"), attributes, create=True)
            case ("POST" | "PATCH", ["v2", "entities", name, "attrs"]):
                self.write(name, None, written, create=False)
            case ("GET", ["v2", "entities", name]):
                with self.server.store.session() as session:
                    found = session.find(name)
                self.answer(200, {"id": found[0], "type": found[1], **found[2]}) if found else self.missing()
            case ("DELETE", ["v2", "entities", name]):
                with self.server.store.session() as session:
                    session.delete(name)
                self.answer(204)
            case ("POST", ["v2", "subscriptions"]):
                number = self.server.subscribe(written)
                self.answer(201, location=f"/v2/subscriptions/{number}")
            case ("DELETE", ["v2", "subscriptions", number]):
                self.server.subscriptions.pop(number, None)
                self.answer(204)
            case _:
                self.missing()

    def write(self, name, kind, attributes, create):
        """Reads the entity, then writes it; who subscribed is told of it."""
        time.sleep(self.server.pause)
        with self.server.store.session() as session:
            found = session.find(name)
            if found is None and not create:
                return self.missing()
            if found is None:
                session.insert(name, kind, attributes)
            else:
                session.update(name, attributes)
        for subscription in list(self.server.subscriptions.values()):
            subscription.tell(name, kind or found[1], attributes)
        self.answer(204)

    def missing(self):
        self.answer(404, {"error": "NotFound", "description": self.path})

    def answer(self, status, content=None, location=None):
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        if content is not None:
            self.send_header("Content-Type", "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_):
        pass


class Context(http.server.ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def __init__(self, options):
        self.store = Store(options.postgres, options.sessions, options.database_pause)
        self.pause = options.pause
        self.subscriptions = {}
        self.numbers = iter(range(1, 1 << 62))
        super().__init__(("127.0.0.1", options.port), Handler)

    def subscribe(self, written):
        number = f"{next(self.numbers):024x}"
        self.subscriptions[number] = Subscription(number, written)
        return number


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--postgres", type=int, required=True, help="port of PostgreSQL")
    parser.add_argument("--sessions", type=int, default=4, help="sessions of PostgreSQL")
    parser.add_argument("--pause", type=float, default=0.0, help="planted: seconds before each write")
    parser.add_argument("--database-pause", type=float, default=0.0, help="planted: seconds that each write takes in PostgreSQL")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    Context(parser.parse_args()).serve_forever()


if __name__ == "__main__":
    main()
