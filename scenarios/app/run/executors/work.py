"""A piece of work, and what became of it: plain data, so that both can go to other processes and machines."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim.errors import BadInput
from scenarios.app.results.folder import RESULTS, STUDY
from scenarios.app.results.marker import Mark
from scenarios.app.run.job import Job
from scenarios.app.study.yaml_document import one_line

_LONGEST = 500  # characters of an error's line


@dataclass(frozen=True)
class Kind:
    """What a folder of work holds: what its marker says, and the names that its files may have."""

    name: Mark
    files: tuple[str, ...]


RUN = Kind("run", (STUDY, *RESULTS))


@dataclass(frozen=True)
class Work:
    """A piece of work: `call(folder, *arguments)` writes its results into the folder and answers with plain data.

    call : of a module's top level; other processes find it by its name. label, seed : what people call it.
    """

    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    folder: Path
    label: str
    seed: int
    kind: Kind = RUN

    def __call__(self) -> Any:
        return self.call(self.folder, *self.arguments)


@dataclass(frozen=True)
class Answer:
    """What the work answered."""

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


BAD_INPUT, LOST_WORKER = "bad input", "lost worker"
"""kinds of failure that are no exception of the program; others have the name of the exception"""


def attempt(work: Work | Job) -> Answer | Failure:
    """Do the work, here and now. Only a signal that ends this process gets through."""
    try:
        return Answer(work())
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
    """The failure of work whose process or machine is gone; whether that was its own fault nobody knows."""
    return Failure(LOST_WORKER, _short(why), f"{_short(why)}\n", again=True)


def _short(text: str) -> str:
    line = one_line(" ".join(text.split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
