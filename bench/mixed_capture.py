#!/usr/bin/env python3
"""Makes a large capture of mixed traffic from the small ones of the repository.

Each round repeats all of them with other client addresses and later times, so that
conversations are different ones and overlap. Checksums are left as they were.

    bench/mixed_capture.py mixed.pcap --mib 300
"""
import argparse
import pathlib
import struct
import subprocess

CAPTURES = pathlib.Path(__file__).resolve().parent.parent / "captures"
MIX = ["redis_basic", "redis_pubsub_queue", "http11", "mqtt311", "mqtt5", "websocket", "mqtt311_ws",
       "chain", "postgres", "mongodb", "nats", "amqp", "kafka", "coap_udp", "coap_tcp"]


def frames(name):
    """Time in nanoseconds since the first frame, link type, bytes."""
    data = subprocess.run(["zstd", "-dcq", CAPTURES / f"{name}.pcap.zst"], check=True, capture_output=True).stdout
    unit = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}[struct.unpack_from("<I", data)[0]]
    link = struct.unpack_from("<I", data, 20)[0]
    assert link == 1, f"{name} is not Ethernet"
    at, first, found = 24, None, []
    while at + 16 <= len(data):
        seconds, part, captured, _ = struct.unpack_from("<IIII", data, at)
        time = seconds * 10**9 + part * unit
        first = time if first is None else first
        found.append((time - first, data[at + 16:at + 16 + captured]))
        at += 16 + captured
    return found


def moved(frame, turn):
    """The same frame between other addresses of the loopback network."""
    frame = bytearray(frame)
    kind = frame[12:14]
    if kind == b"\x08\x00":
        for at in (26, 30):
            frame[at + 1:at + 3] = struct.pack(">H", turn)
    elif kind == b"\x86\xdd":
        for at in (22, 38):
            frame[at + 8:at + 10] = struct.pack(">H", turn)
    return bytes(frame)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--mib", type=int, default=300)
    parser.add_argument("--overlap", type=float, default=0.5, help="seconds between the beginnings of two rounds")
    options = parser.parse_args()
    originals = [frame for name in MIX for frame in frames(name)]
    originals.sort(key=lambda frame: frame[0])
    size = sum(16 + len(frame) for _, frame in originals)
    rounds = max(1, round(options.mib * 2**20 / size))
    step = int(options.overlap * 10**9)
    plan = sorted((turn * step + time, turn, index) for turn in range(rounds) for index, (time, _) in enumerate(originals))
    with open(options.out, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
        begin = 1_800_000_000
        for time, turn, index in plan:
            frame = moved(originals[index][1], turn + 1)
            out.write(struct.pack("<IIII", begin + time // 10**9, time % 10**9, len(frame), len(frame)) + frame)
    print(f"{options.out}: {len(plan)} frames, {rounds} rounds of {len(originals)}")


if __name__ == "__main__":
    main()
