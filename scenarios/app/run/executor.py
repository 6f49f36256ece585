"""Where jobs are played: they start, lost ones are tried again, failures are kept; processes of this machine."""

from __future__ import annotations

import os
import signal
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from multiprocessing import active_children, get_context
from pathlib import Path
from textwrap import shorten
from typing import Any, ClassVar, Protocol, Self

from netsim.errors import BadInput
from scenarios.app.results.failures import Failed, write_failures
from scenarios.app.run.events import RETRIES, Event, Watch, deaf_workers, hearing, ignore, work_for_parent
from scenarios.app.run.job import Job, do
from scenarios.app.study.yaml_document import one_line

_LONGEST = 500  # characters of an error's line
_LOOK_EVERY_S = 0.05  # for jobs that are done
BAD_INPUT = "bad input"
LOST_WORKER = "lost worker"
"""kinds of failure that are no exception of the program; others have the name of the exception"""


@dataclass(frozen=True)
class Answer:
    """What the job found."""

    value: Any


@dataclass(frozen=True)
class Failure:
    """Why there is no answer: the kind of error, its line and traceback.

    again : whether another attempt may end otherwise. attempts : how many there were.
    """

    kind: str
    line: str
    trace: str
    again: bool
    attempts: int = 1


Jobs = Sequence[Job]
Outcome = Answer | Failure
"""what became of a job"""


class Executor(ABC):
    """Plays jobs, `room` at a time, and again those that may end otherwise, `retries` times.

    Left with an exception it ends the jobs under way, which keep checkpoints. works : may grow. An engine starts jobs,
    of which it gives handles, looks whether one is done, and says what became of it.
    """

    in_arrays: ClassVar[bool] = False
    """whether jobs are started only once all that were started together are done"""

    def __init__(self, works: Jobs, room: int, retries: int) -> None:
        self.works = works
        self.room = room
        self.retries = retries
        self.waiting = deque[int]()
        self.attempts = Counter[int]()
        self.under_way: dict[int, Any] = {}

    @abstractmethod
    def start(self, jobs: Jobs) -> Sequence[Any]:
        """Start jobs; returns a handle of each."""

    @abstractmethod
    def is_done(self, handle: Any) -> bool:
        """Whether a job has ended."""

    @abstractmethod
    def outcome(self, handle: Any) -> Outcome:
        """What became of a job that has ended."""

    @abstractmethod
    def close(self, interrupted: bool) -> None:
        """End; interrupted: with jobs under way."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        self.close(kind is not None)

    def begin(self, k: int) -> None:
        """Take on the job of this number."""
        self.waiting.append(k)

    def ended(self) -> tuple[int, Outcome]:
        """Wait until a job has ended for good: its number, and what became of it."""
        while True:
            self._fill()
            k = next((k for k, handle in self.under_way.items() if self.is_done(handle)), None)
            if k is None:
                time.sleep(_LOOK_EVERY_S)
                continue
            end = self.outcome(self.under_way.pop(k))
            self.attempts[k] += 1
            if not isinstance(end, Failure):
                return k, end
            if not end.again or self.attempts[k] > self.retries:
                return k, replace(end, attempts=self.attempts[k])
            self.begin(k)

    def _fill(self) -> None:
        """Start as many of the waiting jobs as there is room for."""
        free = 0 if self.in_arrays and self.under_way else self.room - len(self.under_way)
        some = [self.waiting.popleft() for _ in range(min(free, len(self.waiting)))]
        if some:
            handles = self.start([self.works[k] for k in some])
            self.under_way.update(zip(some, handles, strict=True))

    def played(self) -> Iterator[tuple[int, Outcome]]:
        """The number of each job with what became of it, as it ends."""
        with self:
            for k in range(len(self.works)):
                self.begin(k)
            for _ in self.works:
                yield self.ended()


class Engine(Protocol):
    """Where jobs are played, as a user asks for it."""

    def check(self) -> None:
        """Refuse (BadInput) what this machine cannot do; nothing is written where jobs will be played."""

    def here(self, jobs: int) -> int:
        """Jobs that this machine plays at once, which share its memory; 1 where other machines play them."""

    def executor(self, works: Jobs, jobs: int, place: Path) -> Executor:
        """The executor of these. jobs : at once; 0: as many as there is room for. place : folder of all."""


@dataclass(frozen=True)
class OnProcesses:
    """Processes of this machine; one job at a time is played in this process."""

    retries: int = RETRIES

    def check(self) -> None:
        """Every machine has processes."""

    def here(self, jobs: int) -> int:
        return jobs or os.cpu_count() or 1

    def executor(self, works: Jobs, jobs: int, place: Path) -> Executor:
        return Here(works, 1, self.retries) if jobs == 1 else Processes(works, self.here(jobs), self.retries)


ON_PROCESSES = OnProcesses()


class Here(Executor):
    """Plays jobs in this process, one after the other."""

    def start(self, jobs: Jobs) -> Jobs:
        return jobs

    def is_done(self, handle: Job) -> bool:
        return True

    def outcome(self, handle: Job) -> Outcome:
        return attempt(handle)

    def close(self, interrupted: bool) -> None:
        """Nothing is open."""


class Processes(Executor):
    """Each worker is a pool of one: a worker that is killed takes no job with it but its own."""

    def __init__(self, works: Jobs, room: int, retries: int) -> None:
        super().__init__(works, room, retries)
        self._idle: list[ProcessPoolExecutor] = []

    def start(self, jobs: Jobs) -> Sequence[Any]:
        return [self._started(job) for job in jobs]

    def _started(self, job: Job) -> tuple[ProcessPoolExecutor, Future[Outcome]]:
        """Give a job to an idle worker, or to a new one where there is none that lives."""
        while self._idle:
            pool = self._idle.pop()
            with suppress(BrokenProcessPool):  # it was killed while it had nothing to do
                return pool, pool.submit(_play, job)
        pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=work_for_parent)
        with deaf_workers():
            return pool, pool.submit(_play, job)

    def is_done(self, handle: Any) -> bool:
        return bool(handle[1].done())

    def outcome(self, handle: Any) -> Outcome:
        pool, future = handle
        try:
            end: Outcome = future.result()
        except BrokenProcessPool:
            pool.shutdown()
            return lost("its process was killed (was there too little memory for so many at once?)")
        self._idle.append(pool)
        return end

    def close(self, interrupted: bool) -> None:
        if interrupted:  # a signal to us alone must reach the runs, which keep a checkpoint
            for child in active_children():
                if child.pid is not None:
                    os.kill(child.pid, signal.SIGINT)
        for pool in [*self._idle, *(pool for pool, _ in self.under_way.values())]:
            pool.shutdown(wait=True, cancel_futures=True)


def _play(job: Job) -> Outcome:
    """Play a job in a worker, which hears signals only while it plays."""
    with hearing():
        return attempt(job)


def attempt(job: Job) -> Outcome:
    """Do the job, here and now. Only a signal that ends this process gets through."""
    try:
        return Answer(do(job))
    except Exception as error:
        return failure_of(error)


def failure_of(error: Exception) -> Failure:
    """An exception as plain data. Files and memory may be there again at the next attempt; all else stays as it is."""
    trace = "".join(traceback.format_exception(error))
    if isinstance(error, BadInput):
        return Failure(BAD_INPUT, _short("; ".join(error.lines)), trace, again=False)
    name = type(error).__name__
    return Failure(name, _short(str(error) or name), trace, again=isinstance(error, OSError | MemoryError))


def lost(why: str) -> Failure:
    """The failure of a job whose process or machine is gone, perhaps by the job's own fault."""
    return Failure(LOST_WORKER, _short(why), f"{_short(why)}\n", again=True)


