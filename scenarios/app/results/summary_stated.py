"""The part of the summary about how often an attack names a place at all, and whether its probabilities are right."""

from __future__ import annotations

import numpy as np

from fl.leakage.chance import uniform_shares
from fl.leakage.named import MOST_NAMED
from fl.leakage.reliability import DRAWS, Reliability, reliability
from fl.types import rank_of_place
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.units import BoolArray, FloatArray
from scenarios.app.results.run import Table
from scenarios.app.results.summary_named import PLACES, Truth


def stated_rows(named: Table, truth: Truth, area: Area) -> dict[str, Table]:
    """What one attack says at the end, from its rows of `named`; nothing where no UE has a place."""
    if not len(truth.ue):
        return {}
    known, spoken = truth.known(), _spoken(named, truth)
    as_often = np.zeros((len(truth.ue), 4))
    for count in range(1, MOST_NAMED + 1):
        mine = _number(named, truth) == count
        as_often[mine] = uniform_shares(truth.home_m[mine], truth.work_m[mine], truth.near_m, area, count)
    found, probability, right = _judged(named, truth)
    of = {
        f"{place} said": {"spoken": spoken[known[:, k], k], "as_often": as_often[known[:, k], k]}
        for k, place in enumerate(PLACES[:2])
    }
    whole = {name: np.array([value]) for name, value in vars(found).items() if np.isscalar(value)}
    return of | {"stated": {"probability": probability, "right": right}, "reliability": whole}


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
