"""The part of the summary about how often an attack names a place at all, and whether its probabilities are right."""

from __future__ import annotations

from typing import Any

import numpy as np

from fl.leakage.chance import uniform_shares
from fl.leakage.named import MOST_NAMED
from fl.leakage.reliability import DRAWS, Reliability, reliability
from fl.types import rank_of_place
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.units import BoolArray, FloatArray
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.run import Table
from scenarios.app.results.statistics import mean_of
from scenarios.app.results.summary_keys import Key
from scenarios.app.results.summary_named import Truth


def stated_values(named: Table, truth: Truth, area: Area) -> dict[Key, Any]:
    """What one attack says at the end, from its rows of `named`; nothing where no UE has a place."""
    if not len(truth.ue):
        return {}
    known, spoken = truth.known(), _spoken(named, truth)
    as_often = np.zeros((len(truth.ue), 4))
    for count in range(1, MOST_NAMED + 1):
        mine = _number(named, truth) == count
        as_often[mine] = uniform_shares(truth.home_m[mine], truth.work_m[mine], truth.near_m, area, count)
    found, probability, right = _judged(named, truth)
    return {
        keys.HOME_SPOKEN: mean_of(100.0 * spoken[known[:, 0], 0]),
        keys.WORK_SPOKEN: mean_of(100.0 * spoken[known[:, 1], 1]),
        keys.HOME_AS_OFTEN: mean_of(100.0 * as_often[known[:, 0], 0]),
        keys.WORK_AS_OFTEN: mean_of(100.0 * as_often[known[:, 1], 1]),
        keys.STATED_COUNT: int(found.count.sum()),
        keys.STATED_MEAN: mean_of(probability),
        keys.STATED_RIGHT: mean_of(100.0 * right),
        keys.RELIABILITY_ERROR: found.error,
        keys.RELIABILITY_LOW: found.error_low,
        keys.RELIABILITY_HIGH: found.error_high,
        keys.RELIABILITY_CHANCE: found.by_chance_error,
        keys.BRIER: found.brier,
    }


def stated_reliability(named: Table, truth: Truth) -> Reliability:
    """Of the places that an attack says are home or work, from its rows of `named`."""
    return _judged(named, truth)[0]


def _judged(named: Table, truth: Truth) -> tuple[Reliability, FloatArray, FloatArray]:
    """Reliability, and probability and hit (n,) of what is said to be home or work of UEs that have any of both.

    A home or workplace of somebody who has none is wrong.
    """
    at = np.stack([truth.home_m, truth.work_m])
    rank = np.array([rank_of_place(str(place)) for place in named["place"]], dtype=np.int64)
    mine = np.isin(named["ue"], truth.ue) & (rank >= 1) & (rank <= MOST_NAMED) & np.isfinite(named["probability"])
    row, said_m = np.searchsorted(truth.ue, named["ue"][mine]), np.column_stack([named["x_m"], named["y_m"]])[mine]
    right = np.linalg.norm(at[rank[mine] - 1, row] - said_m, axis=1) <= truth.near_m  # not where there is none: NaN
    ue, probability = named["ue"][mine].astype(np.int64), np.clip(named["probability"][mine], 0.0, 1.0)
    draws = Streams(0).at("reliability").uniform("ue", np.arange(DRAWS), (len(np.unique(ue)),))
    return reliability(ue, probability, right, draws), probability, right.astype(np.float64)


def _spoken(named: Table, truth: Truth) -> BoolArray:
    """Of which UEs home and work are named (n, 2): any place, where the attack does not say which is which."""
    rank = np.array([rank_of_place(str(place)) for place in named["place"]], dtype=np.int64)
    return np.column_stack(
        [np.isin(truth.ue, named["ue"][(rank == which) | (named["place"] == "")]) for which in (1, 2)]
    )


def _number(named: Table, truth: Truth) -> FloatArray:
    """Number of places (n,) in which home and work of each UE are looked for."""
    mine = np.isin(named["ue"], truth.ue) & (named["rank"] >= 1) & (named["rank"] <= MOST_NAMED)
    return np.bincount(np.searchsorted(truth.ue, named["ue"][mine]), minlength=len(truth.ue)).astype(np.float64)
