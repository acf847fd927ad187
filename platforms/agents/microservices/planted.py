"""What is planted in a service: how long it works on a message, which messages it loses or does twice, and the record of that."""

import argparse
import asyncio
import random
import re
import sys
import time

# Markers stand in messages as texts of these characters.
TEXT = re.compile(r'"(?:text|payload)":"((?:[^"\\]|\\.)*)"')


def options(description, *addresses):
    """The options of a service: HOST:PORT of others by name, and what is planted in it."""
    parser = argparse.ArgumentParser(description=description)
    for name in addresses:
        parser.add_argument(f"--{name}", type=address, required=True, metavar="HOST:PORT")
    parser.add_argument("--service", type=milliseconds, default=0, metavar="MS", help="how long it works on each message, at least")
    parser.add_argument("--workers", type=places, default=1, help="messages that it works on at the same time")
    parser.add_argument("--lose", type=share, default=0, metavar="SHARE", help="share of the messages that it loses")
    parser.add_argument("--twice", type=share, default=0, metavar="SHARE", help="share of the messages that it does twice")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", help="a file for a line of each message that is planted something in")
    return parser


def checked(text, number, fits, what):
    try:
        value = number(text)
    except ValueError:
        value = None
    if value is None or not fits(value):
        raise argparse.ArgumentTypeError(f"`{text}` is not {what}")
    return value


def milliseconds(text):
    return checked(text, float, lambda value: 0 <= value < float("inf"), "a time in milliseconds")


def places(text):
    return checked(text, int, lambda value: value > 0, "a number of at least 1")


def share(text):
    return checked(text, float, lambda value: 0 <= value <= 1, "a share between 0 and 1")


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


class Planted:
    """Takes messages in turn, and works on each of them."""

    def __init__(self, given):
        self.service, self.lose, self.twice = given.service / 1000, given.lose, given.twice
        self.workers, self.random = given.workers, random.Random(given.seed)
        self.queue = asyncio.Queue()
        self.record = open(given.record, "w", buffering=1) if given.record else None
        if self.record:
            print("time_ns,what,text", file=self.record)

    def note(self, what, message):
        if self.record:
            text = TEXT.search(message)
            print(f"{time.time_ns()},{what},{text.group(1) if text else ''}", file=self.record)

    def put(self, message):
        self.queue.put_nowait(message)

    def times(self, message):
        """How often a message of devices is handed on: lost, once or twice. Each draw is of the seed."""
        lost, twice = self.random.random() < self.lose, self.random.random() < self.twice
        self.note("lost" if lost else "twice" if twice else "once", message)
        return 0 if lost else 2 if twice else 1

    async def serve(self, handle):
        """Does each message that is put, as many at the same time as there are workers."""
        await asyncio.gather(*(self.work(handle) for _ in range(self.workers)))

    async def work(self, handle):
        while True:
            message = await self.queue.get()
            if self.service:
                await asyncio.sleep(self.service)
            await handle(message)


def run(coroutine):
    try:
        asyncio.run(coroutine)
    except KeyboardInterrupt:
        pass
    except OSError as error:
        sys.exit(f"microservice: {error}")
