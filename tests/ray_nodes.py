"""A Ray cluster of two nodes on this machine, for tests: `with nodes() as cluster`."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from conftest import ROOT

STORE_BYTES = 100 * 2**20


@dataclass
class Nodes:
    """The head and another node, each with a CPU; both end when the test does."""

    address: str
    environment: dict
    started: list

    def kill(self, label):
        """All processes of a node at once, as where its machine is switched off."""
        os.killpg(self.started[label].pid, signal.SIGKILL)
        self.started[label].wait()

    def workers(self):
        """Processes of the cluster that play a run now."""
        groups = {process.pid for process in self.started}
        return [
            pid
            for pid, group, title in _processes()
            if group in groups and title.startswith(b"ray::remote_attempt")
        ]


def _processes():
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), os.getsid(int(entry.name)), (entry / "cmdline").read_bytes()
            except OSError:
                continue


@contextmanager
def nodes(cpus=1):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = tempfile.mkdtemp(prefix="nr-", dir="/tmp")  # names of sockets are short
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    environment |= {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
    }
    address = f"127.0.0.1:{port}"
    log = Path(place) / "nodes.log"
    common = [
        "--block",
        "--node-ip-address=127.0.0.1",
        f"--num-cpus={cpus}",
        "--disable-usage-stats",
    ]
    common += [f"--object-store-memory={STORE_BYTES}"]
    cluster = Nodes(address, environment, [])
    try:
        head = ["--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={place}/r"]
        for options in (head, [f"--address={address}"]):
            with log.open("ab") as printed:
                command = [str(Path(sys.executable).parent / "ray"), "start", *options, *common]
                cluster.started.append(
                    subprocess.Popen(
                        command,
                        env=environment,
                        stdout=printed,
                        stderr=printed,
                        start_new_session=True,
                    )
                )
            until = time.monotonic() + 60
            while log.read_text().count("Ray runtime started") < len(cluster.started):
                assert time.monotonic() < until and cluster.started[-1].poll() is None, (
                    log.read_text()
                )
                time.sleep(0.2)
        yield cluster
    finally:
        for process in cluster.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(place, ignore_errors=True)
