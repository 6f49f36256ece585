"""The result of a sweep as a table for the terminal: a row for each label, means over its seeds.

Columns that no run has a value for are left out. Of several attacks a row has the one that finds most there.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import attacks
from scenarios.app.results.columns import COLUMNS
from scenarios.app.results.model_text import central_failed, good_map
from scenarios.app.results.standing import FAR_DB, SEEDS, largest_epsilon, seeds_text, strongest
from scenarios.app.results.statistics import counted, figure_text
from scenarios.app.results.summary_keys import Measure
from scenarios.app.results.tracking_text import best_tracker

MOST_ROWS = 40  # of a table; of more labels the page of the sweep tells
_LABEL = 32  # columns of a label
_FAR_PERCENT = 1000.0
_NO_GUARANTEE = 1000.0  # epsilon above which its value says nothing

Summary = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A column: two lines of heading, and the value of a run with the attack of its row; None where there is none.

    chance : place among the shares of chance. most : a larger figure says no more than that it is larger.
    """

    head: tuple[str, str]
    value: Callable[[Summary, str], float | None]
    chance: int | None = None
    most: float = np.inf


def _plain(key: Measure) -> Callable[[Summary, str], float | None]:
    return lambda run, _: run.get(key.of())


def _attacked(key: Measure) -> Callable[[Summary, str], float | None]:
    return lambda run, attack: run.get(key.of(attack)) if attack else None


def _tracked(who: str, what: str) -> Callable[[Summary, str], float | None]:
    """Of the tracker that knows most."""
    return lambda run, _: run.get(keys.TRACKING[who, what].of(name)) if (name := best_tracker(run)) else None


def _below(baseline: str) -> Callable[[Summary, str], float | None]:
    """By how many percent the RMSE lies below another figure of the model."""

    def percent(run: Summary, _: str) -> float | None:
        rmse, other = run.get(keys.RMSE.of()), run.get(baseline)
        return None if rmse is None or not other else 100.0 * (1.0 - rmse / other)

    return percent


def _above_central(run: Summary, _: str) -> float | None:
    """Nothing where central training failed."""
    rmse, central, constant = (run.get(k.of()) for k in (keys.RMSE, keys.CENTRAL_RMSE, keys.CONSTANT_RMSE))
    failed = constant is not None and central_failed(central, constant)
    return None if rmse is None or not central or failed else 100.0 * (rmse / central - 1.0)


_EPSILON = Column(("epsilon", ""), lambda run, _: largest_epsilon(run), most=_NO_GUARANTEE)
_REFERENCES = {"map: law of three numbers": keys.PATH_LOSS_RMSE, "map: kriging": keys.KRIGING_RMSE}
_PLACE = Column(("by place,", "dB"), _plain(keys.BY_PLACE[keys.RMSE]), most=FAR_DB)
_COLUMNS = (
    Column(("RMSE,", "dB"), _plain(keys.RMSE), most=FAR_DB),
    _PLACE,
    Column(("below", "constant, %"), _below(keys.CONSTANT_RMSE.of())),
    Column(("above", "central, %"), _above_central),
    Column(("accuracy,", "%"), _plain(keys.ACCURACY)),
    Column(("home", "named, %"), _attacked(keys.HOME_NAMED_PERCENT), 0),
    Column(("work", "named, %"), _attacked(keys.WORK_NAMED_PERCENT), 1),
    Column(("both", "named, %"), _attacked(keys.BOTH_NAMED_PERCENT), 2),
    Column(("one round", "error, m"), _tracked("plain", "error_m")),
    Column(("one round", "known, h"), _tracked("plain", "known_h")),
    Column(("filter", "error, m"), _tracked("filter", "error_m")),
    Column(("filter", "known, h"), _tracked("filter", "known_h")),
    Column(("smoother", "error, m"), _tracked("smoother", "error_m")),
    Column(("smoother", "known, h"), _tracked("smoother", "known_h")),
    _EPSILON,
    Column(("upload", "time, s"), _plain(keys.UPLOADS_TIME["whole"][0])),
    Column(("median", "SINR, dB"), lambda run, _: run.get("radio.sinr_db.median")),
    Column(("median", "RSRP, dBm"), lambda run, _: run.get("radio.rsrp_dbm.median")),
    Column(("handovers", "per UE, hour"), _plain(keys.HANDOVER_RATE)),
)
_ERROR = Column(("centroid", "error, m"), _attacked(keys.ERROR_MEDIAN))  # where no UE has a home


