"""A client of NATS on the library nats-py: hears what is published at a subject, and on SIGUSR1 publishes the last messages again, as
what repeats after an unclean restart does."""

import asyncio, collections, signal, sys

import nats


async def main(address, subject, count):
    client = await nats.connect(address, max_reconnect_attempts=-1, reconnect_time_wait=0.2)
    heard = collections.deque(maxlen=int(count))
    asked = asyncio.Event()

    async def came(message):
        if not asked.is_set():
            heard.append((message.subject, message.data))

    await client.subscribe(subject, cb=came)
    await client.flush()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, asked.set)
    print("ready=1", flush=True)
    await asked.wait()
    for own, content in list(heard):
        await client.publish(own, content)
    await client.flush()
    print(f"again={len(heard)}", flush=True)
    await client.close()


asyncio.run(main(*sys.argv[1:]))
