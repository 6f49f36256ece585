"""Jobs on a Ray cluster, through a process of our own that talks to it.

It is a process of its own because Ray ends the process that talks to it where its cluster is lost.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from secrets import token_hex
from tempfile import mkstemp
from types import TracebackType
from typing import Any, Self

from netsim import __version__
from netsim.errors import BadInput, Interrupted
from scenarios.app.run import signals
from scenarios.app.run.events import RETRIES
from scenarios.app.run.executor import BAD_INPUT, SHARED, Answer, Executor, Failure, attempt, failure_of, lost
from scenarios.app.run.job import Job
from scenarios.app.scratch import scratch

STORE_BYTES = 100 * 2**20  # of the object store, in which only answers lie
_LOOK_EVERY_S = 0.2  # for new work
_CALM_S = 20.0  # that runs have to keep a checkpoint when they are cancelled
_PARENT_GONE_S = 30.0  # that this process has to end once the one that it works for is gone
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "15",
    "RAY_TASK_MAX_RETRIES": "0",
}


def drive(address: str, cpus: int, log: Path, token: Path, ours: Connection) -> None:
    """Give jobs to Ray until the other end of the pipe sends None, or is gone with its process.

    address : `auto` or HOST:PORT; empty: a cluster of its own with so many CPUs. Sends a Failure where Ray cannot be
    reached, else None; takes (number, job), sends (number, end). A signal interrupts the runs, and so does the loss of
    the process at the other end, whose files are then removed here.
    """
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)  # Ray writes there at its will
        os.dup2(file.fileno(), 2)
    signals.work_for_parent(_PARENT_GONE_S)
    own = {} if address else {"num_cpus": cpus, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    os.environ.update(_ENVIRONMENT)
    if own:
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # its workers find what we find
        if "RAY_AUTH_MODE" not in os.environ:  # nobody else has business there
            os.environ.update({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token_hex(32)})
    import ray

    try:
        ray.init(address=address or "local", logging_level=logging.ERROR, log_to_driver=False, **own)
    except Exception as error:
        ours.send(failure_of(error))
        return
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # that of Ray would end the runs with the cluster
    task = ray.remote(num_cpus=1, max_retries=0, retry_exceptions=False)(remote_attempt)
    under_way: dict[Any, int] = {}
    try:
        with signals.hearing():
            ours.send(None)
            while True:
                while ours.poll(None if not under_way else 0):
                    message = ours.recv()
                    if message is None:
                        return
                    k, work = message
                    under_way[task.remote(work, token, __version__)] = k
                for task_end in ray.wait(list(under_way), num_returns=1, timeout=_LOOK_EVERY_S)[0]:
                    ours.send((under_way.pop(task_end), received(task_end)))
    except (EOFError, OSError):  # nobody is there any more who would clear up
        token.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
        _cancel(list(under_way))
    except KeyboardInterrupt:
        _cancel(list(under_way))
    finally:
        ray.shutdown()


def remote_attempt(job: Job, token: Path, version: str) -> Answer | Failure:
    """A job on a machine of the cluster."""
    here, line = os.uname().nodename, ""
    if version != __version__:
        line = f"{here} has netsim {__version__}, and this is {version}; install the same everywhere"
    elif not token.exists():
        line = f"{here} does not see {token.parent}; give --out a folder that all machines of the cluster share"
    return Failure(BAD_INPUT, line, f"{line}\n", again=False) if line else attempt(job)


def received(task_end: Any) -> Answer | Failure:
    """What became of a task."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        end: Answer | Failure = ray.get(task_end)
    except RayTaskError as error:  # not of the job: its machine cannot read it
        return Failure("RayTaskError", str(error).strip().splitlines()[-1], str(error), again=False)
    except RayError as error:
        return lost(f"its process or machine is gone ({type(error).__name__})")
    return end


def _cancel(tasks: list[Any]) -> None:
    """Interrupt what is under way, and wait until it has ended, for a while."""
    import ray

    for task in tasks:
        with suppress(Exception):
            ray.cancel(task)
    with suppress(Exception):
        ray.wait(tasks, num_returns=len(tasks), timeout=_CALM_S)


_END_S = 30.0  # that the process has to end when it is asked to


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
            with scratch("netsim-ray-") as place, self.executor([], 1, place):
                pass

    def here(self, jobs: int) -> int:
        return 1 if self.address else jobs or os.cpu_count() or 1

    def executor(self, works: Sequence[Job], jobs: int, place: Path) -> Executor:
        return RayCluster(works, self.address, jobs, place)


class RayCluster:
    """Gives work to the process that talks to Ray, no more than there is room for."""

    def __init__(self, works: Sequence[Job], address: str, jobs: int, place: Path) -> None:
        self._works, self._place, self._address = works, place, address
        self._waiting, self._sent, self._room = deque[int](), 0, jobs or len(works)
        handle, name = mkstemp(prefix="netsim-ray-", suffix=".log")
        os.close(handle)
        self._log, self._token = Path(name), place / f"{SHARED}{token_hex(16)}"
        self._pipe, self._theirs = Pipe()
        how = (address, jobs or os.cpu_count() or 1, self._log, self._token.resolve(), self._theirs)
        self._driver = get_context("spawn").Process(target=drive, args=how)

    def __enter__(self) -> Self:
        for stale in self._place.glob(f"{SHARED}*"):
            stale.unlink()
        self._token.touch()
        self._driver.start()
        self._theirs.close()
        try:
            self._connect()
        except BaseException:
            self._end(interrupted=True)
            raise
        return self

    def _connect(self) -> None:
        """Wait until Ray is there. Raises BadInput where it cannot be reached."""
        try:
            failure = self._received()
            why = failure and failure.line
        except Interrupted:  # Ray ended the process: it could not wait any longer
            why = f"see {self._log}"
        if why:
            where = self._address or "a cluster of its own"
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
        self._driver.join(_END_S)
        if self._driver.is_alive():
            self._driver.kill()
            self._driver.join()
        self._pipe.close()
        self._token.unlink(missing_ok=True)
