"""Garbage collection while something is played."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_ALIVE = 50_000  # objects more than before: a world has more of them than Python expects of a program


@contextmanager
def seldom_collected() -> Generator[None, None, None]:
    """Look for cycles of dead objects whenever 50,000 objects more are alive than before, in place of 700.

    What was set before is set again afterwards, after errors too. Arrays are no objects that are counted.
    """
    before = gc.get_threshold()
    gc.set_threshold(_ALIVE)
    try:
        yield
    finally:
        gc.set_threshold(*before)
