"""Passes packets between two networks, each after the delay of the moment. It ends with its standard input.

  far_network.py FAR NEAR_ADDRESS FAR_ADDRESS       FAR is a process whose network is the far one; this one is in the near one

Prints `ready`; each line of its standard input is a delay from then on, for each way, in seconds.
"""
import collections
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

# linux/if_tun.h
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
LARGEST = 65536


def device(name):
    opened = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(opened, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return opened


def bring_up(name, own, other, *within):
    for words in (f"address add {own}/32 peer {other} dev {name}", f"link set {name} up"):
        subprocess.run([*within, "ip", *words.split()], check=True)


def packets(opened):
    while True:
        try:
            yield os.read(opened, LARGEST)
        except BlockingIOError:
            return


def main():
    process, near_address, far_address = sys.argv[1:]
    near, far = device("near0"), device("far0")
    # A device stays with who opened it, in whichever network it is.
    subprocess.run(["ip", "link", "set", "far0", "netns", process], check=True)
    bring_up("far0", far_address, near_address, "nsenter", "--target", process, "--net")
    bring_up("near0", near_address, far_address)
    print("ready", flush=True)
    waiting = collections.deque()
    delay = 0.0
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, to, packet = waiting.popleft()
            os.write(to, packet)
        patience = max(waiting[0][0] - now, 0) if waiting else None
        for ready in select.select([near, far, sys.stdin], [], [], patience)[0]:
            if ready is sys.stdin:
                line = sys.stdin.readline()
                if not line:
                    return
                delay = float(line)
                continue
            for packet in packets(ready):
                # Nobody overtakes where the delay has become shorter.
                at = max(time.monotonic() + delay, waiting[-1][0] if waiting else 0)
                waiting.append((at, far if ready == near else near, packet))


main()
