"""Measured distributions beside those of a radio study."""

from __future__ import annotations

import numpy as np

from netsim.errors import BadInput
from netsim.traces.source import read_table
from netsim.units import FloatArray

_BOUNDS = {"cdf": (0.0, 1.0), "rsrp_dbm": (-160.0, -20.0), "sinr_db": (-60.0, 80.0)}
_SHARES = np.linspace(0.0, 1.0, 10_001)  # at which a stated distribution is sampled


def read_measured(file: str) -> tuple[dict[str, FloatArray], bool]:
    """Samples (n,) by quantity of a CSV, and whether they were measured, or stand for a stated distribution.

    Columns are rsrp_dbm and sinr_db of samples, or one of them and cdf, between whose pairs the distribution is a line.
    Raises BadInput with one line.
    """
    table = read_table(file, _BOUNDS).dropna(axis="columns", how="all")
    names, is_stated = [name for name in table if name != "cdf"], "cdf" in table
    if not names or (is_stated and len(names) > 1):
        raise BadInput(f"{file}: measured: it needs a column rsrp_dbm or sinr_db of samples, or one of them and cdf")
    if not is_stated:
        return {name: table[name].dropna().to_numpy() for name in names}, True
    share, value = table.dropna().sort_values(names[0]).to_numpy().T
    if (np.diff(share) < 0).any() or not share[0] <= 0.5 <= share[-1]:
        raise BadInput(f"{file}: measured: cdf must grow with {names[0]}, and pass 0.5")
    return {names[0]: np.interp(_SHARES, share, value)}, False
