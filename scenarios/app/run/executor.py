"""Where jobs are played: they start, lost ones are tried again, failures are kept; processes of
this machine.
"""

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
from typing import ClassVar, Generic, Protocol, Self, TypeVar

from netsim.errors import BadInput, to_one_line
from netsim.part import describe_plugin_line
from scenarios.app.results.folder import Failed, write_failures
from scenarios.app.run.events import (
    RETRIES,
    Event,
    Name,
    Watch,
    allow_interrupts,
    block_worker_signals,
    ignore_event,
    under_way,
    was_interrupted,
    work_for_parent,
)
from scenarios.app.run.job import Job, do_job
from scenarios.app.study import Fields, Value

_LONGEST = 500  # characters of an error's line
_LOOK_EVERY_S = 0.05  # for jobs that are done
BAD_INPUT = "bad input"
LOST_WORKER = "lost worker"
"""kinds of failure that are no exception of the program; others have the name of the exception"""


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
Handle = TypeVar("Handle")
Worker = tuple[ProcessPoolExecutor, "Future[Outcome]"]
Outcome = Value | Failure
"""what became of a job: its result, or why there is none"""


class Executor(ABC, Generic[Handle]):
    """Plays jobs, `room` at a time, and again those that may end otherwise, `retries` times.

    Left with an exception it ends the jobs under way, which keep checkpoints. An engine starts
    jobs, of which it gives handles, looks whether one is done, and says what became of it.
    """

    in_arrays: ClassVar[bool] = False
    """whether jobs are started only once all that were started together are done"""

    def __init__(self, room: int, retries: int) -> None:
        self.room = room
        self.retries = retries
        self.waiting = deque[Job]()
        self.attempts = Counter[Path]()
        self.under_way: list[tuple[Job, Handle]] = under_way
        self.under_way.clear()

    @abstractmethod
    def start(self, jobs: Jobs) -> Sequence[Handle]:
        """Start jobs; returns a handle of each."""

    @abstractmethod
    def is_done(self, handle: Handle) -> bool:
        """Return whether a job has ended."""

    @abstractmethod
    def read_outcome(self, handle: Handle) -> Outcome:
        """Return what became of a job that has ended."""

    @abstractmethod
    def close(self, interrupted: bool) -> None:
        """End; interrupted: with jobs under way."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close(kind is not None)

    def wait_for_job(self) -> tuple[Job, Outcome]:
        """Wait until a job has ended for good: what became of it."""
        while True:
            free = 0 if self.in_arrays and self.under_way else self.room - len(self.under_way)
            if jobs := [self.waiting.popleft() for _ in range(min(free, len(self.waiting)))]:
                self.under_way += zip(jobs, self.start(jobs), strict=True)
            done = next((entry for entry in self.under_way if self.is_done(entry[1])), None)
            if done is None:
                time.sleep(_LOOK_EVERY_S)
                continue
            job, handle = done
            end = self.read_outcome(handle)
            self.under_way.remove(done)
            self.attempts[job.folder] += 1
            if not isinstance(end, Failure):
                return job, end
            if not end.again or self.attempts[job.folder] > self.retries:
                return job, replace(end, attempts=self.attempts[job.folder])
            self.waiting.append(job)

    def play_jobs(self, jobs: Jobs) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with what became of it, as it ends."""
        with self:
            self.waiting.extend(jobs)
            for _ in jobs:
                yield self.wait_for_job()


class Engine(Protocol):
    """Where jobs are played, as a user asks for it."""

    def check(self) -> None:
        """Refuse (BadInput) what this machine cannot do; nothing is written where jobs will be
        played.
        """

    def count_jobs_sharing_memory(self, at_once: int) -> int:
        """Return how many jobs this machine plays at once, which share its memory; 1 where other
        machines play them. at_once : jobs that are asked for; 0: as many as there is room for.
        """

    def make_executor(self, at_once: int, place: Path) -> Executor[Value]:
        """Return the executor of jobs. at_once : jobs at a time; 0: as many as there is room for.
        place : folder of all.
        """


@dataclass(frozen=True)
class OnProcesses:
    """Processes of this machine; one job at a time is played in this process."""

    retries: int = RETRIES

    def check(self) -> None:
        """Every machine has processes."""

    def count_jobs_sharing_memory(self, at_once: int) -> int:
        return at_once or os.cpu_count() or 1

    def make_executor(self, at_once: int, place: Path) -> Executor[Value]:
        if at_once == 1:
            return SerialJobs(1, self.retries)
        return Processes(self.count_jobs_sharing_memory(at_once), self.retries)


ON_PROCESSES = OnProcesses()


class SerialJobs(Executor[Job]):
    """Plays jobs in this process, one after the other."""

    def start(self, jobs: Jobs) -> Jobs:
        return jobs

    def is_done(self, handle: Job) -> bool:
        return True

    def read_outcome(self, handle: Job) -> Outcome:
        return attempt_job(handle)

    def close(self, interrupted: bool) -> None:
        """Nothing is open."""


