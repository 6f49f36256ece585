"""Compiled functions and other files that can be made again, in the user's cache and never beside
the sources.

A file beside an installed module outlives the installation that made it: a folder of nothing but
machine code is then imported in place of the package that was installed since.
"""

import hashlib
import importlib.util
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., object])
_KEPT = 4  # states of the code, whose machine code is
tell: Callable[[str], None] = logging.getLogger("netsim").warning
"""takes that line, and others for a waiting user; commands put another in place"""


class _Compiled:
    """A function that becomes machine code at its first call: a module with one is imported without
    numba.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    @cached_property
    def _code(self) -> Callable[..., object]:
        from numba import njit
        from numba.core import config

        settings = vars(config)
        before = settings["CACHE_DIR"]
        settings["CACHE_DIR"] = before or str(_find_code_folder())
        try:
            # division as in NumPy: a look at each divisor for zero would keep a loop from vector
            # instructions
            return njit(cache=True, nogil=True, error_model="numpy")(self._function)
        finally:
            settings["CACHE_DIR"] = before

    @property
    def _numba_type_(self) -> object:
        """Tells numba what another compiled function calls."""
        return self._code._numba_type_  # type: ignore[attr-defined]

    def __call__(self, *values: object) -> object:
        names = self._function.__globals__
        if names.get(self._function.__name__) is self:  # later calls from there take no detour
            names[self._function.__name__] = self._code
        return self._code(*values)


@cache
def _find_code_folder() -> Path:
    """Where the machine code of this state of the code is: it holds other compiled functions, so a
    change of any file with one asks for it again. That of all but a few states before is removed.
    """
    states = find_cache_folder() / "numba"
    folder = states / compute_code_digest("netsim", "fl", word=b"compiled")
    with suppress(OSError):  # another process was first, or nothing can be kept here
        folder.mkdir(parents=True)
        tell("compiling, once on this machine; later starts take it from a cache")
        for old in sorted(states.iterdir(), key=os.path.getmtime)[:-_KEPT]:
            shutil.rmtree(old)
    return folder


def compiled(function: Function) -> Function:
    """`numba.njit` with its machine code in the user's cache; in NUMBA_CACHE_DIR where that is
    set.
    """
    return cast(Function, _Compiled(function))


def find_cache_folder() -> Path:
    """`netsim` in the user's cache directory (XDG_CACHE_HOME, or ~/.cache)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "netsim"


@lru_cache(maxsize=8)
def compute_code_digest(*packages: str, word: bytes = b"") -> str:
    """SHA-256 of the source files of packages, with their names, or of those with a word; they are
    read once a process, and nothing is imported.

    What is kept under it is made again after any change of the code, also between releases.
    """
    digest = hashlib.sha256()
    for package in packages:
        spec = importlib.util.find_spec(package)
        for place in sorted(spec.submodule_search_locations or [str(spec.origin)]) if spec else ():
            for path in sorted(Path(place).rglob("*.py")) or [Path(place)]:
                if word in (text := path.read_bytes()):
                    digest.update(f"{package}/{path.relative_to(place)}\n".encode())
                    digest.update(hashlib.sha256(text).digest())
    return digest.hexdigest()
