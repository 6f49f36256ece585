"""Points of a sweep that were drawn or suggested: their figures against each key, and what a search
found.
"""

from pathlib import Path

import numpy as np

from scenarios.app.report.plot import (
    PALETTE,
    Axes,
    CurveStyle,
    Figure,
    Panel,
    draw_point_marks,
    escape_plotly,
    lay_out_axes,
)
from scenarios.app.results.folder import RUNS, Row, read_csv_rows
from scenarios.app.results.goals import read_search_result
from scenarios.app.results.read import read_sweep_value
from scenarios.app.results.statistics import format_figure
from scenarios.app.study.yaml_document import parse_scalar

_MODEL = ("utility.rmse_db", "utility.accuracy_percent", "utility.rank_correlation")
_CAPTION = "One mark per run: its figure against each key that was drawn at random, or searched."
Rows = list[Row]
"""of runs.csv"""


def plot_drawn_points(folder: Path) -> list[Panel]:
    """Plot figures of runs against each key that was drawn.

    Those of models, or the objectives of a search.
    """
    names = read_sweep_value(folder, "drawn")
    if not names:
        return []
    rows = read_csv_rows(folder / RUNS)
    search = read_search_result(folder)
    looks = [(CurveStyle("runs", PALETTE[0]), rows)]
    keys = list(_MODEL)
    if search is not None:
        best = [row for row in rows if row["label"] in search.best]
        looks.append((CurveStyle("best", PALETTE[1], "diamond"), best))
        keys = list(search.objectives)
    panels = []
    for key in keys:
        if not any(row.get(key) for row in rows):
            continue
        axes = []
        for name in (*names, *(other for other in keys if search and other != key)):
            traces = [_mark_runs(look, look_rows, name, key) for look, look_rows in looks]
            axes.append(Axes(key, traces, escape_plotly(name), near=True))
        panels.append(
            Panel(
                f"settings-{key}",
                f"{key} by drawn value",
                _CAPTION,
                lay_out_axes(axes, {"title": "value"}, closest=True),
            )
        )
    return panels


def _mark_runs(look: CurveStyle, rows: Rows, name: str, key: str) -> Figure:
    """Draw a mark per run: the value of a key `name`, and the figure `key`."""
    x: list[object] = []
    y = []
    texts = []
    for row in rows:
        if not row.get(key):
            continue
        value = parse_scalar(row[name])
        if isinstance(value, bool) or not isinstance(value, int | float):
            value = escape_plotly(value)
        figure = float(row[key])
        x.append(value)
        y.append(figure)
        texts.append(f"{escape_plotly(row['label'])}<br>{value}<br>{format_figure(figure)}")
    return draw_point_marks(look, x, np.array(y), texts)