@dataclass(frozen=True)
class Cell:
    """A figure of a label over its seeds: its mean as text and as a number, NaN where none is known.

    span : its range, and over how many seeds it is, where others have no such figure.
    """

    mean: str
    value: float
    span: str = ""

    @property
    def text(self) -> str:
        """Mean, range, and over how many seeds."""
        return f"{self.mean} ({self.span})" if self.span else self.mean


@dataclass(frozen=True)
class Table:
    """The figures of all labels; `chances`: rows of the same columns; `attacks`: the strongest of each label."""

    columns: Sequence[Column]
    rows: Mapping[str, Sequence[Cell]]
    chances: Sequence[tuple[str, Sequence[Cell]]]
    attacks: Mapping[str, str]
    note: str


def sweep_table(runs: Sequence[tuple[str, Summary]]) -> Table:
    """The table of runs, each a label and a summary."""
    labels: dict[str, list[Summary]] = {}
    for label, summary in runs:
        labels.setdefault(label, []).append(summary)
    found = {label: strongest(of) for label, of in labels.items()}
    columns = [c for c in _with_error(labels) if any(_known(of, c, found[label]) for label, of in labels.items())]
    rows = {label: [_cell(of, c, found[label]) for c in columns] for label, of in labels.items()}
    return Table(columns, rows, _chances(labels, columns, found), found, _note(labels, columns, runs, rows))


def sweep_lines(runs: Sequence[tuple[str, Summary]]) -> list[str]:
    """The same for the terminal; nothing for more than 40 labels, or where there is no figure."""
    table = sweep_table(runs)
    if len(table.rows) > MOST_ROWS or not table.columns:
        return []
    rows = [[label, *(cell.text for cell in cells)] for label, cells in [*table.rows.items(), *table.chances]]
    heads = [["", *(c.head[0] for c in table.columns)], ["variant", *(c.head[1] for c in table.columns)]]
    if len({name for _, run in runs for name in attacks(run)}) > 1:
        heads = [[*heads[0], "strongest"], [*heads[1], "attack"]]
        rows = [[*row, table.attacks.get(row[0], "")] for row in rows]
    return [*_aligned([*heads, *rows]), *textwrap.wrap(table.note, COLUMNS - 2)]


def _with_error(labels: Mapping[str, Sequence[Summary]]) -> tuple[Column, ...]:
    """The columns; with the centroid error where no attack can name a home."""
    named = any(keys.HOME_NAMED_PERCENT.name_in(key) is not None for of in labels.values() for run in of for key in run)
    at = len(_COLUMNS) if named else _COLUMNS.index(_EPSILON)
    return (*_COLUMNS[:at], *([] if named else [_ERROR]), *_COLUMNS[at:])


def _known(runs: Sequence[Summary], column: Column, attack: str) -> list[float]:
    """The values of the runs that have one."""
    return [float(value) for run in runs if (value := column.value(run, attack)) is not None]


def _cell(runs: Sequence[Summary], column: Column, attack: str) -> Cell:
    """Mean over the seeds that have the figure, with their range, and how many they are of all."""
    values, of = _known(runs, column, attack), seeds_text(runs, lambda run: column.value(run, attack))
    if not values:
        return Cell("-", np.nan)
    mean = float(np.mean(values))
    if mean > column.most:
        return Cell("infinite" if np.isinf(mean) else f"> {column.most:.0f}", mean, of)
    percent = column.head[1].endswith("%")
    unit = column.head[1].rpartition(" ")[2]
    text, low, high = (_percent(v) if percent else figure_text(v, unit) for v in (mean, min(values), max(values)))
    return Cell(text, mean, "; ".join(part for part in ("" if low == high else f"{low} to {high}", of) if part))


