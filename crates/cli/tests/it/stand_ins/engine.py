"""The programs of a container engine and of a cluster, for tests: `docker` or `kubectl`, as which it is called.

Containers and pods are processes of this host. Of a service or workload `broker` they are brokers of Plimsoll, of all others
they sleep. Files are JSON, which is YAML as well. The environment says where the state is (ENGINE_STATE), which calls fail
(ENGINE_FAILS), and which never end (ENGINE_HANGS), each by the words that follow the options.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time

STATE = os.environ["ENGINE_STATE"]
PLIMSOLL = os.environ["ENGINE_PLIMSOLL"]


def path(name):
    return os.path.join(STATE, name)


def load(name):
    try:
        with open(path(name)) as file:
            return json.load(file)
    except FileNotFoundError:
        return []


def save(name, value):
    with open(path(name + ".new"), "w") as file:
        json.dump(value, file)
    os.rename(path(name + ".new"), path(name))


def fail(message):
    print(message, file=sys.stderr)
    sys.exit(1)


def chosen(variable, call):
    """Whether the variable names a call, by its first words."""
    named = [name for name in os.environ.get(variable, "").split(",") if name]
    return any(call == name or call.startswith(name + " ") for name in named)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def process(name, port):
    """A process that goes on when this one has ended."""
    command = [PLIMSOLL, "target", "broker", "--port", str(port)] if name == "broker" else ["sleep", "600"]
    nowhere = subprocess.DEVNULL
    child = subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)
    with open(path("processes.txt"), "a") as file:
        print(child.pid, file=file)
    return child.pid


def end(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def record(call):
    with open(path("calls.txt"), "a") as file:
        print(call, file=file)
    if chosen("ENGINE_HANGS", call):
        time.sleep(600)


# A container engine.


def merged(base, more):
    """A file with a later one over it."""
    if not (isinstance(base, dict) and isinstance(more, dict)):
        return more
    return base | {key: merged(base.get(key), value) for key, value in more.items()}


class Docker:
    def __init__(self, words):
        self.files, self.project = [], ""
        while words and words[0].startswith("--"):
            if words[0] == "--file":
                self.files.append(words[1])
            elif words[0] == "--project-name":
                self.project = words[1]
            words = words[2:]
        self.words = words

    def services(self):
        whole = {}
        for name in self.files:
            with open(name) as file:
                whole = merged(whole, json.load(file))
        for name, service in whole["services"].items():
            if "image" not in service:
                fail(f'service "{name}" has neither an image nor a build context specified')
        return whole["services"]

    def compose(self):
        what, *rest = self.words
        if what == "config":
            services = self.services()
            if "--services" in rest:
                print("\n".join(services))
        elif what == "up":
            self.create()
            if "--no-start" not in rest:
                for container in load("containers"):
                    start(container["Id"])
                    if chosen("ENGINE_FAILS", "compose up"):
                        fail("the image of the next one cannot be pulled")
        elif what == "ps":
            print("\n".join(container["Id"] for container in load("containers")))
        elif what == "port":
            service, port = rest[-2:]
            for container in load("containers"):
                labels = container["Config"]["Labels"]
                if labels["com.docker.compose.service"] == service and str(container["inner"]) == port:
                    print(f"0.0.0.0:{container['port']}")
                    return
            fail(f"no port {port}/tcp for container {service}")
        elif what == "logs":
            print(f"{rest[-1]} says something")
        elif what == "version":
            print("2.99.0")
        elif what == "down":
            for container in load("containers"):
                end(container["State"]["Pid"])
            save("containers", [])
            if chosen("ENGINE_FAILS", "compose down"):
                fail("the volume is in use")
        else:
            fail(f"there is no {what}")

    def create(self):
        containers = []
        for name, service in self.services().items():
            needs = service.get("depends_on", {})
            needs = ",".join(f"{other}:{need['condition']}:false" for other, need in needs.items())
            for number in range(service.get("scale", 1)):
                place = len(containers)
                inner = [int(port.rsplit(":", 1)[1]) for port in service.get("ports", [])]
                containers.append({
                    "Id": f"{place:064x}",
                    "Created": f"2026-01-01T00:00:{place:02}Z",
                    "Image": "sha256:0123456789abcdef",
                    "State": {"Status": "created", "Pid": 0, "ExitCode": 0, "Health": service.get("x-health")
                              and {"Status": service["x-health"]}},
                    "Config": {"Image": service["image"], "Labels": {
                        "com.docker.compose.project": self.project,
                        "com.docker.compose.service": name,
                        "com.docker.compose.container-number": str(number + 1),
                        "com.docker.compose.depends_on": needs,
                    }},
                    "inner": inner[0] if inner else None,
                    "port": free_port(),
                })
        save("containers", containers)


def changed(identity, change):
    containers = load("containers")
    for container in containers:
        if container["Id"] == identity:
            change(container, container["State"])
    save("containers", containers)


def start(identity):
    def change(container, state):
        state["Pid"] = process(container["Config"]["Labels"]["com.docker.compose.service"], container["port"])
        state["Status"] = "running"

    changed(identity, change)


def docker(words):
    what, *rest = words
    if what == "compose":
        engine = Docker(rest)
        record(" ".join(["compose", *engine.words]))
        engine.compose()
        return
    record(" ".join([what, *(word.lstrip("0") or "0" for word in rest)]))
    if what == "version":
        print("99.0.0")
    elif what == "start":
        start(rest[0])
    elif what in ("pause", "unpause"):
        number, status = (signal.SIGSTOP, "paused") if what == "pause" else (signal.SIGCONT, "running")

        def change(_, state):
            os.kill(state["Pid"], number)
            state["Status"] = status

        for identity in rest:
            changed(identity, change)
    elif what == "inspect":
        containers = [container for container in load("containers") if container["Id"] in rest]
        for container in containers:
            state = container["State"]
            if state["Status"] == "running" and not runs(state["Pid"]):
                state.update({"Status": "exited", "Pid": 0, "ExitCode": 137})
        print(json.dumps(containers))
    else:
        fail(f"there is no {what}")


# A cluster.


def rendered(folder):
    """The objects of a folder, with what its kustomization changes."""
    with open(os.path.join(folder, "kustomization.yaml")) as file:
        own = json.load(file)
    objects = []
    for name in own["resources"]:
        with open(os.path.join(folder, name)) as file:
            objects += read(file.read())
    for thing in objects:
        if "namespace" in own:
            thing["metadata"]["namespace"] = own["namespace"]
        name = thing["metadata"]["name"]
        for replicas in own.get("replicas", []):
            if replicas["name"] == name and thing["kind"] in ("Deployment", "StatefulSet"):
                thing["spec"]["replicas"] = replicas["count"]
        for patch in own.get("patches", []):
            if patch["target"]["name"] == name and thing["kind"] in patch["target"]["kind"]:
                for step in json.loads(patch["patch"]):
                    *way, last = [int(key) if key.isdigit() else key for key in step["path"].split("/")[1:]]
                    place = thing
                    for key in way:
                        place = place[key]
                    place[last] = step["value"]
    return objects


def read(text):
    """The objects of a file: whole as JSON, or each key in a line, as `shown` writes them."""
    if text.startswith("{"):
        return [json.loads(part) for part in text.split("\n---\n")]
    objects = []
    for part in text.split("---\n"):
        lines = [line.split(": ", 1) for line in part.splitlines()]
        plain = ("apiVersion", "kind")
        objects.append({key: value if key in plain else json.loads(value) for key, value in lines})
    return objects


def shown(objects):
    def line(key, value):
        return f"{key}: {value if key in ('apiVersion', 'kind') else json.dumps(value)}\n"

    return "---\n".join("".join(line(*item) for item in thing.items()) for thing in objects)


def workloads():
    return [thing for thing in load("objects") if thing["kind"] in ("Deployment", "StatefulSet", "DaemonSet")]


def get(what, rest):
    if what.startswith("deployments"):
        for thing in workloads():
            print(f"{thing['kind'].lower()}.apps/{thing['metadata']['name']}")
    elif what == "service":
        for thing in load("objects"):
            if thing["kind"] == "Service" and thing["metadata"]["name"] == rest[0]:
                print(json.dumps(thing))
                return
        fail(f'Error from server (NotFound): services "{rest[0]}" not found')
    elif what == "nodes":
        print(json.dumps({"items": [{"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}}]}))
    elif what == "pods" and rest == ["--output", "json"]:
        pods = []
        for thing in workloads():
            containers = thing["spec"]["template"]["spec"]["containers"]
            statuses = [{"name": one["name"], "image": one["image"], "imageID": "sha256:0123"} for one in containers]
            pods.append({"metadata": {"name": thing["metadata"]["name"] + "-0"},
                         "status": {"containerStatuses": statuses}})
        print(json.dumps({"items": pods}))
    elif what == "pods" and rest == ["--output", "name"]:
        for thing in workloads():
            print(f"pod/{thing['metadata']['name']}-0")
    else:
        print(f"{what}: nothing to see")


def forward(ports):
    own = [free_port() for _ in ports]
    child = process("broker", own[0])

    def leave(*_):
        end(child)
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
    for port, inner in zip(own, ports):
        print(f"Forwarding from 127.0.0.1:{port} -> {inner}", flush=True)
    with open(path("forwarder.txt"), "w") as file:
        print(os.getpid(), file=file)
    while True:
        signal.pause()


def kubectl(words):
    while words and words[0].startswith("--"):
        words = words[2:]
    record(" ".join(words))
    what, *rest = words
    if chosen("ENGINE_FAILS", " ".join(words)):
        fail("error: the server refuses that")
    if what == "kustomize":
        sys.stdout.write(shown(rendered(rest[0])))
    elif what == "api-resources":
        print("namespaces     ns   v1                             false   Namespace")
        print("clusterroles        rbac.authorization.k8s.io/v1   false   ClusterRole")
    elif what == "apply":
        objects = rendered(rest[1])
        save("objects", objects)
        with open(path("applied.yaml"), "w") as file:
            file.write(shown(objects))
    elif what == "get":
        get(rest[0], rest[1:])
    elif what == "version":
        print(json.dumps({"serverVersion": {"gitVersion": "v1.99.0"}}))
    elif what == "port-forward":
        forward([word.lstrip(":") for word in rest if word.startswith(":")])
    elif what == "logs":
        print(f"{rest[0]} says something")
    elif what == "delete":
        save("objects", [])
    elif what not in ("create", "rollout"):
        fail(f"there is no {what}")


if __name__ == "__main__":
    {"docker": docker, "kubectl": kubectl}[sys.argv[1]](sys.argv[2:])
