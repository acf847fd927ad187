"""A server that benchmarks start as its profile in `platforms/` says, for clients beside Plimsoll."""

import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
PLIMSOLL = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/plimsoll"


class Server:
    """The first component of a profile, started as the profile says. `values` are those of its variables, by name."""

    def __init__(self, profile, port, folder, values=None):
        self.profile, self.folder, self.ports = profile, folder, {}
        written = yaml.safe_load((ROOT / f"platforms/{profile}.yaml").read_text())
        component = written["components"][0]
        variables = {key: str(value) for key, value in written.get("variables", {}).items()}
        variables |= {"dir": str(folder), "plimsoll": str(PLIMSOLL)} | (values or {})

        def fill(text):
            ported = re.sub(r"\{port:(\w+)\}", lambda found: str(self.port(found[1])), text)
            return re.sub(r"\{(\w+)\}", lambda found: variables.get(found[1], found[0]), ported)

        self.certify(folder, variables)
        for name, text in component.get("files", {}).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fill(text))
        for words in component.get("prepare", []):
            subprocess.run([fill(word) for word in words], check=True, cwd=folder)
        self.command = [fill(word) for word in component["command"]]
        self.version = [fill(word) for word in component["version"]]
        # By the last one, all that it starts is known.
        self.mark = f"BENCH_SERVER={folder}"
        own = {key: fill(value) for key, value in component.get("environment", {}).items()}
        self.environment = os.environ | own | dict([self.mark.split("=", 1)])
        self.at = self.port(port)
        self.start()

    def start(self):
        output = self.folder / "output.txt"
        with open(output, "ab") as log:
            self.process = subprocess.Popen(self.command, env=self.environment, stdout=log, stderr=log, cwd=self.folder, start_new_session=True)
        end = time.time() + 120
        while not self.listens():
            if time.time() > end or self.process.poll() is not None:
                self.kill()
                raise OSError(f"{self.profile} does not start: {output.read_text()[-500:]}")
            time.sleep(0.2)
        # Some accept connections before they work.
        time.sleep(5)

    @staticmethod
    def certify(folder, variables):
        variables |= {"certificate": str(folder / "certificate.pem"), "key": str(folder / "key.pem")}
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost"]
        command += ["-keyout", variables["key"], "-out", variables["certificate"]]
        subprocess.run(command, check=True, capture_output=True)

    def port(self, name):
        if name not in self.ports:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.ports[name] = free.getsockname()[1]
        return self.ports[name]

    def listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.at), 1).close()
            return True
        except OSError:
            return False

    def kill(self):
        """Ends all that it started, daemons of their own included, without a warning."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                is_ours = self.mark.encode() in (folder / "environ").read_bytes().split(b"\0")
                if is_ours and int(folder.name) != os.getpid():
                    os.kill(int(folder.name), signal.SIGKILL)
            except OSError:
                continue
        self.process.wait()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        self.kill()
