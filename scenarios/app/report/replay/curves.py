"""What is known after each round, in one figure each: the curve below the map, and the line of text beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netsim.units import FloatArray
from scenarios.app.report.replay.rounds import Rounds
from scenarios.app.report.series import TimeGrid, learner_metric, model_error_db, named_over_time
from scenarios.app.results.run import Run
from scenarios.app.results.statistics import quantile
from scenarios.app.results.summary_keys import ACCURACY
from scenarios.app.results.tracking import FILTER, SMOOTHER, tracked

Curve = dict[str, Any]
"""`key`, `label`, `unit`, index of the `attack` (None: of none), `of` how many UEs it is a count; for counts of a
kind of place also its `place`"""


def curves(run: Run, rounds: Rounds, attacks: Sequence[str]) -> tuple[list[Curve], FloatArray]:
    """Curves and their values after each round (n_curve, n_round), NaN where there is none; the most telling first."""
    of_attacks = [part for draw in (_named, _errors, _tracked) for part in draw(run, rounds, attacks)]
    found = [*of_attacks, *_model(run, rounds), *_rest(run, rounds)]
    found = [(curve, values) for curve, values in found if np.isfinite(values).any()]
    return [curve for curve, _ in found], np.array([v for _, v in found]).reshape(len(found), len(rounds.number))


def _curve(key: str, label: str, unit: str, **more: Any) -> Curve:
    return {"key": key, "label": label, "unit": unit, "attack": None, "of": None, **more}


def _laid(rounds: Rounds, number: FloatArray, values: FloatArray, last: bool = False) -> FloatArray:
    """Values of some rounds at all of them; last: a value lasts until the next one."""
    if not len(number):
        return np.full(len(rounds.number), np.nan)
    at = np.searchsorted(number, rounds.number, side="right") - 1
    known = (at >= 0) & (last | (number[at] == rounds.number))
    return np.where(known, values[at], np.nan)


def _named(run: Run, rounds: Rounds, attacks: Sequence[str]) -> list[tuple[Curve, FloatArray]]:
    """Of how many UEs home, and the workplace, is named."""
    found = []
    for place, word in (("home", "homes named"), ("work", "workplaces named")):
        for k, name in enumerate(attacks):
            number, hit = named_over_time(run, name, place)
            if hit.size:
                values = _laid(rounds, number, hit.sum(axis=1).astype(float), last=True)
                found.append((_curve(place, word, "", attack=k, of=hit.shape[1]), values))
    return found


def _errors(run: Run, rounds: Rounds, attacks: Sequence[str]) -> list[tuple[Curve, FloatArray]]:
    """Median error of the centroid, of all estimates of a round."""
    found = []
    for k, name in enumerate(attacks):
        rows = run.rows("leakage", "attack", name)
        if len(rows["ue"]):
            grid = TimeGrid.of(rows)
            values = _laid(rounds, grid.round, quantile(grid.error_m(), 0.5))
            found.append((_curve("error", "median centroid error", "m", attack=k), values))
    return found


def _tracked(run: Run, rounds: Rounds, attacks: Sequence[str]) -> list[tuple[Curve, FloatArray]]:
    """Share of the UEs of a round that a tracker knows within leakage.near_m, then and in hindsight."""
    found = []
    for kind in (FILTER, SMOOTHER):
        for k, name in enumerate(attacks):
            rows = tracked(run, name)[kind]
            if len(rows["ue"]):
                number, at = np.unique(rows["round"], return_inverse=True)
                share = 100.0 * np.bincount(at, rows["near"] == 1) / np.bincount(at)
                label = f"UEs known within {run.near_m:g} m ({kind})"
                found.append((_curve(kind, label, "%", attack=k), _laid(rounds, number, share)))
    return found


def _model(run: Run, rounds: Rounds) -> list[tuple[Curve, FloatArray]]:
    """Error of the signal map, or the accuracy of a classifier."""
    rows = run.rows("rounds")
    found = [
        (_curve("map", "map error (RMSE)", "dB"), _laid(rounds, rows["round"], model_error_db(run, "rmse_db"))),
        (
            _curve("constant", "error of a constant map (RMSE)", "dB"),
            _laid(rounds, rows["round"], model_error_db(run, "constant_rmse_db")),
        ),
    ]
    right = learner_metric(run, ACCURACY)
    return [*found, (_curve("accuracy", "accuracy", "%"), _laid(rounds, right["round"], right["value"]))]


def _rest(run: Run, rounds: Rounds) -> list[tuple[Curve, FloatArray]]:
    """Privacy spent, and the share of updates that were decoded."""
    rows = run.rows("rounds")
    at = rounds.of_rows(run.tables["updates"])
    sent = np.bincount(at[at >= 0], minlength=len(rounds.number))
    decoded = np.bincount(at[(at >= 0) & (run.tables["updates"]["decoded"] == 1)], minlength=len(rounds.number))
    share = np.divide(100.0 * decoded, sent, out=np.full(len(sent), np.nan), where=sent > 0)
    spent = _laid(rounds, rows["round"], rows["epsilon_max"], last=True)
    return [
        (_curve("epsilon", "epsilon spent (most of any UE)", ""), spent),
        (_curve("decoded", "updates decoded", "%"), share),
        (_curve("updates", "updates sent", ""), sent.astype(float)),
    ]
