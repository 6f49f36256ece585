"""Random points of a sweep: the model's figure against each drawn key, a mark a run."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from netsim.errors import BadInput
from netsim.record import unguarded
from netsim.safe import what_is
from scenarios.app.report.figures.scatter import of_settings
from scenarios.app.report.plot import PALETTE, Look, Panel
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.folder import read_json, text_of
from scenarios.app.results.read import RUNS, SWEEP
from scenarios.app.study.yaml_document import one_line

_FIGURES = (keys.RMSE, keys.ACCURACY, keys.RANK_CORRELATION)


def draws_panels(folder: Path) -> list[Panel]:
    """A figure for what models of the sweep have; none where nothing was drawn at random."""
    said = read_json(folder / SWEEP).get("drawn") if what_is(folder / SWEEP) and what_is(folder / RUNS) else None
    if not isinstance(said, list) or not said:
        return []
    try:
        with text_of(folder / RUNS) as file:
            rows = list(csv.DictReader(file))
        return [panel for key in _FIGURES for panel in _panel(rows, key.of(), [str(name) for name in said])]
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise BadInput(one_line(f"{folder / RUNS}: damaged ({error!r}); start the sweep again")) from None


def _panel(rows: Sequence[Mapping[str, Any]], key: str, drawn: Sequence[str]) -> list[Panel]:
    runs = [
        {"name": f"{unguarded(row['label'])}, seed {row['seed']}", "values": {key: float(row[key])},
         "settings": {name: _number(unguarded(row[name])) for name in drawn}}
        for row in rows if row.get(key)
    ]  # fmt: skip
    caption = "One mark a run: the figure of its model against each key that was drawn at random."
    return [of_settings(key, f"{key} by drawn value", caption, [(Look("runs", PALETTE[0]), runs)])] if runs else []


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
