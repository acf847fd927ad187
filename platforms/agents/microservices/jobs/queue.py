"""Jobs in Redis: a job is an array of JSON, what is to be done and about what. Who asks for an answer names a list where it comes."""

import asyncio
import itertools
import json
import os

import redis.asyncio

REQUESTS, DELIVERIES = "requests", "deliveries"
PATIENCE, LOOK = 10, 1


class Refused(Exception):
    """What a service answers in place of a result: a code, and why."""

    def __init__(self, code, why):
        super().__init__(why)
        self.code = code


def client(address):
    return redis.asyncio.Redis(host=address[0], port=address[1], socket_timeout=None)


class Queue:
    """Hands on jobs, and asks for their answers."""

    def __init__(self, address):
        self.redis, self.waiting = client(address), client(address)
        self.own, self.numbers, self.asked = f"answers:{os.getpid()}", itertools.count(1), {}

    async def put(self, queue, job, about):
        await self.redis.lpush(queue, json.dumps([job, about], separators=(",", ":")))

    async def take(self, queue, handle):
        """Gives each job of a list to whoever handles it, in their order."""
        while True:
            found = await self.waiting.brpop([queue], timeout=LOOK)
            if found:
                handle(found[1].decode())

    async def answers(self):
        """Takes the answers to what was asked."""
        while True:
            found = await self.waiting.brpop([self.own], timeout=LOOK)
            if found:
                answer, result = json.loads(found[1])
                waits = self.asked.pop(answer["answers"], None)
                if waits and not waits.done():
                    waits.set_result((answer, result))

    async def ask(self, job, about):
        """Has the dispatcher do a job, and gives its result."""
        number = next(self.numbers)
        waits = self.asked[number] = asyncio.get_running_loop().create_future()
        try:
            await self.put(REQUESTS, {**job, "to": self.own, "number": number}, about)
            async with asyncio.timeout(PATIENCE):
                answer, result = await waits
        except TimeoutError:
            raise Refused(504, "nobody answers") from None
        finally:
            self.asked.pop(number, None)
        if "code" in answer:
            raise Refused(answer["code"], answer["error"])
        return result

    async def answer(self, job, result, refusal=None):
        """Answers who has asked, if anybody has."""
        if "to" in job:
            said = {"code": refusal.code, "error": str(refusal)} if refusal else {}
            await self.put(job["to"], {"answers": job["number"], **said}, result)
