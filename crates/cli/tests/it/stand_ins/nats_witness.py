"""A client of NATS on the library nats-py: counts the messages at a subject until it is told to end."""

import asyncio, signal, sys

import nats


async def main(address, subject):
    client = await nats.connect(address)
    counted = {"came": 0, "bytes": 0}

    async def came(message):
        counted["came"] += 1
        counted["bytes"] += len(message.data)

    await client.subscribe(subject, cb=came)
    await client.flush()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    print("ready=1", flush=True)
    await ended.wait()
    await client.drain()
    print(" ".join(f"{name}={number}" for name, number in counted.items()), flush=True)


asyncio.run(main(*sys.argv[1:]))
