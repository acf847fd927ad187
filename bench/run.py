#!/usr/bin/env python3
"""Plimsoll beside its peers and the floor, on the same work, interleaved.

    bench/run.py [--runs N] [--seconds S] [--peers DIR] [--only WORD,..]

Builds the floor, the sink and plimsoll, then runs every tool in turn, N times over, and prints medians: processor
seconds (user + system, of the tool's own processes) per million messages that the sink counted, and peak memory. The
tool has processor 0, the sink processor 1. Peers that are not installed are named and left out; bench/README.md says
how to install them. Nothing else should run meanwhile.
"""
import argparse, json, os, re, shutil, signal, socket, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BUILT = os.environ.get("CARGO_TARGET_DIR", f"{ROOT}/target")
CONNECTIONS = 100


def compile_programs(work, programs):
    for name in programs:
        libraries = ["-lcoap-3-notls"] if name == "coap_loop" else []
        subprocess.run(["cc", "-O2", "-o", f"{work}/{name}", f"{HERE}/{name}.c", *libraries], check=True)


def build(work, programs=("sink", "floor")):
    compile_programs(work, programs)
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=True)


class Sink:
    """A server that never limits, on a free port; `stop` tells how many messages it counted."""

    def __init__(self, work, program="sink"):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            ["taskset", "-c", "1", f"{work}/{program}", str(self.port)], stderr=subprocess.PIPE, text=True
        )
        if program == "coap_sink":
            # Over UDP nobody is told that it listens, only that nobody does yet.
            return time.sleep(0.1)
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.02)
        sys.exit("the sink does not listen")

    def stop(self):
        self.process.terminate()
        return int(self.process.communicate()[1].strip() or 0)


