"""Copies of frozen dataclasses with other values in some fields."""

from __future__ import annotations

from typing import Any, TypeVar

Value = TypeVar("Value")


def altered(value: Value, **fields: Any) -> Value:
    """A copy with these fields: `dataclasses.replace` in a fifth of the time, for what is copied every tick.

    Nothing of the class is called: its checks are the caller's, and cached properties would be copied with the rest.
    """
    copy: Value = object.__new__(type(value))
    vars(copy).update(vars(value), **fields)
    return copy
