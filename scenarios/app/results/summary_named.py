"""The part of the summary about the places that attacks name at the end of a run, beside those named by chance.

Of a UE without a home one thing may be found, its place of most time, as a home is. Of any other four may be found
within leakage.near_m of a named place: home, work, both of them, and either one by the first place. All arrays of hits
have one column for each, in this order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fl.leakage.chance import others_peaks, uniform_shares
from fl.leakage.named import MOST_NAMED
from netsim.geometry import Area
from netsim.units import BoolArray, FloatArray
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.run import Table
from scenarios.app.results.statistics import mean_of, median_of, quantile_of, share_of
from scenarios.app.results.summary_keys import Key
from scenarios.app.results.summary_leakage import last_of

DAY_S = 86_400.0
_TOGETHER = 2_000_000  # distances held at once


@dataclass(frozen=True, eq=False)
class Truth:
    """True places (n, 2) of UEs (n,), NaN where one has none, and the distance within which a place is named."""

    ue: FloatArray
    home_m: FloatArray
    work_m: FloatArray
    near_m: float

    @classmethod
    def of(cls, ues: Table, attacked: FloatArray, near_m: float) -> Truth:
        """Of the attacked UEs that have a home or a workplace."""
        home_m, work_m = (np.column_stack([ues[f"{place}_{axis}_m"] for axis in "xy"]) for place in ("home", "work"))
        known = np.isfinite(home_m).all(axis=1) | np.isfinite(work_m).all(axis=1)
        mine = known & np.isin(ues["ue"], attacked)
        return cls(ues["ue"][mine], home_m[mine], work_m[mine], near_m)

    @classmethod
    def densest(cls, ues: Table, attacked: FloatArray, near_m: float) -> Truth:
        """Of the attacked UEs without a home: the place of most time stands for it."""
        place_m = np.column_stack([ues[f"densest_{axis}_m"] for axis in "xy"])
        mine = np.isfinite(place_m).all(axis=1) & np.isin(ues["ue"], attacked)
        return cls(ues["ue"][mine], place_m[mine], np.full((int(mine.sum()), 2), np.nan), near_m)

    def known(self) -> BoolArray:
        """Whether each UE has a home, a workplace, both, and either (n, 4)."""
        home, work = (np.isfinite(place).all(axis=1) for place in (self.home_m, self.work_m))
        return np.column_stack([home, work, home & work, home | work])

    def hits(self, named_m: FloatArray) -> BoolArray:
        """What named places (..., 2, 2), best first and NaN where there is none, find of each UE: (..., n, 4)."""
        home, work = (
            np.linalg.norm(named_m[..., None, :, :] - place[:, None], axis=-1) <= self.near_m
            for place in (self.home_m, self.work_m)
        )  # (..., n, 2)
        at_home, at_work = home.any(axis=-1), work.any(axis=-1)
        return np.stack([at_home, at_work, at_home & at_work, home[..., 0] | work[..., 0]], axis=-1)


def named_values(
    rows: Table, named: Table, truth: Truth, attacked: FloatArray, requested_s: dict[int, float]
) -> dict[Key, Any]:
    """What one attack names at the end: from its rows of `leakage` and `named`; nothing where no UE has a place.

    attacked : all UEs that it attacked, also those without a place: what was named of them is scored on the others.
    requested_s : end of the window of each round.
    """
    if not len(truth.ue):
        return {}
    known = truth.known()
    own, of_others = _scored(truth, _places(named, np.concatenate([truth.ue, np.setdiff1d(attacked, truth.ue)])))
    home, work, both, first = (share_of(own[known[:, k], k]) for k in range(4))
    since = _since(rows, "home_named_m", truth.ue[known[:, 0]], truth.near_m)
    return {
        **dict(zip((keys.HOME_NAMED_PERCENT, keys.HOME_NAMED_LOW, keys.HOME_NAMED_HIGH), home, strict=True)),
        keys.HOME_NAMED_ROUND: quantile_of(since, 0.5),
        keys.HOME_NAMED_DAY: quantile_of(_days(since, requested_s), 0.5),
        **dict(zip((keys.WORK_NAMED_PERCENT, keys.WORK_NAMED_LOW, keys.WORK_NAMED_HIGH), work, strict=True)),
        **dict(zip((keys.BOTH_NAMED_PERCENT, keys.BOTH_NAMED_LOW, keys.BOTH_NAMED_HIGH), both, strict=True)),
        keys.FIRST_NAMED_PERCENT: first[0],
        keys.HOMES_COUNT: int(known[:, 0].sum()),
        keys.WORKPLACES_COUNT: int(known[:, 1].sum()),
        keys.COMMUTERS_COUNT: int(known[:, 2].sum()),
        **_shares(keys.SHUFFLED, of_others, known),
    }


def densest_values(
    rows: Table, named: Table, truth: Truth, attacked: FloatArray, requested_s: dict[int, float]
) -> dict[Key, Any]:
    """What one attack names of UEs without a home, as `named_values`; nothing where there are none."""
    if not len(truth.ue):
        return {}
    own, of_others = _scored(truth, _places(named, np.concatenate([truth.ue, np.setdiff1d(attacked, truth.ue)])))
    share, low, high = share_of(own[:, 0])
    since, last = _since(rows, "densest_named_m", truth.ue, truth.near_m), _last(rows, truth.ue)
    return {
        keys.DENSEST_COUNT: len(truth.ue),
        keys.DENSEST_MEDIAN: quantile_of(last["densest_m"], 0.5),
        keys.GUESS_DENSEST: median_of(last["guess_densest_m"]),
        keys.DENSEST_NAMED_MEDIAN: quantile_of(last["densest_named_m"], 0.5),
        keys.DENSEST_NAMED_PERCENT: share,
        keys.DENSEST_NAMED_LOW: low,
        keys.DENSEST_NAMED_HIGH: high,
        keys.DENSEST_NAMED_ROUND: quantile_of(since, 0.5),
        keys.DENSEST_NAMED_DAY: quantile_of(_days(since, requested_s), 0.5),
        keys.DENSEST_SHUFFLED: mean_of(100.0 * of_others[:, 0]),
    }


def chance_values(
    truth: Truth,
    area: Area,
    ue: FloatArray,
    points_m: FloatArray,
    width_m: float,
    of_uniform: tuple[Key, ...] = keys.UNIFORM,
    of_others: tuple[Key, ...] = keys.OTHERS,
) -> dict[Key, Any]:
    """What places named by chance find: uniformly random ones, and the peaks of others' density.

    ue (k,), points_m (k, 2) : true positions of all UEs, and whose they are. of_uniform, of_others : what the shares
    are called; of fewer keys the first shares.
    """
    if not len(truth.ue):
        return {}
    known = truth.known()
    uniform = uniform_shares(truth.home_m, truth.work_m, truth.near_m, area, MOST_NAMED)
    others = np.full((len(truth.ue), 4), np.nan)
    if len(np.unique(ue)) > 1:
        peaks = others_peaks(ue, points_m, truth.ue, area, width_m, MOST_NAMED)
        others = np.array([truth.hits(_padded(at))[i] for i, at in enumerate(peaks)], dtype=float)
    return {**_shares(of_uniform, uniform, known), **_shares(of_others, others, known)}


def _shares(of: tuple[Key, ...], hits: FloatArray, known: BoolArray) -> dict[Key, float]:
    """Mean share in percent of the four columns of hits (n, 4), over the UEs that have what it is about."""
    return {key: mean_of(100.0 * hits[known[:, k], k]) for k, key in enumerate(of)}


def _places(named: Table, ue: FloatArray) -> FloatArray:
    """What is named of each UE (n, 2, 2), best first, NaN where there is nothing."""
    at = np.full((len(ue), MOST_NAMED, 2), np.nan)
    row = {one: i for i, one in enumerate(ue.tolist())}
    for one, rank, x, y in zip(*(named[k].tolist() for k in ("ue", "rank", "x_m", "y_m")), strict=True):
        if one in row and 1 <= rank <= MOST_NAMED:
            at[row[one], int(rank) - 1] = x, y
    return at


def _padded(places_m: FloatArray) -> FloatArray:
    """Places (<= 2, 2) with NaN for those that are missing."""
    return np.concatenate([places_m, np.full((MOST_NAMED - len(places_m), 2), np.nan)])


def _scored(truth: Truth, places_m: FloatArray) -> tuple[BoolArray, FloatArray]:
    """What the places named of each UE find of it (n, 4), and the share (n, 4) of all others' places that find it.

    places_m (m, 2, 2) : the first n are named of the UEs themselves. The share is NaN where there are no others.
    """
    n, m = len(truth.ue), len(places_m)
    own, found = np.zeros((n, 4), dtype=bool), np.zeros((n, 4))
    for block in np.array_split(np.arange(m), max(1, m * n // _TOGETHER)):
        hits = truth.hits(places_m[block])
        mine = np.flatnonzero(block < n)
        own[block[mine]] = hits[mine, block[mine]]
        hits[mine, block[mine]] = False
        found += hits.sum(axis=0)
    return own, found / (m - 1) if m > 1 else np.full((n, 4), np.nan)


def _last(rows: Table, ues: FloatArray) -> Table:
    """The last row of each of some UEs: all of a UE in a round say the same of its places."""
    mine = np.isin(rows["ue"], ues)
    return last_of({k: v[mine] for k, v in rows.items()}, np.zeros(int(mine.sum())))


def _days(rounds: FloatArray, requested_s: dict[int, float]) -> FloatArray:
    """The day (n,), from 1, in which the window of each round ends; infinite where there is no round."""
    return np.array([np.ceil(requested_s[int(one)] / DAY_S) if np.isfinite(one) else np.inf for one in rounds])


def _since(rows: Table, column: str, ues: FloatArray, near_m: float) -> FloatArray:
    """First round from which on a place stays named until the end (n,), infinite where it is not at the end.

    column : how far the nearer named place is from it.
    """
    mine = np.isin(rows["ue"], ues)
    number, of_row = rows["round"][mine], np.searchsorted(ues, rows["ue"][mine])
    hit = rows[column][mine] <= near_m
    missed, since = np.zeros(len(ues)), np.full(len(ues), np.inf)
    np.maximum.at(missed, of_row[~hit], number[~hit])
    stays = hit & (number > missed[of_row])
    np.minimum.at(since, of_row[stays], number[stays])
    return since
