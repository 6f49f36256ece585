"""Measured distributions beside those of a radio study."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from netsim.columns import frozen
from netsim.errors import BadInput, format_count
from netsim.notice import Notice
from netsim.traces.source import read_number_table
from netsim.traces.values import join_texts
from netsim.units import FloatArray
from scenarios.app.study.notice import notice

if TYPE_CHECKING:
    from pandas import DataFrame

_BOUNDS = {"cdf": (0.0, 1.0), "rsrp_dbm": (-160.0, -20.0), "sinr_db": (-60.0, 80.0)}
_OF_CELLS = {"serving": (0.0, 1.0), "time_s": (-1e12, 1e12), "user": None, "cell": None}
_SHARES = np.linspace(0.0, 1.0, 10_001)  # at which a stated distribution is sampled


@frozen
class DriveSamples:
    """Samples (n,) by quantity, whether they were measured or stand for a stated distribution, and
    what is left out.
    """

    samples: dict[str, FloatArray] = field(default_factory=dict)
    is_measured: bool = False
    notices: tuple[Notice, ...] = ()


def read_measured(file: str) -> DriveSamples:
    """Return what a CSV says of serving cells.

    Columns are rsrp_dbm and sinr_db of samples, or one of them and cdf, between whose pairs the
    distribution is a line. Of samples of several cells those count whose column serving is 1, or,
    where most times have several, the strongest of a user and time. Raises BadInput with one line.
    """
    read = read_number_table(file, _BOUNDS | _OF_CELLS)
    need = "measured: it needs a column rsrp_dbm or sinr_db of samples, or one of them and cdf"
    if not {*_BOUNDS} & {*read}:
        raise BadInput(f"{file}: {need}; the file has {join_texts(read.attrs['unread'])}")
    serving = _select_serving(read)
    if serving.empty:
        raise BadInput(
            f"{file}: measured: no row has serving 1; leave that column out, or mark the "
            f"serving cell"
        )
    left_out = len(read) - len(serving)
    notices = (notice("measured-left-out", rows=format_count(left_out, "row")),) if left_out else ()
    table = serving[[name for name in serving if name in _BOUNDS]].dropna(axis="columns", how="all")
    names = [name for name in table if name != "cdf"]
    is_stated = "cdf" in table
    if not names or (is_stated and len(names) > 1):
        raise BadInput(f"{file}: {need}")
    if not is_stated:
        return DriveSamples(
            {name: table[name].dropna().to_numpy() for name in names}, True, notices
        )
    share, value = table.dropna().sort_values(names[0]).to_numpy().T
    if (np.diff(share) < 0).any() or not share[0] <= 0.5 <= share[-1]:
        raise BadInput(f"{file}: measured: cdf must grow with {names[0]}, and pass 0.5")
    return DriveSamples({names[0]: np.interp(_SHARES, share, value)})


def _select_serving(read: DataFrame) -> DataFrame:
    if "serving" in read:
        return read[read["serving"] == 1]
    if {"cell", "time_s", "rsrp_dbm"} <= {*read}:
        keys = [name for name in ("user", "time_s") if name in read]
        if not read.groupby(keys)["cell"].nunique().median() > 1:
            return read  # one cell at a time: that which serves
        strongest = read.sort_values(
            "rsrp_dbm", kind="stable", na_position="first"
        ).drop_duplicates(keys, keep="last")
        return read.merge(strongest[[*keys, "cell"]])
    return read
