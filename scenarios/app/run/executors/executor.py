"""What every engine does for us: begin work, and say what became of it; and how often lost work is tried again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from scenarios.app.run.executors.work import Answer, Failure, Work


class Executor(Protocol):
    """Plays work; left with an exception it ends what is under way, which keeps checkpoints."""

    def begin(self, k: int) -> None:
        """Take on the work of this number."""

    def ended(self) -> tuple[int, Answer | Failure]:
        """Wait until a piece of work is done: its number, and what became of it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Engine(Protocol):
    """Where work is played, as a user asks for it."""

    @property
    def retries(self) -> int:
        """Attempts after the first one, of work that was lost or met an error of files or memory."""

    def executor(self, works: Sequence[Work], jobs: int, place: Path) -> Executor:
        """The executor of this work. jobs : pieces at once; 0: as many as there is room for. place : folder of all."""


def played(on: Executor, works: int, retries: int) -> Iterator[tuple[int, Answer | Failure]]:
    """The number of each of so many pieces of work with what became of it, as it is done.

    What may end otherwise is tried again.
    """
    attempts = Counter[int]()
    with on:
        for k in range(works):
            on.begin(k)
        left = works
        while left:
            k, end = on.ended()
            attempts[k] += 1
            if isinstance(end, Failure):
                if end.again and attempts[k] <= retries:
                    on.begin(k)
                    continue
                end = replace(end, attempts=attempts[k])
            left -= 1
            yield k, end
