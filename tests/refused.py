"""Refusals: one printable line, and no other; and cases of them that are written as a text."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from netsim.errors import BadInput


def read_cases(text: str) -> list[tuple[str, str]]:
    """Cases of a text: one or more lines, and an indented line below, which is what they are
    refused with."""
    cases = re.findall(r"^((?:\S.*\n)+)    (.*)$", text, re.MULTILINE)
    return [(overrides.replace("\n", " ").strip(), message) for overrides, message in cases]


def catch_line(call: Callable[..., Any], *arguments: Any, **choices: Any) -> str:
    """The line with which a call refuses what it was given."""
    with pytest.raises(BadInput) as caught:
        call(*arguments, **choices)
    (line,) = caught.value.lines
    assert line.isprintable()
    assert len(line) < 700
    return line
