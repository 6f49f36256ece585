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
from scenarios.app.results.statistics import counted, figure_text
from scenarios.app.results.summary_keys import Key
from scenarios.app.results.summary_text import COLUMNS, attacks

MOST_ROWS = 40  # of a table; of more labels the page of the sweep tells
_LABEL = 32  # columns of a label
_FAR_PERCENT = 1000.0
_NO_GUARANTEE = 1000.0  # epsilon above which its value says nothing

Summary = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A column: two lines of heading, and the value of a run with the attack of its row; None where there is none."""

    head: tuple[str, str]
    value: Callable[[Summary, str], float | None]
    chance: int | None = None


def _plain(key: Key) -> Callable[[Summary, str], float | None]:
    return lambda run, _: run.get(key.of())


def _attacked(key: Key) -> Callable[[Summary, str], float | None]:
    return lambda run, attack: run.get(key.of(attack)) if attack else None


def _below(baseline: str) -> Callable[[Summary, str], float | None]:
    """By how many percent the RMSE lies below another figure of the model."""

    def percent(run: Summary, _: str) -> float | None:
        rmse, other = run.get(keys.RMSE.of()), run.get(baseline)
        return None if rmse is None or not other else 100.0 * (1.0 - rmse / other)

    return percent


def _above_central(run: Summary, _: str) -> float | None:
    rmse, central = run.get(keys.RMSE.of()), run.get(keys.CENTRAL_RMSE.of())
    return None if rmse is None or not central else 100.0 * (rmse / central - 1.0)


def _epsilon(run: Summary, _: str) -> float | None:
    """The largest epsilon of all mechanisms, infinite where one has no finite value; None without noise."""
    spent = [value for key, value in run.items() if keys.EPSILON_MAX.name_in(key) is not None]
    return max((np.inf if value is None else float(value) for value in spent), default=None)


_COLUMNS = (
    Column(("RMSE,", "dB"), _plain(keys.RMSE)),
    Column(("below", "constant, %"), _below(keys.CONSTANT_RMSE.of())),
    Column(("above", "central, %"), _above_central),
    Column(("accuracy,", "%"), _plain(keys.ACCURACY)),
    Column(("home", "named, %"), _attacked(keys.HOME_NAMED_PERCENT), 0),
    Column(("work", "named, %"), _attacked(keys.WORK_NAMED_PERCENT), 1),
    Column(("both", "named, %"), _attacked(keys.BOTH_NAMED_PERCENT), 2),
    Column(("epsilon", ""), _epsilon),
)
_ERROR = Column(("centroid", "error, m"), _attacked(keys.ERROR_MEDIAN))  # where no UE has a home


def sweep_lines(runs: Sequence[tuple[str, Summary]]) -> list[str]:
    """The table of runs, each a label and a summary; nothing for more than 40 labels, or where there is no figure."""
    labels: dict[str, list[Summary]] = {}
    for label, summary in runs:
        labels.setdefault(label, []).append(summary)
    if len(labels) > MOST_ROWS:
        return []
    found = {label: _strongest(of) for label, of in labels.items()}
    columns = [c for c in _with_error(labels) if any(_known(of, c, found[label]) for label, of in labels.items())]
    if not columns:
        return []
    rows = [[label, *(_cell(of, c, found[label]) for c in columns)] for label, of in labels.items()]
    rows += _chances(labels, columns, found)
    heads = [["", *(c.head[0] for c in columns)], ["variant", *(c.head[1] for c in columns)]]
    if len({name for of in labels.values() for run in of for name in attacks(run)}) > 1:
        heads = [[*heads[0], "strongest"], [*heads[1], "attack"]]
        rows = [[*row, found.get(str(row[0]), "")] for row in rows]
    return [*_aligned([*heads, *rows]), *textwrap.wrap(_note(labels, columns, runs), COLUMNS - 2)]


def _with_error(labels: Mapping[str, Sequence[Summary]]) -> tuple[Column, ...]:
    """The columns; with the centroid error where no attack can name a home."""
    named = any(keys.HOME_NAMED_PERCENT.name_in(key) is not None for of in labels.values() for run in of for key in run)
    return _COLUMNS if named else (*_COLUMNS[:-1], _ERROR, _COLUMNS[-1])


def _strongest(runs: Sequence[Summary]) -> str:
    """The attack that names both places of most UEs, then home, then work; or with the smallest centroid error."""
    names = list(dict.fromkeys(name for run in runs for name in attacks(run)))

    def strength(name: str) -> tuple[float, ...]:
        shares = (keys.BOTH_NAMED_PERCENT, keys.HOME_NAMED_PERCENT, keys.WORK_NAMED_PERCENT)
        error = [v for run in runs if (v := run.get(keys.ERROR_MEDIAN.of(name))) is not None]
        return (
            *(float(np.mean([run.get(key.of(name)) or 0.0 for run in runs])) for key in shares),
            -float(np.mean(error)) if error else -np.inf,
        )

    return max(names, key=strength, default="")


def _known(runs: Sequence[Summary], column: Column, attack: str) -> list[float]:
    """The values of the runs that have one."""
    return [float(value) for run in runs if (value := column.value(run, attack)) is not None]


def _cell(runs: Sequence[Summary], column: Column, attack: str) -> str:
    """Mean over seeds, with their range."""
    values = _known(runs, column, attack)
    if not values:
        return "-"
    mean = float(np.mean(values))
    if column.head[0] == "epsilon" and mean > _NO_GUARANTEE:
        return "infinite" if np.isinf(mean) else f"> {_NO_GUARANTEE:.0f}"
    percent = column.head[1].endswith("%")
    text, low, high = (_percent(v) if percent else figure_text(v) for v in (mean, min(values), max(values)))
    return text if low == high else f"{text} ({low} to {high})"


def _percent(value: float) -> str:
    """Whole percent; of a model that has diverged only that it is far off."""
    if abs(value) > _FAR_PERCENT:
        return f"{'>' if value > 0 else '<'} {np.sign(value) * _FAR_PERCENT:.0f}"
    return f"{value:.0f}"


def _chances(
    labels: Mapping[str, Sequence[Summary]], columns: Sequence[Column], found: Mapping[str, str]
) -> list[list[str]]:
    """A row for each kind of chance: means over all runs; places of another UE are those of the strongest attack."""
    pairs = [(run, found[label]) for label, of in labels.items() for run in of]
    rows = []
    for name, key in (
        ("chance: two random places", keys.UNIFORM),
        ("chance: others' density", keys.OTHERS),
        ("chance: another UE's places", keys.SHUFFLED),
    ):
        cells = [_chance(pairs, None if c.chance is None else key[c.chance]) for c in columns]
        rows += [[name, *cells]] if any(cells) else []
    return rows


def _chance(pairs: Sequence[tuple[Summary, str]], key: Key | None) -> str:
    """Mean of a key over runs and their attacks; empty where there is none."""
    if key is None:
        return ""
    known = [run.get(key.of(attack if key.named else "")) for run, attack in pairs if attack]
    values = [float(v) for v in known if v is not None]
    return figure_text(round(float(np.mean(values)), 1)) if values else ""


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with a label on the left and numbers on the right of their columns."""
    cut = [[row[0] if len(row[0]) <= _LABEL else f"{row[0][: _LABEL - 3]}...", *row[1:]] for row in rows]
    width = [max(len(row[k]) for row in cut) for k in range(len(cut[0]))]
    return [
        "  ".join([f"{row[0]:<{width[0]}}", *(f"{c:>{w}}" for c, w in zip(row[1:], width[1:], strict=True))]).rstrip()
        for row in cut
    ]


def _note(
    labels: Mapping[str, Sequence[Summary]], columns: Sequence[Column], runs: Sequence[tuple[str, Summary]]
) -> str:
    """How to read it."""
    seeds = sorted({len(of) for of in labels.values()})
    text = counted(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    notes = [f"{text} a variant" + ("; mean and range over seeds" if seeds[-1] > 1 else "")]
    near = {run.get(keys.NEAR.of()) for _, run in runs}
    if any(c.chance is not None for c in columns) and len(near) == 1:
        notes.append(f"named: one of the two places that the attack names at the end lies within {near.pop():g} m")
    return f"({'; '.join(notes)})"
