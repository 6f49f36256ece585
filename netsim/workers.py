"""How many cores the work of a run may take; no result depends on it.

NETSIM_WORKERS says so, 1 unless it is set: processes that are started from here have the same.
"""

import os
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from netsim.errors import BadInput

VARIABLE = "NETSIM_WORKERS"


def count_workers(usual: int = 1) -> int:
    """Threads that work may take, 1 or more; usual: where nothing is said. Raises BadInput where
    the variable says none.
    """
    text = os.environ.get(VARIABLE) or str(usual)
    if not (text.isdecimal() and int(text)):
        raise BadInput(f"{VARIABLE} {text[:40]!r}: must be a whole number above 0, as 2")
    return int(text)


@contextmanager
def use_workers(count: int) -> Generator[None]:
    """Within, work takes that many threads, in processes that are started too."""
    before = os.environ.get(VARIABLE, "")
    os.environ[VARIABLE] = str(count)
    try:
        yield
    finally:
        os.environ[VARIABLE] = before


def map_in_threads(work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """Results of `work` for each item, in their order; some at once, so that what releases the
    interpreter's lock takes several cores. No item's work may depend on another's.
    """
    count = count_workers()
    if count == 1:
        return list(map(work, items))
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, items))
