"""Modules that are loaded when something of them is first asked for: those of compiled code, which take long to load.

An import in a function does the same, but looks the module up at every call, which a tick notices.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Later:
    """A module by its name; what was asked for once is an attribute like any other."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value