def measured(command, work, environment=None):
    """Processor seconds and peak memory (kB) of a command and of the children that it waited for."""
    log = open(f"{work}/log", "w+")
    process = subprocess.Popen(["taskset", "-c", "0", *command], stdout=log, stderr=log, cwd=work, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    log.seek(0)
    return used.ru_utime + used.ru_stime, used.ru_maxrss, os.waitstatus_to_exitcode(status), log.read()


def plimsoll(work, port, qos, size, seconds, rate, program=f"{BUILT}/release/plimsoll", message=None):
    load = (
        f"arrivals: constant, levels: [{rate}], precision: 1ms" if rate else f"model: closed, in_flight: [{CONNECTIONS}]"
    )
    path = f"{work}/scenario.yaml"
    with open(path, "w") as file:
        file.write(
            f"""name: bench
platform: {{ profile: existing, address: "mqtt://127.0.0.1:{port}" }}
population: {{ devices: {CONNECTIONS} }}
mqtt: {{ qos: {qos} }}
message: {{ {message or f"size: {size}"} }}
load: {{ {load}, warm_up: 0s, hold: {seconds}s, samples: 30, threads: 1, connect_rate: 5000 }}
"""
        )
    return [program, "run", path, "--store", f"{work}/runs.plimsoll", "--report", f"{work}/report.html"]


def floor(work, port, qos, size, seconds, rate, batch=1):
    messages = rate * seconds if rate else 150_000 * seconds * (10 if batch > 1 else 1)
    return [f"{work}/floor", str(port), str(CONNECTIONS), str(messages), str(qos), str(size), str(batch)] + (
        [str(rate)] if rate else []
    )


def mqttv5(peers):
    def command(work, port, qos, size, seconds, rate):
        call = [f"{peers}/bin/mqttv5", "bench", "--mode", "throughput", "--host", "127.0.0.1", "--port", str(port)]
        call += ["--qos", str(qos), "--payload-size", str(size), "--publishers", str(CONNECTIONS)]
        call += ["--subscribers", "0", "--duration", str(seconds), "--warmup", "0"]
        return call + (["--rate", str(rate)] if rate else [])

    return command


def tsung(work, port, qos, size, seconds, rate):
    """One phase of CONNECTIONS users that each publish in a loop; paced, each waits so long between two."""
    think = f'<thinktime value="{CONNECTIONS / rate}" random="false"/>' if rate else ""
    path = f"{work}/tsung.xml"
    shutil.rmtree(f"{work}/tsung", ignore_errors=True)
    with open(path, "w") as file:
        file.write(
            f"""<?xml version="1.0"?><!DOCTYPE tsung SYSTEM "/usr/share/tsung/tsung-1.0.dtd">
<tsung loglevel="error"><clients><client host="localhost" use_controller_vm="true" maxusers="{CONNECTIONS}"/></clients>
<servers><server host="127.0.0.1" port="{port}" type="tcp"/></servers>
<load duration="{seconds + 2}" unit="second"><arrivalphase phase="1" duration="1" unit="second">
<users maxnumber="{CONNECTIONS}" arrivalrate="{CONNECTIONS}" unit="second"/></arrivalphase></load>
<sessions><session name="bench" probability="100" type="ts_mqtt"><request><mqtt type="connect" clean_start="true"
keepalive="60"/></request><for from="1" to="100000000" var="i"><request><mqtt type="publish" topic="plimsoll/bench/00"
qos="{qos}" retained="false">{"x" * size}</mqtt></request>{think}</for></session></sessions></tsung>"""
        )
    return ["tsung", "-n", "-f", path, "-l", f"{work}/tsung", "start"]


def idle_memory(tools, work):
    """User-space memory of an idle connection: the growth from 1,000 to 10,000 connections."""
    scenario = (
        'name: idle\nplatform: {{ profile: existing, address: "mqtt://127.0.0.1:{port}" }}\n'
        "population: {{ devices: {count} }}\n"
        "load: {{ arrivals: constant, levels: [10], warm_up: 0s, hold: 5s, samples: 10, threads: 1, connect_rate: 5000 }}\n"
    )
    kept = {}
    for count in (1_000, 10_000):
        sink = Sink(work)
        with open(f"{work}/idle.yaml", "w") as file:
            file.write(scenario.format(port=sink.port, count=count))
        program = f"{BUILT}/release/plimsoll"
        began = time.time()
        process = subprocess.Popen(
            ["taskset", "-c", "0", program, "run", f"{work}/idle.yaml", "--store", f"{work}/r", "--no-report"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        connected = None
        while process.poll() is None:
            try:
                with open(f"/proc/{process.pid}/status") as status:
                    anonymous = re.search(r"RssAnon:\s+(\d+)", status.read())
                if len(os.listdir(f"/proc/{process.pid}/fd")) > count and anonymous:
                    connected = connected or time.time() - began
                    kept[count] = int(anonymous.group(1))
            except FileNotFoundError:
                pass
            time.sleep(0.05)
        sink.stop()
        if connected is None:
            return print(f"plimsoll never had {count} connections")
        print(f"plimsoll: {count} idle connections, all there after {connected:.1f} s, {kept[count]} kB of its own")
    each = (kept[10_000] - kept[1_000]) * 1024 / 9_000
    print(f"plimsoll: {each:.0f} bytes of user-space memory a connection (kernel socket memory apart)")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--seconds", type=int, default=10)
    options.add_argument("--peers", default=f"{HERE}/peers", help="where `cargo install --root` put the Rust peers")
    options.add_argument("--only", help="tools, by a part of their names, with commas")
    options = options.parse_args()
    work = tempfile.mkdtemp(prefix="plimsoll-bench-")
    build(work)
    tools = {"floor": floor, "floor, 32 a write": lambda *a: floor(*a, batch=32), "plimsoll": plimsoll}
    if os.path.exists(f"{options.peers}/bin/mqttv5"):
        tools["mqttv5-cli"] = mqttv5(options.peers)
    else:
        print("mqttv5-cli is not installed: left out")
    if shutil.which("tsung"):
        tools["tsung"] = tsung
    else:
        print("tsung is not installed: left out")
    if options.only:
        tools = {n: t for n, t in tools.items() if any(word in n for word in options.only.split(","))}
    works = [(qos, size, 0) for qos in (0, 1) for size in (16, 256)] + [(qos, 16, 20_000) for qos in (0, 1)]
    cost, memory = {}, {}
    for run in range(options.runs):
        for qos, size, rate in works:
            for name, tool in tools.items():
                if rate and "32" in name:
                    continue
                sink = Sink(work)
                cpu, kilobytes, status, said = measured(tool(work, sink.port, qos, size, options.seconds, rate), work)
                messages = sink.stop()
                if messages < 1000:
                    print(f"{name} sent {messages} messages (exit {status}): {said[-300:].strip()}")
                    continue
                cost.setdefault((qos, size, rate, name), []).append(cpu / messages * 1e6)
                memory.setdefault((qos, size, rate, name), []).append(kilobytes / 1024)
        print(f"run {run + 1} of {options.runs} is done", file=sys.stderr)
    for qos, size, rate in works:
        print(f"\nQoS {qos}, {size} B, {f'paced at {rate}/s' if rate else 'as fast as it goes'}, {CONNECTIONS} connections")
        base = statistics.median(cost.get((qos, size, rate, "floor"), [float("nan")]))
        for name in tools:
            costs = cost.get((qos, size, rate, name))
            if costs:
                middle = statistics.median(costs)
                spread = f"{min(costs):.2f} to {max(costs):.2f}"
                peak = statistics.median(memory[(qos, size, rate, name)])
                print(f"  {name:18} {middle:7.2f} CPU s/million ({spread:14})  {middle / base:5.2f} x floor  {peak:6.0f} MB")
    print()
    idle_memory(tools, work)
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
