"""The stream of progress of work, signals that end a command, and workers that end with their
parent.

Work gets a `Watch` and calls it with an `Event` at each step; the terminal and `--json` are its
only readers.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Literal, NamedTuple

from netsim import compiled
from scenarios.app.study import Fields, Record

Name = Literal["round", "window", "run", "failed", "played", "world", "step"]
"""a round; a window of time of a radio study; a run of several; one that failed; a trial or a
training of several; a recorded world; an evaluation of a policy"""

_NONE: Record = {}


class Event(NamedTuple):
    """A step of work that ended.

    done, total : steps that are done, and of how many; both count steps of one name. last : no step
    of this name follows. values : what the step found, as plain data, by the key that it has in a
    line of JSON. part : of the work that the step belongs to, in words, as `seed 3`; empty for the
    whole.
    """

    name: Name
    done: int
    total: int
    last: bool = False
    values: Record = _NONE
    part: str = ""

    def to_json(self, title: str) -> Fields:
        """Return the event as an object of JSON; title : of the whole work."""
        if self.part:
            title = f"{title}, {self.part}"
        return {
            "event": self.name,
            "title": title,
            "done": self.done,
            "of": self.total,
            **self.values,
            "last": self.last,
        }


Watch = Callable[[Event], None]
under_way: list[Any] = []
"""jobs that an executor of this process plays now, each with its handle"""
RETRIES = 2
"""attempts after the first one, unless stated"""


def ignore_event(event: Event) -> None:
    """The watch of work without a reader."""


CALM_S = 1.0  # signals that follow within it mean the same: a terminal and a parent send one each
_AGAIN_S = 0.1  # after which an interruption that was lost is raised again
_ENDING = (signal.SIGINT, signal.SIGTERM)  # Ctrl-C, and what batch systems send


class _Interruption:
    """Interruption that this process received. `open`: a signal raises KeyboardInterrupt at
    once.
    """

    open = True
    last_s = -CALM_S
    received = False


def listen() -> None:
    """From now on SIGINT and SIGTERM raise KeyboardInterrupt, several within a second only once.

    One that is raised in a callback of foreign code, as when a function is compiled, is lost there:
    it is raised again.
    """
    _Interruption.received = False
    # what an earlier command in this process lost is not for this one
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    for number in _ENDING:
        signal.signal(number, _handle_signal)
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _raise_lost_interrupt


def was_interrupted() -> bool:
    """Return whether a signal was received, so that a failure now is due to it."""
    return _Interruption.received


def ignore_signals() -> None:
    """From now on nothing interrupts: the command is leaving."""
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def _handle_signal(number: int, frame: FrameType | None) -> None:
    calm = time.monotonic() - _Interruption.last_s < CALM_S
    _Interruption.received = True
    if _Interruption.open and not calm:
        _Interruption.last_s = time.monotonic()
        raise KeyboardInterrupt


def _raise_lost_interrupt(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise an interruption again, a moment later; print anything else."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)


@contextmanager
def block_worker_signals() -> Generator[None]:
    """Workers that are started within hear SIGINT only from `work_for_parent` on: what they import
    first would end in a traceback. This process hears it a moment later.
    """
    from multiprocessing import resource_tracker  # not at the top: most commands have no workers

    resource_tracker.ensure_running()  # its start would let signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def work_for_parent() -> None:
    """In a worker: end when the parent is gone, and between two pieces of work only note a
    signal.
    """
    _Interruption.open = False
    compiled.tell = lambda _: None  # what is said on the terminal is said by the parent
    # SIGTERM ends a worker at once: so a broken pool clears up
    signal.signal(signal.SIGINT, _handle_signal)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()


@contextmanager
def allow_interrupts() -> Generator[None]:
    """In a worker: signals interrupt what is done within; after one no work is begun."""
    if _Interruption.received:
        raise KeyboardInterrupt
    _Interruption.open = True
    try:
        yield
    finally:
        _Interruption.open = False


def _end_with_parent() -> None:
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)  # as a kill: folders are whole at every moment, and the system lets go of locks
