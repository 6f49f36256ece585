"""What every engine does for us: begin work, and say what became of it; and how often lost work is tried again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from scenarios.app.run.executors.work import Answer, Failure


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

    def check(self) -> None:
        """Refuse (BadInput) what this machine cannot do; nothing is written where work will be played."""

    def here(self, jobs: int) -> int:
        """Pieces that this machine plays at once, which share its memory; 1 where other machines play them."""

    def executor(self, works: Sequence[Any], jobs: int, place: Path) -> Executor:
        """The executor of this work. jobs : pieces at once; 0: as many as there is room for. place : folder of all."""


class Attempts:
    """What becomes of work in the end: that which may end otherwise is begun again, `retries` times."""

    def __init__(self, on: Executor, retries: int) -> None:
        self._on, self._retries, self._made = on, retries, Counter[int]()

    def ended(self) -> tuple[int, Answer | Failure]:
        """Wait until a piece of work is done for good: its number, and what became of it."""
        while True:
            k, end = self._on.ended()
            self._made[k] += 1
            if not isinstance(end, Failure):
                return k, end
            if not end.again or self._made[k] > self._retries:
                return k, replace(end, attempts=self._made[k])
            self._on.begin(k)


def played(on: Executor, works: int, retries: int) -> Iterator[tuple[int, Answer | Failure]]:
    """The number of each of so many pieces of work with what became of it, as it is done."""
    attempts = Attempts(on, retries)
    with on:
        for k in range(works):
            on.begin(k)
        for _ in range(works):
            yield attempts.ended()
