"""Compiled functions, with machine code kept in the user's cache and never beside the sources.

A file beside an installed module outlives the installation that made it: a folder of nothing but machine code is then
imported in place of the package that was installed since.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit
from numba.core import config

from netsim.cache import cache_folder

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """`numba.njit` with its machine code in the user's cache; in NUMBA_CACHE_DIR where that is set."""
    return _kept(function)


def compiled_sums(function: Function) -> Function:
    """The same for functions whose sums may be taken in any order, which vector units need."""
    return _kept(function, fastmath={"reassoc", "contract", "nsz"})


def _kept(function: Function, **options: Any) -> Function:
    settings: Any = config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = before or str(cache_folder() / "numba")
    try:
        # division as in NumPy: a look at each divisor for zero would keep a loop from vector instructions
        return njit(cache=True, error_model="numpy", **options)(function)  # type: ignore[no-any-return]
    finally:
        settings.CACHE_DIR = before
