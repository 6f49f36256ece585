"""Job on a Ray cluster, through a process of our own that talks to it."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from multiprocessing import Pipe, get_context
from pathlib import Path
from secrets import token_hex
from tempfile import mkstemp
from types import TracebackType
from typing import Any, Self

from netsim.errors import BadInput, Interrupted
from scenarios.app.run.executors import RETRIES
from scenarios.app.run.executors.executor import SHARED, Answer, Executor, Failure
from scenarios.app.run.executors.ray_driver import Cluster, drive
from scenarios.app.run.job import Job
from scenarios.app.scratch import scratch

_CALM_S = 30.0  # that the process has to end when it is asked to


@dataclass(frozen=True)
class OnRay:
    """A Ray cluster. address : `auto`, or HOST:PORT of its head; empty: one on this machine, for as long as we work."""

    address: str = ""
    retries: int = RETRIES

    def check(self) -> None:
        """Refuse to play without Ray, or where no cluster answers at the address."""
        if find_spec("ray") is None:
            raise BadInput("--on ray: Ray is not installed; pip install 'netsim-fl[ray]', or use --on processes")
        if self.address:
            _reached(self.address)

    def here(self, jobs: int) -> int:
        return 1 if self.address else jobs or os.cpu_count() or 1

    def executor(self, works: Sequence[Job], jobs: int, place: Path) -> Executor:
        return RayCluster(works, self.address, jobs, place)


@cache
def _reached(address: str) -> None:
    """Connect to a cluster once, and leave it again."""
    with scratch("netsim-ray-") as place, RayCluster([], address, 1, place):
        pass


class RayCluster:
    """Gives work to the process that talks to Ray, no more than there is room for."""

    def __init__(self, works: Sequence[Job], address: str, jobs: int, place: Path) -> None:
        self._works, self._place = works, place
        self._waiting, self._sent, self._room = deque[int](), 0, 0
        handle, name = mkstemp(prefix="netsim-ray-", suffix=".log")
        os.close(handle)
        self._log = Path(name)
        self._token = place / f"{SHARED}{token_hex(16)}"
        cpus = jobs or (0 if address else os.cpu_count() or 1)
        self._cluster = Cluster(address, cpus, self._log)

    def __enter__(self) -> Self:
        for stale in self._place.glob(f"{SHARED}*"):
            stale.unlink()
        self._token.touch()
        self._pipe, theirs = Pipe()
        spawn = get_context("spawn")
        self._driver = spawn.Process(target=drive, args=(self._cluster, self._token.resolve(), theirs))
        self._driver.start()
        theirs.close()
        try:
            self._room = self._connected()
        except BaseException:
            self._end(interrupted=True)
            raise
        return self

    def _connected(self) -> int:
        """Pieces of work that there is room for."""
        try:
            first = self._received()
            why = first.line if isinstance(first, Failure) else ""
        except Interrupted:  # Ray ended the process: it could not wait any longer
            first, why = 0, f"see {self._log}"
        if first and not why:
            return int(first)
        where = self._cluster.address or "a cluster of its own"
        raise BadInput(f"--on ray: no connection to {where} ({why}); is `ray start --head` running there?")

    def begin(self, k: int) -> None:
        self._waiting.append(k)

    def ended(self) -> tuple[int, Answer | Failure]:
        while self._waiting and self._sent < self._room:
            k = self._waiting.popleft()
            self._send((k, self._works[k]))
            self._sent += 1
        k, end = self._received()
        self._sent -= 1
        return k, end

    def _send(self, message: Any) -> None:
        try:
            self._pipe.send(message)
        except OSError:
            raise self._gone() from None

    def _received(self) -> Any:
        try:
            return self._pipe.recv()
        except (EOFError, OSError):
            raise self._gone() from None

    def _gone(self) -> Interrupted:
        return Interrupted(
            f"{self._place}: the Ray cluster is gone (its last words are in {self._log}); what is finished stays, the "
            "same command goes on"
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(interrupted=kind is not None)
        if not isinstance(error, Interrupted):  # which names it
            self._log.unlink(missing_ok=True)

    def _end(self, interrupted: bool) -> None:
        """Let the process end; where we were interrupted it interrupts the runs, which keep a checkpoint."""
        if interrupted and self._driver.pid is not None and self._driver.is_alive():
            os.kill(self._driver.pid, signal.SIGINT)
        elif self._driver.is_alive():
            self._send(None)
        self._driver.join(_CALM_S)
        if self._driver.is_alive():
            self._driver.kill()
            self._driver.join()
        self._pipe.close()
        self._token.unlink(missing_ok=True)
