"""Classes and functions that users bring: named FILE.py:NAME, or by an entry point of a package.

A file is parsed before it is ever run, and what its code raises is blamed on its own line.
"""

import ast
import hashlib
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from traceback import extract_tb, walk_tb
from types import FrameType, ModuleType
from typing import Any

from netsim.errors import BadInput, to_one_line
from netsim.part import find_entry_points, split_code_name
from netsim.safe import read_content

MOST_BYTES = 10**7
"""of a file of code"""
LONGEST_S = 120.0
"""for which code may run before the first round: to be imported, built, or tried"""


@dataclass(frozen=True)
class UserCode:
    """Code under a name. key : the key of the scenario that names it; text : FILE.py:NAME, or the
    name of an entry point of `group`.
    """

    key: str
    text: str
    group: str

    @property
    def file(self) -> str:
        """The file; empty for an entry point."""
        return split_code_name(self.text)[0]

    @property
    def name(self) -> str:
        """The name in the file, or of the entry point."""
        return split_code_name(self.text)[1]

    def check(self) -> None:
        """Raise BadInput with one line where there is no such name; nothing of a file is run."""
        if not self.file:
            self._find_entry_point()
            return
        try:
            tree = ast.parse(self._read(), self.file)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or 1
            problem = getattr(error, "msg", str(error))
            raise BadInput(f"{self.key}: {self.file}:{line}: {problem}; mend the file") from None
        names = [name for statement in tree.body for name in _list_names(statement)]
        if self.name not in names:
            raise BadInput(
                f"{self.key}: {self.file} defines no {self.name}; it has "
                f"{', '.join(names[:10]) or 'no names'}"
            )

    def load(self) -> Any:
        """Run the file, or import the package, and return what has the name."""
        self.check()
        if not self.file:
            entry = self._find_entry_point()
            with self.try_out("the import"):
                return entry.load()
        source = self._read()
        digest = hashlib.sha256(source).hexdigest()[:16]
        module = ModuleType(f"netsim_file_{digest}")
        module.__file__ = self.file
        sys.modules[module.__name__] = module  # where data classes look for their module
        with self.try_out("the import"):
            exec(compile(source, self.file, "exec"), vars(module))  # noqa: S102 - it is asked for
        return getattr(module, self.name)

    @contextmanager
    def try_out(self, work: str) -> Generator[None]:
        """As `blame`, and raise BadInput where the work takes more than LONGEST_S."""
        problem = f"{self.key}: {self.text}: {work} takes more than {LONGEST_S:g} s"
        with self.blame(work), _limit_time(problem):
            yield

    @contextmanager
    def blame(self, work: str) -> Generator[None]:
        """Raise BadInput with file and line of the code for whatever it raises in some work."""
        try:
            yield
        except (BadInput, KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # whatever code does, SystemExit too
            raise self.explain(error, work) from None

    def explain(self, error: BaseException, work: str) -> BadInput:
        """What the code raised in some work, with its last line that took part."""
        frames = extract_tb(error.__traceback__)
        file = self.file or _find_file(error)
        lines = [f"{frame.filename}:{frame.lineno}" for frame in frames if frame.filename == file]
        place = lines[-1] if lines else self.text
        problem = to_one_line(f"{type(error).__name__}: {error}")[:300]
        return BadInput(f"{self.key}: {place}: {work} raised {problem}; mend {self.name}")

    def _read(self) -> bytes:
        try:
            return read_content(self.file, MOST_BYTES)
        except OSError as error:
            reason = error.strerror or str(error)
            raise BadInput(f"{self.key}: {self.file}: {reason}; give a file of Python") from None

    def _find_entry_point(self) -> Any:
        entries = {entry.name: entry for entry in find_entry_points().get(self.group, ())}
        if self.name in entries:
            return entries[self.name]
        raise BadInput(
            f"{self.key}: no installed package has {self.name!r} among its entry points "
            f"{self.group}; write FILE.py:NAME for a file beside the scenario"
        )


def _find_file(error: BaseException) -> str:
    """The file of the last frame outside of torch and of this program."""
    files = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
    theirs = [file for file in files if "/torch/" not in file and "/fl/" not in file]
    return theirs[-1] if theirs else ""


def _list_names(statement: ast.stmt) -> list[str]:
    """Names that a statement of a module defines."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    if isinstance(statement, ast.ImportFrom):
        return [alias.asname or alias.name for alias in statement.names]
    return []


@contextmanager
def _limit_time(problem: str) -> Generator[None]:
    """Raise BadInput after LONGEST_S, in the main thread, unless another alarm is set."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        line = "" if frame is None else f", at {frame.f_code.co_filename}:{frame.f_lineno}"
        raise BadInput(f"{problem}{line}; make it faster")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