def _short(text: str) -> str:
    return one_line(shorten(text, _LONGEST, placeholder="..."))


def do_all(jobs: Jobs, engine: Engine, at_once: int, place: Path, watch: Watch = ignore) -> list[Any | Failed]:
    """The result of each job, or why it failed; those that their folders have are not played again.

    at_once : jobs at a time; 0: as many as the engine has room for. place : the folder in which all folders lie, which
    the caller holds; it gets failures.csv. watch : of each job as it ends, a run as `run`, any other as `played`.
    """
    found: dict[int, Any | Failed] = {i: done for i, job in enumerate(jobs) if (done := job.done()) is not None}
    for i in found:
        jobs[i].settle()
    left = [i for i in range(len(jobs)) if i not in found]
    write_failures(place, [])
    if not left:
        return list(found.values())
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(one_line(f"{place}: cannot be written ({error.strerror}); give --out another place")) from None
    for k, end in engine.executor([jobs[i] for i in left], min(at_once, len(left)), place).played():
        job = jobs[left[k]]
        of = len(jobs)
        folder = str(jobs[left[k]].folder.relative_to(place))
        if isinstance(end, Failure):
            job.fail(end.trace)
            failed = Failed(folder, job.label, job.seed, end.attempts, end.kind, end.line)
            found[left[k]] = failed
            write_failures(place, [found[i] for i in left if isinstance(found.get(i), Failed)])
            watch(Event("failed", len(found), of, len(found) == of, asdict(failed)))
            continue
        found[left[k]] = end.value
        if job.kind.name == "run":
            values = {"label": job.label, "seed": job.seed, "folder": folder, "summary": end.value}
            watch(Event("run", len(found), of, len(found) == of, values))
        else:
            watch(Event("played", len(found), of, len(found) == of, {"label": f"seed {job.seed}"}))
    return [found[i] for i in range(len(jobs))]
