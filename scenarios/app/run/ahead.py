"""Work that goes ahead in a process of its own, while what follows it is done in this one."""

import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pickle import loads
from queue import Queue
from threading import Thread
from time import sleep
from typing import Any

from netsim.errors import RunsFailed
from scenarios.app.run.events import block_worker_signals, work_for_parent

MOST_BYTES = 100e6
"""of calls that wait to be done here: some rounds of forty UEs with 67,000 numbers each"""
WAIT_S = 0.002
_shared = dict[type, object]()
"""type -> the object of that type which is not copied"""


def play_ahead(
    work: Callable[[], object], done_here: Sequence[Any], shared: Sequence[object]
) -> None:
    """Do work in a copy of this process, in which some methods return at once: they are called
    here, in the order of their calls, with copies of their values. The copy goes ahead by
    calls of `MOST_BYTES`.

    shared : objects that are not copied, each the only one of its type; those of the methods are
    others. Raises what work raises; RunsFailed: the copy was killed.
    """
    for value in (*shared, *(method.__self__ for method in done_here)):
        _shared[type(value)] = value
    ours, theirs = Pipe(duplex=False)

    def send(*call: object) -> None:
        theirs.send(call)

    def do_work() -> None:
        work_for_parent()
        for kind in _shared:
            ForkingPickler.register(kind, lambda value: (_get_shared, (type(value),)))
        for method in done_here:
            vars(method.__self__)[method.__name__] = partial(send, method)
        try:
            work()
            send()
        except Exception as error:
            error.add_note(traceback.format_exc())
            send(_raise_error, error)

    process = get_context("fork").Process(target=do_work)
    with block_worker_signals():
        process.start()
    theirs.close()
    calls = _Calls(ours)
    try:
        for method, *values in iter(calls.take, ()):
            method(*values)
    finally:
        process.kill()
        process.join()
        calls.end()


class _Calls:
    """Calls of a copy of this process, read as they come, so that it need not wait."""

    def __init__(self, source: Connection) -> None:
        self._source = source
        self._calls = Queue[bytes]()
        self._n_read = 0
        self._n_taken = 0.0
        self._reader = Thread(target=self._receive, daemon=True)
        self._reader.start()

    def _receive(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                call = self._source.recv_bytes()
                self._n_read += len(call)
                self._calls.put(call)
                while self._n_read - self._n_taken > MOST_BYTES:
                    sleep(WAIT_S)
        self._calls.put(b"")

    def take(self) -> Any:
        """Take the next call. Raises RunsFailed where the copy is no more."""
        if call := self._calls.get():
            self._n_taken += len(call)
            return loads(call)  # noqa: S301 - of a copy of this process
        raise RunsFailed(
            "the process that plays the rounds was killed (was there too little memory?); "
            "repeat the command, and the run goes on from its checkpoint"
        )

    def end(self) -> None:
        """End reading, of a copy that is no more."""
        self._n_taken = inf
        self._reader.join(1.0)


def _get_shared(kind: type) -> object:
    return _shared[kind]


def _raise_error(error: Exception) -> None:
    raise error
