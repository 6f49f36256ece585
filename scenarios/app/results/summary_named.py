"""The part of the summary about the places that attacks name at the end of a run, beside those named by chance.

Of a UE without a home one thing may be found, its place of most time, as a home is. Of any other four may be found
within leakage.near_m of a named place: home, work, both of them, and either one by the first place. All arrays of hits
have one column for each, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fl.leakage.chance import others_peaks, uniform_shares
from fl.leakage.named import MOST_NAMED
from netsim.geometry import Area
from netsim.units import BoolArray, FloatArray
from scenarios.app.results.run import Table, where
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


PLACES = ("home", "work", "both", "first")


def named_rows(
    rows: Table, named: Table, truth: Truth, attacked: FloatArray, requested_s: dict[int, float]
) -> dict[str, Table]:
    """What one attack names at the end, by PLACES: its rows of `leakage` and `named`; nothing where no UE has a place.

    attacked : all UEs that it attacked, also those without a place: what was named of them is scored on the others.
    requested_s : end of the window of each round.
    """
    if not len(truth.ue):
        return {}
    of = _rows(truth, ("hit", "shuffled"), _scored(truth, named, attacked))
    of["home"] |= _since(rows, "home_named_m", truth.ue[truth.known()[:, 0]], truth.near_m, requested_s)
    return of


def densest_rows(
    rows: Table, named: Table, truth: Truth, attacked: FloatArray, requested_s: dict[int, float]
) -> dict[str, Table]:
    """What one attack names of UEs without a home, as `named_rows`."""
    if not len(truth.ue):
        return {}
    own, of_others = _scored(truth, named, attacked)
    since = _since(rows, "densest_named_m", truth.ue, truth.near_m, requested_s)
    return {"densest": _last(rows, truth.ue) | {"hit": own[:, 0], "shuffled": of_others[:, 0]} | since}


def chance_rows(truth: Truth, area: Area, ue: FloatArray, points_m: FloatArray, width_m: float) -> dict[str, Table]:
    """What places named by chance find: uniformly random ones, and the peaks of others' density.

    ue (k,), points_m (k, 2) : true positions of all UEs, and whose they are.
    """
    if not len(truth.ue):
        return {}
    uniform = uniform_shares(truth.home_m, truth.work_m, truth.near_m, area, MOST_NAMED)
    others = np.full((len(truth.ue), 4), np.nan)
    if len(np.unique(ue)) > 1:
        peaks = others_peaks(ue, points_m, truth.ue, area, width_m, MOST_NAMED)
        others = np.array([truth.hits(_padded(at))[i] for i, at in enumerate(peaks)], dtype=float)
    return {f"{place} by chance": of for place, of in _rows(truth, ("uniform", "others"), (uniform, others)).items()}


def _rows(truth: Truth, columns: Sequence[str], hits: Sequence[np.ndarray]) -> dict[str, Table]:
    """Columns of hits (n, 4), by PLACES: of the UEs that have what it is about."""
    known = truth.known().T
    return {
        place: {column: hit[known[k], k] for column, hit in zip(columns, hits, strict=True)}
        for k, place in enumerate(PLACES)
    }


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


def _scored(truth: Truth, named: Table, attacked: FloatArray) -> tuple[BoolArray, FloatArray]:
    """What the places named of each UE find of it (n, 4), and the share (n, 4) of all others' places that find it.

    The share is NaN where no other UE was attacked.
    """
    places_m = _places(named, np.concatenate([truth.ue, np.setdiff1d(attacked, truth.ue)]))
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
    return last_of(where(rows, mine), np.zeros(int(mine.sum())))


def _since(
    rows: Table, column: str, ues: FloatArray, near_m: float, requested_s: dict[int, float]
) -> dict[str, FloatArray]:
    """First round from which on a place stays named until the end (n,), and the day, from 1, in which its window ends.

    Infinite where it is not named at the end. column : how far the nearer named place is from it.
    """
    mine = np.isin(rows["ue"], ues)
    number, of_row = rows["round"][mine], np.searchsorted(ues, rows["ue"][mine])
    hit = rows[column][mine] <= near_m
    missed, since = np.zeros(len(ues)), np.full(len(ues), np.inf)
    np.maximum.at(missed, of_row[~hit], number[~hit])
    stays = hit & (number > missed[of_row])
    np.minimum.at(since, of_row[stays], number[stays])
    day = [np.ceil(requested_s[int(one)] / DAY_S) if np.isfinite(one) else np.inf for one in since]
    return {"since": since, "day": np.array(day)}
