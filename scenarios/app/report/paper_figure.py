"""A figure for a paper: a figure of labels with 95 % intervals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netsim.errors import BadInput, suggest_nearest
from scenarios.app.report.plot import ASSETS, is_wide
from scenarios.app.report.report import write_page

if TYPE_CHECKING:
    import pandas

_ENDINGS = (".pdf", ".svg", ".png")
_TITLE = "netsim compare --figure"
"""of the file, by which it is known to be ours"""


def write_figure(
    tables: Mapping[str, pandas.DataFrame], x: str, y: str, path: Path, chance: bool = False
) -> int:
    """Draw a main figure y of each label against x, a column of runs, with its 95 % interval.

    tables : of `open_sweep`. y has NAME for the attack, the strongest. A line joins labels of a
    curve, and those that differ in KEY=VALUE of x alone. chance : whether a bar marks the largest
    chance of each share. Returns how many labels are left out: they
    have no finite numbers.
    """
    from pandas import to_numeric

    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise BadInput("--figure: needs matplotlib, the extra netsim-fl[figures]") from None

    runs, figures = tables["runs"], tables["figures"]
    if path.suffix not in _ENDINGS:
        raise BadInput(f"--figure {path}: the name must end with {', '.join(_ENDINGS)}")
    for key, known in ((x, [*runs]), (y, [*figures.get("pattern", ())])):
        if key not in known:
            raise BadInput(
                f"--figure needs --x and --y: these runs have no such key {key!r}"
                f"{suggest_nearest(key, known, 3) or '; give one as ' + ', '.join(known[1:6])}"
            )
    points = figures[figures["pattern"] == y].set_index("label")
    # of several values one that is missing or infinite leaves no mean
    points["at"] = (
        to_numeric(runs[x], errors="coerce")
        .groupby(runs["label"])
        .agg(lambda values: values.mean(skipna=False))
    )
    varied = rf"(, )?\b{re.escape(x.rpartition('.')[2])}=[^,]*"
    points["series"] = points.index.str.replace(varied, "", regex=True)
    if "curve" in runs:
        points["series"] = runs.groupby("label")["curve"].first().fillna(points["series"])
    drawn = points[np.isfinite(points["at"] + points["value"])].sort_values("at")
    if drawn.empty:
        raise BadInput(f"--figure: no label has finite numbers for both {x} and {y}; take others")
    with rc_context(fname=str(ASSETS / "paper.mplstyle")):
        figure = Figure()
        axes = figure.subplots()
        for name, part in drawn.groupby("series"):
            bars = [part["value"] - part["low"], part["high"] - part["value"]]
            axes.errorbar(part["at"], part["value"], bars, label=name or "all")
        if chance:
            levels = [max(level for _, level in pairs) for pairs in drawn["baseline_values"]]
            axes.plot(drawn["at"], levels, "_", color="grey", label="chance")
        is_log = is_wide(drawn["at"]) and min(drawn["at"]) > 0
        names = dict(zip(figures["key"], figures["name"] + ", " + figures["unit"], strict=True))
        axes.set(
            xlabel=names.get(x, " ".join(re.findall(r"[^\W_]+", x)[1:])),
            ylabel=names[drawn["key"].iloc[0]],
            xscale="log" if is_log else "linear",
        )
        axes.legend()
        content = BytesIO()
        figure.savefig(content, format=path.suffix[1:], metadata={"Title": _TITLE})
    write_page(path, content.getvalue(), _TITLE)
    return len(points) - len(drawn)
