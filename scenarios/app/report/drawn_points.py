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
    marks,
    mosaic,
)
from scenarios.app.report.plot import plain as unmarked
from scenarios.app.results.folder import RUNS, read_rows
from scenarios.app.results.goals import read_tuned
from scenarios.app.results.read import of_sweep_file
from scenarios.app.results.statistics import figure_text
from scenarios.app.study.yaml_document import plain

_MODEL = ("utility.rmse_db", "utility.accuracy_percent", "utility.rank_correlation")
_CAPTION = "One mark per run: its figure against each key that was drawn at random, or searched."
Rows = list[dict[str, str]]
"""of runs.csv"""


def draws_panels(folder: Path) -> list[Panel]:
    """Figures of runs against each key that was drawn: those of models, or the objectives of a
    search.
    """
    names = of_sweep_file(folder, "drawn")
    if not names:
        return []
    rows = read_rows(folder / RUNS)
    tuned = read_tuned(folder)
    looks = [(CurveStyle("runs", PALETTE[0]), rows)]
    if tuned is not None:
        looks.append(
            (
                CurveStyle("best", PALETTE[1], "diamond"),
                [row for row in rows if row["label"] in tuned.best],
            )
        )
    panels = []
    for key in _MODEL if tuned is None else tuned.objectives:
        if tuned is None:
            others = []
        else:
            others = [other for other in tuned.objectives if other != key]
        if any(row.get(key) for row in rows):
            axes = [
                Axes(
                    key,
                    [_marks(look, some, name, key) for look, some in looks],
                    unmarked(name),
                    near=True,
                )
                for name in (*names, *others)
            ]
            figure = mosaic(axes, {"title": "value"}, closest=True)
            panels.append(Panel(f"settings-{key}", f"{key} by drawn value", _CAPTION, figure))
    return panels


def _marks(look: CurveStyle, rows: Rows, name: str, key: str) -> Figure:
    """A mark per run: the value of a key `name`, and the figure `key`."""
    known = [row for row in rows if row.get(key)]
    values = [plain(row[name]) for row in known]
    x = [
        value if isinstance(value, int | float) and not isinstance(value, bool) else unmarked(value)
        for value in values
    ]
    y = np.array([float(row[key]) for row in known])
    texts = [
        f"{unmarked(of['label'])}<br>{at}<br>{figure_text(v)}"
        for of, at, v in zip(known, x, y, strict=True)
    ]
    return marks(look, x, y, texts)
