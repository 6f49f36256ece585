"""Names of the rules of power control, and their parameters in order: data, so that scenarios load quickly."""

from __future__ import annotations

from typing import Literal

RuleName = Literal[
    "constant", "fractional", "equal SNR", "inverse amplitude", "required SNR", "capped inversion", "rank ladder",
    "log-linear",
]  # fmt: skip
PARAMETERS: dict[RuleName, tuple[str, ...]] = {
    "constant": ("p, dBW",),
    "fractional": ("p, dBW", "alpha"),
    "equal SNR": ("p, dB",),
    "inverse amplitude": ("p, dBW",),
    "required SNR": ("p, dB",),
    "capped inversion": ("p, dB", "c, dBW"),
    "rank ladder": ("p, dB", "d, dB a rank"),
    "log-linear": ("p, dBW", "a", "b", "c", "d", "f, dB a rank"),
}
"""what each parameter of a rule is called in `rl.rules`, with its unit; factors have none"""
