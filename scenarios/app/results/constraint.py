"""A bound that the winner of a tuning keeps, as it is written on the command line and kept in tuning.json."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite

from netsim.errors import BadInput

_BOUND = re.compile(r"\s*(?P<key>[^<>=\s]+)\s*(?P<sign><=|>=)\s*(?P<bound>\S+)\s*")


@dataclass(frozen=True)
class Constraint:
    """A bound that the mean of a key over seeds has to keep."""

    text: str
    key: str
    below: bool
    bound: float

    def excess(self, value: float) -> float:
        """How far the value lies beyond the bound; at most 0 where the bound is kept."""
        return value - self.bound if self.below else self.bound - value


def constraint(text: str) -> Constraint:
    """A bound as it is written: KEY<=NUMBER or KEY>=NUMBER."""
    match = _BOUND.fullmatch(text)
    try:
        bound = float(match["bound"]) if match else float("nan")
    except ValueError:
        bound = float("nan")
    if match is None or not isfinite(bound):
        raise BadInput(f"--constraint {text}: write KEY<=NUMBER or KEY>=NUMBER")
    return Constraint(f"{match['key']}{match['sign']}{match['bound']}", match["key"], match["sign"] == "<=", bound)
