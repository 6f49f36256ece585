"""Refusals: one printable line, and no other."""

from collections.abc import Callable
from typing import Any

import pytest

from netsim.errors import BadInput


def line_of(call: Callable[..., Any], *arguments: Any, **choices: Any) -> str:
    """The line with which a call refuses what it was given."""
    with pytest.raises(BadInput) as caught:
        call(*arguments, **choices)
    (line,) = caught.value.lines
    assert line.isprintable()
    assert len(line) < 700
    return line