def _percent(value: float) -> str:
    """Whole percent; of a model that has diverged only that it is far off."""
    if abs(value) > _FAR_PERCENT:
        return f"{'>' if value > 0 else '<'} {np.sign(value) * _FAR_PERCENT:.0f}"
    return f"{value:.0f}"


def _chances(
    labels: Mapping[str, Sequence[Summary]], columns: Sequence[Column], found: Mapping[str, str]
) -> list[tuple[str, list[Cell]]]:
    """A row for each kind of chance: means over all runs; places of another UE are those of the strongest attack."""
    pairs = [(run, found[label]) for label, of in labels.items() for run in of]
    rows = []
    for name, key in (
        ("chance: two random places", keys.UNIFORM),
        ("chance: others' density", keys.OTHERS),
        ("chance: another UE's places", keys.SHUFFLED),
    ):
        cells = [_chance(pairs, None if c.chance is None else key[c.chance]) for c in columns]
        rows += [(name, cells)] if any(cell.text for cell in cells) else []
    for name, law in _REFERENCES.items() if _PLACE in columns else ():
        by_column = {"RMSE,": law, "by place,": keys.BY_PLACE[law]}
        rows.append((name, [_chance(pairs, by_column.get(c.head[0])) for c in columns]))
    return rows


def _chance(pairs: Sequence[tuple[Summary, str]], key: Measure | None) -> Cell:
    """Mean of a key over runs, of their attacks where it names one; empty where there is none."""
    some = [] if key is None else [(run, attack) for run, attack in pairs if attack or not key.named]
    known = [run.get(key.of(attack if key.named else "")) for run, attack in some] if key else []
    values = [float(v) for v in known if v is not None]
    mean = float(np.mean(values)) if values else np.nan
    return Cell(figure_text(round(mean, 1)) if values else "", mean)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with a label on the left and numbers on the right of their columns."""
    cut = [[row[0] if len(row[0]) <= _LABEL else f"{row[0][: _LABEL - 3]}...", *row[1:]] for row in rows]
    width = [max(len(row[k]) for row in cut) for k in range(len(cut[0]))]
    return [
        "  ".join([f"{row[0]:<{width[0]}}", *(f"{c:>{w}}" for c, w in zip(row[1:], width[1:], strict=True))]).rstrip()
        for row in cut
    ]


def _note(
    labels: Mapping[str, Sequence[Summary]],
    columns: Sequence[Column],
    runs: Sequence[tuple[str, Summary]],
    rows: Mapping[str, Sequence[Cell]],
) -> str:
    """How to read it."""
    seeds = sorted({len(of) for of in labels.values()})
    text = counted(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    notes = [f"{text} a variant" + ("; mean and range over seeds" if seeds[-1] > 1 else "")]
    if any(cell.span.endswith(SEEDS) for cells in rows.values() for cell in cells):
        notes.append(f"n of m{SEEDS}: the others have no such figure, as where nothing was held out")
    if _PLACE in columns:
        good = [f"“{label}”" for label, of in labels.items() if good_map(of)]
        told = ", ".join(good) if good else "none"
        notes.append(f"good maps, better than the law and by place no worse: {told}")
    near = {run.get(keys.NEAR.of()) for _, run in runs}
    if any(c.chance is not None for c in columns) and len(near) == 1:
        notes.append(
            f"named: one of the two places that the attack names at the end lies within {next(iter(near)):g} m"
        )
    if any(c.head[0] == "filter" for c in columns) and len(near) == 1:
        notes.append(
            f"tracking: median error of rounds, and hours in which a UE is known within {next(iter(near)):g} m"
        )
    return f"({'; '.join(notes)})"
