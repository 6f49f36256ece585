"""Figures and tables of publications, point by point: what is printed, beside our own runs.

A row of the table is a point; rows of one `file` are a figure. `x` is a number, a word, or a key of
the summary, whose median then stands in `at`. metric.PART.METRIC@ROUND.last is a metric in one
round. From the value of a run that of the label in `against` is subtracted, seed by seed. `seeds`
are those with a value; where there are some and `ours` is empty, the median is infinite.
"""

from collections.abc import Sequence
from math import log10
from pathlib import Path

import numpy as np

from netsim.errors import BadInput
from netsim.record import format_cell, write_text
from netsim.safe import describe_file_kind
from netsim.units import FloatArray
from scenarios.app.report.plot import assign_styles, render_template
from scenarios.app.report.report import write_page
from scenarios.app.results.folder import RUNS, Row, read_csv_rows, to_csv_text
from scenarios.app.results.read import (
    Folders,
    Labelled,
    iterate_cells,
    list_finished_runs,
    open_finished_run,
)
from scenarios.app.results.statistics import (
    compute_median_interval,
    compute_quartiles,
    group_by_label,
)
from scenarios.app.results.summary_keys import read_value
from scenarios.app.study import Fields

FIGURES = "figures.csv"
NUMBERS = ("printed", "at", "ours", "low", "high", "seeds")
Points = Sequence[Row]


def read_figures(path: Path) -> Points:
    """Read a table of points. Raises BadInput: the first mistake in it."""
    rows = read_csv_rows(path, "mend it")
    for line, row in enumerate(rows, 2):
        for name in NUMBERS:
            try:
                float(row[name] or 0)
            except (KeyError, ValueError):
                raise BadInput(f"{path}:{line}: {name} must be a number, or empty") from None
    return rows


def read_summaries_with_rounds(folder: Path) -> Labelled:
    """Read summaries of the finished runs of a sweep, with each metric of each round."""
    by_label: dict[str, dict[int, Fields]] = {}
    for label, path in list_finished_runs(folder):
        run = open_finished_run(path)
        cells = iterate_cells(run.get_rows("metrics"), "part", "name", "round", "value")
        run.summary.update(("metric.{}.{}@{:g}.last".format(*cell), cell[3]) for cell in cells)
        by_label.setdefault(label, {})[run.manifest.seed] = run.summary
    return by_label


def collect_figures(claims: Path, out: Path | None, places: Folders) -> Points:
    """Collect the points of a file of claims, which stand in figures.csv beside it; with a folder
    `out` those of its runs, which are written there too.
    """
    source = claims.with_name(FIGURES)
    points = read_figures(source) if describe_file_kind(source) else ()
    if out and points:
        fill_figures(
            points,
            {
                name: read_summaries_with_rounds(place)
                for name, place in places.items()
                if describe_file_kind(place / RUNS)
            },
        )
        write_text(out / FIGURES, to_csv_text([[*points[0]], *([*row.values()] for row in points)]))
    return points


def fill_figures(points: Points, runs_by_scenario: dict[str, Labelled]) -> None:
    """Fill in points of which there are runs; others keep what they have."""
    for row in points:
        runs = runs_by_scenario.get(row["scenario"], {})
        if row["label"] in runs:
            places, values = (_compute_values(runs, row, row[name]) for name in ("x", "key"))
            numbers = (
                compute_quartiles(places)[1],
                compute_quartiles(values)[1],
                *compute_median_interval(values)[:2],
                sum(values == values),
            )
            row.update(zip(NUMBERS[1:], map(format_cell, numbers), strict=True))


def _compute_values(runs: Labelled, row: Row, key: str) -> FloatArray:
    """Compute a key, less that of the other label (seed); NaN where it is missing."""
    own = runs[row["label"]]
    values = np.array([read_value(run, key) for run in own.values()])
    if row["against"]:
        base = runs.get(row["against"], {})
        values -= [read_value(base.get(seed, {}), key) for seed in own]
    return values


def draw_figures(points: Points, folder: Path) -> list[tuple[Row, Path]]:
    """Draw each figure; returns its first point and its file. BadInput: no place for them."""
    drawn = []
    try:
        if points:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"{folder}: cannot be made ({error.strerror}); give --page another place"
        ) from None
    for name, rows in group_by_label((row["file"], row) for row in points).items():
        text = render_template("figure.xml", rows=rows, assign_styles=assign_styles, log10=log10)
        drawn.append((rows[0], write_page(folder / f"{name}.svg", text)))
    return drawn
