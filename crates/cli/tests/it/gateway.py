"""A gateway in another language, written after docs/gateway-protocol.md alone: serial dispatcher, serial event handler."""

import json
import signal
import socket
import sys
import threading
import time

manager_host, manager_port = sys.argv[1].split(":")
manager = (manager_host, int(manager_port))
started = threading.Event()
# Whether it takes the events of the last device for those of the one before.
is_mistaken = sys.argv[2:] == ["mistaken"]
log = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


class Connection:
    """One call after the other."""

    def __init__(self, address):
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.text = self.socket.makefile("r")

    def call(self, name, *args):
        # Spaces, and the arguments first: JSON says nothing of either.
        self.socket.sendall((json.dumps({"args": args, "name": name}, indent=1).replace("\n", " ") + "\n").encode())
        answer = json.loads(self.text.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]


def milliseconds():
    return time.time() * 1000


def tell(keyword, event):
    log.sendto(f"INFO:{milliseconds():.3f}:python:EVENT_LIFECYCLE_{keyword}:{event}".encode(), manager)


def serve(interface):
    while True:
        connection, _ = interface.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def answer(connection):
    for line in connection.makefile("r"):
        name = json.loads(line)["name"]
        if name == "start_test":
            started.set()
        result = milliseconds() if name == "get_timestamp" else True
        connection.sendall(json.dumps({"result": result}).encode())


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
interface = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=serve, args=(interface,), daemon=True).start()
while True:
    try:
        names = Connection(manager)
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
configuration = {"DISPATCHER": "serial", "EVENT_HANDLER": "serial", "POOL_SIZE": 1}
names.call("verify_gateway", configuration, "%s:%d" % interface.getsockname())
devices = [Connection((manager_host, port)) for port in names.call("hostnames")]
started.wait()
while True:
    for device in devices:
        if device.call("status") == 1:
            event = device.call("next_event")
            if is_mistaken and device is devices[-1]:
                event = event.replace("-%d-" % (len(devices) - 1), "-%d-" % (len(devices) - 2))
            tell("RETRIEVED", event)
            tell("DISPATCHED", event)
            sum(range(1000))
            tell("DONE", event)
