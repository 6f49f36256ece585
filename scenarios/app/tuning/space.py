"""A space of settings as Optuna's suggestions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scenarios.app.run.points import rounded
from scenarios.app.study.vary import Distribution

if TYPE_CHECKING:
    from optuna import Trial


def suggested(trial: Trial, space: Mapping[str, Distribution]) -> dict[str, Any]:
    """A value for each key."""
    return {key: _one(trial, key, of) for key, of in space.items()}


def _one(trial: Trial, key: str, of: Distribution) -> Any:
    if of.choices is not None:
        return of.choices[trial.suggest_categorical(key, list(range(len(of.choices))))]
    low, high = float(of.low or 0.0), float(of.high or 0.0)
    if of.integer:
        return trial.suggest_int(key, int(low), int(high), log=of.log)
    return rounded(trial.suggest_float(key, low, high, log=of.log), low, high)
