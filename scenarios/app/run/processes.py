"""Job in processes of this machine, or in this very process."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from pathlib import Path
from types import TracebackType
from typing import Self

from scenarios.app.run.events import RETRIES
from scenarios.app.run.executor import Answer, Executor, Failure, attempt, lost
from scenarios.app.run.job import Job
from scenarios.app.run.signals import deaf_workers, hearing, work_for_parent


@dataclass(frozen=True)
class OnProcesses:
    """`jobs` processes; one piece of work at a time is done in this process."""

    retries: int = RETRIES

    def check(self) -> None:
        """Every machine has processes."""

    def here(self, jobs: int) -> int:
        return jobs or os.cpu_count() or 1

    def executor(self, works: Sequence[Job], jobs: int, place: Path) -> Executor:
        return Processes(works, self.here(jobs)) if jobs != 1 else Here(works)


ON_PROCESSES = OnProcesses()


class Here:
    """Does the work in this process, one piece after the other."""

    def __init__(self, works: Sequence[Job]) -> None:
        self._works, self._waiting = works, deque[int]()

    def __enter__(self) -> Self:
        return self

    def begin(self, k: int) -> None:
        self._waiting.append(k)

    def ended(self) -> tuple[int, Answer | Failure]:
        k = self._waiting.popleft()
        return k, attempt(self._works[k])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Processes:
    """Up to `jobs` workers. Each is a pool of one: a worker that is killed takes no work with it but its own."""

    def __init__(self, works: Sequence[Job], jobs: int) -> None:
        self._works, self._jobs = works, jobs
        self._waiting = deque[int]()
        self._idle: list[ProcessPoolExecutor] = []
        self._under_way: dict[Future[Answer | Failure], tuple[int, ProcessPoolExecutor]] = {}

    def __enter__(self) -> Self:
        return self

    def begin(self, k: int) -> None:
        self._waiting.append(k)

    def ended(self) -> tuple[int, Answer | Failure]:
        while self._waiting and len(self._under_way) < self._jobs:
            self._start(self._waiting.popleft())
        future = next(iter(wait(self._under_way, return_when=FIRST_COMPLETED).done))
        k, pool = self._under_way.pop(future)
        try:
            end = future.result()
        except BrokenProcessPool:
            pool.shutdown()
            return k, lost("its process was killed (was there too little memory for so many at once?)")
        self._idle.append(pool)
        return k, end

    def _start(self, k: int) -> None:
        """Give work to an idle worker, or to a new one where there is none that lives."""
        while self._idle:
            pool = self._idle.pop()
            try:
                self._under_way[pool.submit(_worked, self._works[k])] = (k, pool)
                return
            except BrokenProcessPool:  # it was killed while it had nothing to do
                pool.shutdown()
        pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=work_for_parent)
        with deaf_workers():
            self._under_way[pool.submit(_worked, self._works[k])] = (k, pool)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:  # a signal to us alone must reach the runs, which keep a checkpoint
            for child in active_children():
                if child.pid is not None:
                    os.kill(child.pid, signal.SIGINT)
        for pool in [*self._idle, *(pool for _, pool in self._under_way.values())]:
            pool.shutdown(wait=True, cancel_futures=True)


def _worked(work: Job) -> Answer | Failure:
    """Job in a worker, which hears signals only while it plays."""
    with hearing():
        return attempt(work)
