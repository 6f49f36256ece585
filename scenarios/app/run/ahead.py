"""Work that goes ahead in a process of its own, while what follows it is done in this one."""

import traceback
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import Pipe, get_context
from multiprocessing.reduction import ForkingPickler
from typing import Any

from netsim.errors import RunsFailed
from scenarios.app.run.events import block_worker_signals, work_for_parent

_shared = dict[type, object]()
"""type -> the object of that type which is not copied"""


def play_ahead(
    work: Callable[[], object], done_here: Sequence[Any], shared: Sequence[object]
) -> None:
    """Do work in a copy of this process, in which some methods return at once: they are called
    here, in the order of their calls, with copies of their values. The copy goes ahead by one call
    at most, beside what the system buffers.

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

    def receive() -> Any:
        try:
            return ours.recv()
        except (EOFError, OSError):
            raise RunsFailed(
                "the process that plays the rounds was killed (was there too little memory?); "
                "repeat the command, and the run goes on from its checkpoint"
            ) from None

    process = get_context("fork").Process(target=do_work)
    with block_worker_signals():
        process.start()
    theirs.close()
    try:
        for method, *values in iter(receive, ()):
            method(*values)
    finally:
        process.kill()
        process.join()
        _shared.clear()


def _get_shared(kind: type) -> object:
    return _shared[kind]


def _raise_error(error: Exception) -> None:
    raise error
