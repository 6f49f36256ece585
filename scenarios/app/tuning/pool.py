"""Work in this process, or in several: pieces are begun one by one, and come back as they finish."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from netsim.errors import Interrupted
from scenarios.app.run.signals import deaf_workers, hearing, work_for_parent


class Workers:
    """Plays plans by `play` in `jobs` processes; of one job in this one, when the result is asked for."""

    def __init__(self, jobs: int, out: Path, play: Callable[[Any], Any]) -> None:
        self.out, self.play = out, play
        self.waiting = list[tuple[int, Any]]()
        self.under_way = dict[Future[Any], int]()
        self.pool = (
            ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=work_for_parent)
            if jobs > 1
            else None
        )

    def __enter__(self) -> Self:
        return self

    def begin(self, number: int, plan: Any) -> None:
        """Take up a piece of work."""
        if self.pool is None:
            self.waiting.append((number, plan))
        else:
            with deaf_workers():
                self.under_way[self.pool.submit(_worked, self.play, plan)] = number

    def next(self) -> tuple[int, Any]:
        """Number and result of a piece that is finished."""
        if self.pool is None:
            number, plan = self.waiting.pop(0)
            return number, self.play(plan)
        try:
            done, _ = wait(self.under_way, return_when=FIRST_COMPLETED)
            first = min(done, key=lambda future: self.under_way[future])
            return self.under_way.pop(first), first.result()
        except BrokenProcessPool:
            what = "one of its processes was killed (was there too little memory for --jobs of this number?)"
            raise Interrupted(f"{self.out}: {what}; what is finished stays, the same command goes on") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pool is None:
            return
        if kind is KeyboardInterrupt:  # a signal to us alone must reach the runs, which keep a checkpoint
            for child in active_children():
                if child.pid is not None:
                    os.kill(child.pid, signal.SIGINT)
        self.pool.shutdown(wait=True, cancel_futures=True)


def _worked(play: Callable[[Any], Any], plan: Any) -> Any:
    """A piece of work in a worker, which hears signals only while it plays."""
    with hearing():
        return play(plan)
