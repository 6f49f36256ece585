"""The seam of all engines: begin jobs, and say what became of them; lost jobs are tried again, failures are kept."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from netsim.errors import BadInput
from scenarios.app.results.failures import Failed, write_failures
from scenarios.app.run.events import Event, Watch, failed, ignore
from scenarios.app.run.job import Job, do
from scenarios.app.study.yaml_document import one_line

HIDDEN, SHARED = ".slurm", ".shared-"
"""how names begin that an engine gives to its own files, in the folder of all jobs while it works"""
_LONGEST = 500  # characters of an error's line
BAD_INPUT, LOST_WORKER = "bad input", "lost worker"
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


class Executor(Protocol):
    """Plays jobs; left with an exception it ends what is under way, which keeps checkpoints."""

    def begin(self, k: int) -> None:
        """Take on the job of this number."""

    def ended(self) -> tuple[int, Answer | Failure]:
        """Wait until a job is done: its number, and what became of it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Engine(Protocol):
    """Where jobs are played, as a user asks for it."""

    @property
    def retries(self) -> int:
        """Attempts after the first one, of a job that was lost or met an error of files or memory."""

    def check(self) -> None:
        """Refuse (BadInput) what this machine cannot do; nothing is written where jobs will be played."""

    def here(self, jobs: int) -> int:
        """Jobs that this machine plays at once, which share its memory; 1 where other machines play them."""

    def executor(self, works: Sequence[Job], jobs: int, place: Path) -> Executor:
        """The executor of these. jobs : at once; 0: as many as there is room for. place : folder of all."""


class Attempts:
    """What becomes of jobs in the end: those that may end otherwise are begun again, `retries` times."""

    def __init__(self, on: Executor, retries: int) -> None:
        self._on, self._retries, self._made = on, retries, Counter[int]()

    def ended(self) -> tuple[int, Answer | Failure]:
        """Wait until a job is done for good: its number, and what became of it."""
        while True:
            k, end = self._on.ended()
            self._made[k] += 1
            if not isinstance(end, Failure):
                return k, end
            if not end.again or self._made[k] > self._retries:
                return k, replace(end, attempts=self._made[k])
            self._on.begin(k)


def played(on: Executor, works: int, retries: int) -> Iterator[tuple[int, Answer | Failure]]:
    """The number of each of so many jobs with what became of it, as it is done."""
    attempts = Attempts(on, retries)
    with on:
        for k in range(works):
            on.begin(k)
        for _ in range(works):
            yield attempts.ended()


def attempt(job: Job) -> Answer | Failure:
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
    line = _short(str(error) or type(error).__name__)
    return Failure(type(error).__name__, line, trace, again=isinstance(error, OSError | MemoryError))


def lost(why: str) -> Failure:
    """The failure of a job whose process or machine is gone, perhaps by the job's own fault."""
    return Failure(LOST_WORKER, _short(why), f"{_short(why)}\n", again=True)


def _short(text: str) -> str:
    line = one_line(" ".join(text.split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def do_all(jobs: Sequence[Job], engine: Engine, at_once: int, place: Path, watch: Watch = ignore) -> list[Any | Failed]:
    """The result of each job, or why it failed; those that their folders have are not played again.

    at_once : jobs at a time; 0: as many as the engine has room for. place : the folder in which all folders lie, which
    the caller holds; it gets failures.csv. watch : of each job as it ends, a run as `run`, any other as `played`.
    """
    found: dict[int, Any | Failed] = {i: done for i, job in enumerate(jobs) if (done := job.done()) is not None}
    for i in found:
        jobs[i].settle()
    left = [i for i in range(len(jobs)) if i not in found]
    write_failures(place, [])
    for k, end in _played(engine, [jobs[i] for i in left], at_once, place):
        job, i = jobs[left[k]], left[k]
        folder = str(job.folder.relative_to(place))
        found[i] = _kept(job, folder, end) if isinstance(end, Failure) else end.value
        ended, of = len(found), len(jobs)
        if isinstance(end, Failure):
            write_failures(place, [found[n] for n in left if isinstance(found.get(n), Failed)])
            watch(failed(ended, of, found[i]))
        elif job.kind.name != "run":
            watch(Event("played", ended, of, ended == of, {"label": f"seed {job.seed}"}))
        else:
            said = {"label": job.label, "seed": job.seed, "folder": folder, "summary": end.value}
            watch(Event("run", ended, of, ended == of, said))
    return [found[i] for i in range(len(jobs))]


def _played(engine: Engine, jobs: Sequence[Job], at_once: int, place: Path) -> Iterator[tuple[int, Answer | Failure]]:
    """The number of each job with what became of it; nothing is begun where there is none."""
    if not jobs:
        return iter(())
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(one_line(f"{place}: cannot be written ({error.strerror}); give --out another place")) from None
    return played(engine.executor(jobs, min(at_once, len(jobs)), place), len(jobs), engine.retries)


def _kept(job: Job, folder: str, why: Failure) -> Failed:
    """The row of a job that failed, whose traceback is written into its folder."""
    job.fail(why.trace)
    return Failed(folder, job.label, job.seed, why.attempts, why.kind, why.line)