class Processes(Executor[Worker]):
    """Each worker is a pool of one: a worker that is killed takes no job with it but its own."""

    def __init__(self, room: int, retries: int) -> None:
        super().__init__(room, retries)
        self._idle: list[ProcessPoolExecutor] = []

    def start(self, jobs: Jobs) -> Sequence[Worker]:
        return [self._start_job(job) for job in jobs]

    def _start_job(self, job: Job) -> Worker:
        """Give a job to an idle worker, or to a new one where there is none that lives."""
        while self._idle:
            pool = self._idle.pop()
            with suppress(BrokenProcessPool):  # it was killed while it had nothing to do
                return pool, pool.submit(_play_job, job)
        pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=work_for_parent)
        with block_worker_signals():
            return pool, pool.submit(_play_job, job)

    def is_done(self, handle: Worker) -> bool:
        return handle[1].done()

    def read_outcome(self, handle: Worker) -> Outcome:
        pool, future = handle
        try:
            end = future.result()
        except BrokenProcessPool:
            pool.shutdown()
            return build_lost_failure(
                "its process was killed (was there too little memory for all workers?)"
            )
        self._idle.append(pool)
        return end

    def close(self, interrupted: bool) -> None:
        if interrupted:  # a signal to us alone must reach the runs, which keep a checkpoint
            for child in active_children():
                if child.pid is not None:
                    os.kill(child.pid, signal.SIGINT)
        busy = [handle[0] for _, handle in self.under_way]
        for pool in [*self._idle, *busy]:
            pool.shutdown(wait=True, cancel_futures=True)


def _play_job(job: Job) -> Outcome:
    with allow_interrupts():
        return attempt_job(job)


def attempt_job(job: Job) -> Outcome:
    """Do the job, here and now. Only a signal that ends this process gets through, by whatever
    name.
    """
    try:
        return do_job(job)
    except Exception as error:
        if was_interrupted():  # foreign code gave the interruption another name
            raise KeyboardInterrupt from error
        return to_failure(error)


def to_failure(error: Exception) -> Failure:
    """Return an exception as plain data. Files and memory may be there again at the next attempt;
    all else stays as it is.
    """
    trace = "".join(traceback.format_exception(error))
    if isinstance(error, BadInput):
        return Failure(BAD_INPUT, _shorten("; ".join(error.lines)), trace, again=False)
    name = type(error).__name__
    return Failure(
        name,
        _shorten(str(error) or name) + describe_plugin_line(trace),
        trace,
        again=isinstance(error, OSError | MemoryError),
    )


def build_lost_failure(reason: str) -> Failure:
    """Return the failure of a job whose process or machine is gone, perhaps by its own fault."""
    return Failure(LOST_WORKER, _shorten(reason), f"{_shorten(reason)}\n", again=True)


def _shorten(text: str) -> str:
    return to_one_line(shorten(text, _LONGEST, placeholder="..."))


def do_jobs(
    jobs: Jobs, engine: Engine, at_once: int, place: Path, watch: Watch = ignore_event
) -> list[Value | Failed]:
    """Return the result of each job, or why it failed; those that their folders have are not played
    again.

    at_once : jobs at a time; 0: as many as the engine has room for. place : the folder in which all
    folders lie, which the caller holds; it gets failures.csv. watch : of each job as it ends, a run
    as `run`, any other as `played`.
    """
    results: dict[Path, Value] = {
        job.folder: done for job in jobs if (done := job.find_summary()) is not None
    }
    left = [job for job in jobs if job.folder not in results]
    for job in jobs:
        if job.folder in results:
            job.settle()
    write_failures(place, [])
    if left:
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(
                f"{place}: cannot be written ({error.strerror}); give --out another place"
            ) from None
        for job, end in engine.make_executor(min(at_once, len(left)), place).play_jobs(left):
            folder = str(job.folder.relative_to(place))
            name: Name = "played"
            values: Fields = {"label": f"seed {job.seed}"}
            if isinstance(end, Failure):
                job.fail(end.trace)
                failed = Failed(folder, job.label, job.seed, end.attempts, end.kind, end.line)
                results[job.folder] = failed
                failures = [results.get(result.folder) for result in left]
                write_failures(place, [result for result in failures if isinstance(result, Failed)])
                name = "failed"
                values = asdict(failed)
            else:
                results[job.folder] = end
                if job.kind.name == "run":
                    name = "run"
                    values = {"label": job.label, "seed": job.seed}
                    values |= {"folder": folder, "summary": end}
            is_last = len(results) == len(jobs)
            watch(Event(name, len(results), len(jobs), is_last, values))
    return [results[job.folder] for job in jobs]
