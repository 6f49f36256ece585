"""Names of the rules of power control, and how many parameters each has: data, so that scenarios load quickly."""

from __future__ import annotations

from typing import Literal

RuleName = Literal[
    "constant", "fractional", "equal SNR", "inverse amplitude", "required SNR", "capped inversion", "rank ladder",
    "log-linear",
]  # fmt: skip
PARAMETERS: dict[RuleName, int] = {
    "constant": 1, "fractional": 2, "equal SNR": 1, "inverse amplitude": 1, "required SNR": 1, "capped inversion": 2,
    "rank ladder": 2, "log-linear": 6,
}  # fmt: skip
