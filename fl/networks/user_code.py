"""Classes and functions that users bring: named FILE.py:NAME, or by an entry point of a package.

A file is parsed before it is ever run, and what its code raises is blamed on its own line.
"""

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from symtable import symtable
from threading import current_thread, main_thread
from traceback import extract_tb
from types import ModuleType
from typing import Any

from netsim.errors import BadInput, to_one_line
from netsim.part import find_entry_points, split_code_name
from netsim.safe import read_content

_MOST_BYTES = 10**7
_LONGEST_S = 120.0  # for which code may run before the first round
_NOT_THEIRS = ("/torch/", "/fl/networks/", "/contextlib.py")


@dataclass(frozen=True)
class UserCode:
    """Code under a name. key : the key of the scenario that names it; text : FILE.py:NAME, or the
    name of an entry point of `group`.
    """

    key: str
    text: str
    group: str = ""

    def check(self) -> None:
        """Raise BadInput with one line where there is no such name; nothing of a file is run."""
        file, name = split_code_name(self.text)
        if not file:
            self._find_entry_point()
            return
        try:
            table = symtable(self._read(file).decode(errors="replace"), file, "exec")
        except SyntaxError as error:
            raise BadInput(f"{self.key}: {file}:{error.lineno}: {error.msg}; mend it") from None
        symbols = [symbol for symbol in table.get_symbols() if symbol.is_local()]
        names = [symbol.get_name() for symbol in symbols if not symbol.is_imported()]
        if name not in names:
            known = ", ".join(names) or "nothing"
            raise BadInput(f"{self.key}: {file} defines no {name}; it defines {known[:200]}")

    def load(self) -> Any:
        """Run the file, or import the package, and return what has the name."""
        self.check()
        file, name = split_code_name(self.text)
        with self.try_out("its import"):
            if not file:
                return self._find_entry_point().load()
            module = ModuleType(f"netsim file {file}")
            module.__file__ = file
            sys.modules[module.__name__] = module  # where data classes look for their module
            exec(compile(self._read(file), file, "exec"), vars(module))  # noqa: S102 - it is asked for
            return getattr(module, name)

    @contextmanager
    def try_out(self, work: str) -> Generator[None]:
        """As `blame`, and raise BadInput where the work takes too long."""
        can_stop = current_thread() is main_thread() and not signal.getitimer(signal.ITIMER_REAL)[0]
        before = signal.signal(signal.SIGALRM, _stop) if can_stop else None
        try:
            if can_stop:
                signal.setitimer(signal.ITIMER_REAL, _LONGEST_S)
            with self.blame(work):
                yield
        finally:
            if can_stop:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
                signal.signal(signal.SIGALRM, before)

    @contextmanager
    def blame(self, work: str) -> Generator[None]:
        """Raise BadInput with file and line of the code for whatever it raises in some work."""
        try:
            yield
        except (BadInput, KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # whatever code does, SystemExit too
            places = [
                f" {frame.filename}:{frame.lineno}:"
                for frame in extract_tb(error.__traceback__)
                if not any(part in frame.filename for part in _NOT_THEIRS)
            ]
            place = "".join(places[-1:])
            problem = to_one_line(f"{type(error).__name__}: {error}")[:300]
            name = split_code_name(self.text)[1]
            raise BadInput(f"{self.key}:{place} {work} raised {problem}; mend {name}") from None

    def _read(self, file: str) -> bytes:
        try:
            return read_content(file, _MOST_BYTES)
        except OSError as error:
            raise BadInput(f"{self.key}: {file}: {error.strerror}; give a Python file") from None

    def _find_entry_point(self) -> Any:
        for entry in find_entry_points():
            if (entry.group, entry.name) == (self.group, self.text):
                return entry
        raise BadInput(
            f"{self.key}: no package has {self.text!r} among its entry points {self.group}; write "
            "FILE.py:NAME for a file beside the scenario"
        )


def _stop(*_: object) -> None:
    raise TimeoutError(f"it takes more than {_LONGEST_S:g} s")
