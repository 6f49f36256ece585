"""What attacks reach, from their rows in the records: errors, named places, what they state,
claims, and tracking.

Of a UE without a home one thing may be found, its place of most time, as a home is. Of any other
three may be found within leakage.hit_radius_m of a named place: home, work, and both of them. All
arrays of hits have one column for each, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isnan

import numpy as np

from fl.leakage.chance import others_peaks, uniform_shares
from fl.leakage.reliability import Reliability, moved_auc, near_auc, reliability
from fl.leakage.tracks import MOST_NAMED
from fl.learners.density import Density
from fl.types import rank_of_place
from netsim.clock import DAY_S
from netsim.columns import row_id
from netsim.geometry import Area
from netsim.units import BoolArray, FloatArray
from scenarios.app.results.folder import Tables
from scenarios.app.results.read import Table, one, where
from scenarios.app.results.statistics import half_width, mean_of, row_numbers
from scenarios.app.study import Record

PLACES = ("home", "work", "both")
_FEW_UES = 5


def named_share(summary: Record, name: str) -> float | None:
    """Mean of the shares in percent of homes, of workplaces, and of UEs without a home of their
    places of most time that an attack names at the end; None where there is no place to name.
    """
    shares = [
        summary.get(f"attack.{name}.{place}_located.percent")
        for place in ("home", "work", "densest")
    ]
    known = [share for share in shares if share is not None and not isnan(share)]
    if known:
        return sum(known) / len(known)
    return None


def last_of(table: Table) -> Table:
    """The last row of each track (UE, model)."""
    _, reverse = np.unique(row_id(table["ue"], table["model"])[::-1], return_index=True)
    return where(table, np.sort(len(table["ue"]) - 1 - reverse))


def anywhere_m(updates: Table, leakage: Table, learner: object, area: Area) -> float:
    """Mean distance from true centroids (2,000 of them, evenly taken) to places spread evenly over
    the area.

    Of an attacked density: from those that were estimated, to the points of its grid that lie in
    the area: its places are what a constant answer names.
    """
    x, y = area.sample((np.arange(40) + 0.5)[:, None] / 40).T
    if isinstance(learner, Density) and len(leakage["ue"]):
        grid = Area(*learner.area_m) if learner.area_m else area
        x, y = (
            np.linspace(low, high, n)
            if n
            else (low + high)[None] / 2  # a line runs through the centre
            for low, high, n in zip(grid.low_m, grid.high_m, (*learner.grid, 0), strict=False)
        )
        x = x[(x >= area.x_min_m) & (x <= area.x_max_m)]
        y = y[(y >= area.y_min_m) & (y <= area.y_max_m)]
        x, y = (v[_evenly(len(v), 100)] for v in (x, y))
        heard = row_numbers(where(leakage, leakage["heard"] == 1))
        updates = where(updates, np.isin(row_numbers(updates), heard))
    known = np.column_stack([updates["x_m"], updates["y_m"]])[np.isfinite(updates["x_m"])]
    known = known[_evenly(len(known), 2000 if len(x) * len(y) else 0)]
    return mean_of(np.array([np.hypot(x_m - x[:, None], y_m - y).mean() for x_m, y_m in known]))


def _evenly(n: int, most: int) -> np.ndarray:
    """At most so many of n indices, evenly taken."""
    return np.linspace(0, n - 1, min(n, most)).astype(int)


def guess_rows(leakage: Table, labels: Sequence[str]) -> Table:
    """What random guesses and the true centroids reach, after the last round of the first attack
    with estimates.
    """
    guessed = set(leakage["attack"][np.isfinite(leakage["guess_sw1_m"])])
    label = next((label for label in labels if label in guessed), labels[0])
    rows = last_of(where(leakage, leakage["attack"] == label))
    return rows | {"guess_sqrt_sw1": np.sqrt(rows["guess_sw1_m"])}


def attack_rows(rows: Table, centre_m: dict[int, float]) -> Tables:
    """What measures of one attack are taken from, by name, of its rows of `leakage`.

    centre_m : number of an update -> distance of its true centroid from the map's centre.
    """
    heard = where(rows, rows["heard"] == 1)
    for error in ("error_m", "selected_error_m"):
        heard[error] = np.where(heard["diverged"] == 1, np.inf, heard[error])
    # an estimate that diverged counts as the map's centre
    nearer = heard["error_m"] - np.array([centre_m[row] for row in row_numbers(heard).tolist()])
    less = _paired(heard, np.where(np.isinf(heard["error_m"]), 0.0, nearer))
    steps = last_of(where(heard, np.isfinite(heard["step_error_m"])))
    of = {"compared": rows, "heard": heard, "last": last_of(rows), "less centre": less}
    of |= {"places": heard} if (heard["places"] > 0).any() else {}
    return of | ({"walks": steps} if len(steps["ue"]) else {})


def _paired(rows: Table, less: FloatArray) -> Table:
    """Mean over UEs of differences (n,), NaN for none, with its 95 % interval; of fewer than five
    UEs over days.
    """
    known = np.isfinite(less)
    unit = rows["ue"][known].astype(int)
    if len(np.unique(unit)) < _FEW_UES:
        unit = unit * 2**31 + (rows["time_s"][known] // DAY_S).astype(int)
    _, of = np.unique(unit, return_inverse=True)
    each = np.bincount(of, weights=less[known]) / np.bincount(of)
    mean = mean_of(each)
    half = half_width(each)
    return one(mean=mean, low=mean - half, high=mean + half)


def ever_named(rows: Table, homes: np.ndarray, hit_radius_m: float) -> Table:
    """Whether an attack ever named a place near the home of each attacked UE that has one."""
    rows = where(rows, np.isin(rows["ue"], homes))
    _, ue = np.unique(rows["ue"], return_inverse=True)
    return {"named": np.bincount(ue, weights=rows["home_named_m"] <= hit_radius_m) > 0}


def effort_rows(estimates: Table) -> Table:
    """Estimates of a centroid or answer, and whether each failed."""
    rows = where(estimates, np.isin(estimates["quantity"], ("centroid", "answer")))
    return rows | {"failed": rows["status"] != "ok"}


@dataclass(frozen=True, eq=False)
class Truth:
    """True homes and workplaces (n, 2, 2) of UEs (n,), NaN where one has none; within hit_radius_m
    they are found.
    """

    ue: FloatArray
    place_m: FloatArray
    hit_radius_m: float

    @classmethod
    def of(
        cls,
        ues: Table,
        attacked: FloatArray,
        hit_radius_m: float,
        places: Sequence[str] = ("home", "work"),
    ) -> Truth:
        """Of the attacked UEs that have one of these places; of a single one it stands for the
        home.
        """
        place_m = np.full((len(ues["ue"]), 2, 2), np.nan)
        for k, place in enumerate(places):
            place_m[:, k] = np.column_stack([ues[f"{place}_x_m"], ues[f"{place}_y_m"]])
        mine = np.isfinite(place_m).all(axis=2).any(axis=1) & np.isin(ues["ue"], attacked)
        return cls(ues["ue"][mine], place_m[mine], hit_radius_m)

    def known(self) -> BoolArray:
        """Whether each UE has a home, a workplace, and both (n, 3)."""
        return _and_both(np.asarray(np.isfinite(self.place_m).all(axis=2)))

    def hits(self, named_m: FloatArray) -> BoolArray:
        """What named places (k, 2), NaN where there is none, find of each UE: (n, 3)."""
        away_m = np.linalg.norm(named_m - self.place_m[:, :, None], axis=-1)  # (n, place, named)
        return _and_both(np.asarray(np.any(away_m <= self.hit_radius_m, axis=2)))


def _and_both(flags: np.ndarray) -> BoolArray:
    """Flags of homes and workplaces (n, 2), and of both (n, 3)."""
    return np.column_stack([flags, flags.all(axis=1)])


def named_rows(
    rows: Table, named: Table, truth: Truth, attacked: FloatArray, requested_s: dict[int, float]
) -> Tables:
    """What one attack names at the end, by PLACES: its rows of `leakage` and `named`; nothing where
    no UE has a place.

    attacked : all UEs that it attacked, also those without a place: what was named of them is
    scored on the others. requested_s : end of the window of each round.
    """
    if not len(truth.ue):
        return {}
    of = _rows(truth, ("hit", "shuffled"), _scored(truth, named, attacked))
    rank = _ranks(named)
    for k, place in enumerate(
        PLACES[:2]
    ):  # where an attack does not say which is which, any place is an answer
        spoken = np.isin(truth.ue, named["ue"][(rank == k + 1) | (named["place"] == "")])
        of[place]["spoken"] = spoken[truth.known()[:, k]]
    of["home"]["day"] = _named_from_day(
        rows, truth.ue[truth.known()[:, 0]], truth.hit_radius_m, requested_s
    )
    return of


def chance_rows(
    truth: Truth, area: Area, ue: FloatArray, points_m: FloatArray, width_m: float
) -> Tables:
    """What places named by chance find: uniformly random ones, and the peaks of others' density.

    ue (k,), points_m (k, 2) : true positions of all UEs, and whose they are.
    """
    if not len(truth.ue):
        return {}
    uniform = uniform_shares(
        truth.place_m[:, 0], truth.place_m[:, 1], truth.hit_radius_m, area, MOST_NAMED
    )
    others = np.full((len(truth.ue), 3), np.nan)
    if len(np.unique(ue)) > 1:
        peaks = others_peaks(ue, points_m, truth.ue, area, width_m, MOST_NAMED)
        others = np.array([truth.hits(at)[i] for i, at in enumerate(peaks)], dtype=float)
    return {
        f"{place} by chance": of
        for place, of in _rows(truth, ("uniform", "others"), (uniform, others)).items()
    }


def _rows(truth: Truth, columns: Sequence[str], hits: Sequence[np.ndarray]) -> Tables:
    """Columns of hits (n, 3), by PLACES: of the UEs that have what it is about."""
    known = truth.known().T
    return {
        place: {column: hit[known[k], k] for column, hit in zip(columns, hits, strict=True)}
        for k, place in enumerate(PLACES)
    }


def _scored(truth: Truth, named: Table, attacked: FloatArray) -> tuple[BoolArray, FloatArray]:
    """What the places named of each UE find of it (n, 3), and the share (n, 3) of all others'
    places that find it.

    The share is NaN where no other UE was attacked.
    """
    every = [*truth.ue.tolist(), *np.setdiff1d(attacked, truth.ue).tolist()]
    places_m = {ue: np.full((MOST_NAMED, 2), np.nan) for ue in every}
    for ue, rank, *place_m in zip(
        *(named[k].tolist() for k in ("ue", "rank", "x_m", "y_m")), strict=True
    ):
        if ue in places_m and 1 <= rank <= MOST_NAMED:
            places_m[ue][int(rank) - 1] = place_m
    own = np.zeros((len(truth.ue), 3), dtype=bool)
    found = np.zeros((len(truth.ue), 3))
    for k, named_m in enumerate(places_m.values()):
        hits = truth.hits(named_m)
        own[k : k + 1] = hits[k : k + 1]  # nothing of a UE without a place
        hits[k : k + 1] = False
        found += hits
    others = len(every) - 1
    return own, found / others if others else np.full_like(found, np.nan)


def _named_from_day(
    rows: Table, ues: FloatArray, hit_radius_m: float, requested_s: dict[int, float]
) -> FloatArray:
    """Day (n,), from 1, from which on the home of each UE, or its place of most time, stays named
    until the end; infinite where it does not.
    """
    rows = where(rows, np.isin(rows["ue"], ues))
    of = np.searchsorted(ues, rows["ue"])
    missed = ~(
        np.fmin(rows["home_named_m"], rows["densest_named_m"]) <= hit_radius_m
    )  # a UE has one of them
    last_missed = np.full(len(ues), -1.0)
    np.maximum.at(last_missed, of[missed], rows["round"][missed])
    later = rows["round"] > last_missed[of]
    since = np.full(len(ues), np.inf)
    np.minimum.at(since, of[later], rows["round"][later])
    return np.ceil(np.array([requested_s.get(number, np.inf) for number in since.tolist()]) / DAY_S)


def _ranks(named: Table) -> np.ndarray:
    """1 where a place (n,) is said to be home, 2 for work."""
    return np.array([rank_of_place(str(place)) for place in named["place"]], dtype=int)


def stated_reliability(named: Table, truth: Truth) -> Reliability:
    """Of the places that an attack says are home or work, from its rows of `named`.

    A home or workplace of somebody who has none is wrong.
    """
    rank = _ranks(named)
    mine = (
        np.isin(named["ue"], truth.ue)
        & (rank >= 1)
        & (rank <= MOST_NAMED)
        & np.isfinite(named["probability"])
    )
    said = where(named, mine)
    true_m = truth.place_m[np.searchsorted(truth.ue, said["ue"]), rank[mine] - 1]
    away_m = np.linalg.norm(true_m - np.column_stack([said["x_m"], said["y_m"]]), axis=1)
    right = away_m <= truth.hit_radius_m  # not where there is none: NaN
    return reliability(said["ue"].astype(int), np.clip(said["probability"], 0.0, 1.0), right)


def claim_rows(estimates: Table, links: Table, hit_radius_m: float) -> Tables:
    """Areas under the ROC curves of one attack's claims over the run; nothing for an attack that
    makes none.

    A UE is where it was when it was asked for its update.
    """
    visits = _pairs(estimates, "ue", "round")
    before = {late: early for early, late in pairwise(sorted(set(visits))) if early[0] == late[0]}
    place_m = dict(zip(_pairs(links, "ue", "round"), _pairs(links, "x_m", "y_m"), strict=True))
    nowhere = (np.nan, np.nan)
    of: Tables = {}
    for quantity in {"near", "moved"} & set(estimates["quantity"]):
        mine = np.flatnonzero(estimates["quantity"] == quantity)
        said = where(estimates, mine)
        now_m = np.array([place_m.get(visits[k], nowhere) for k in mine])
        if quantity == "near":
            away_m = np.hypot(*(now_m - np.column_stack([said["x_m"], said["y_m"]])).T)
            of["near"] = one(auc=near_auc(said["weight"], away_m))
        else:
            then_m = np.array([place_m.get(before.get(visits[k], nowhere), nowhere) for k in mine])
            of["moved"] = one(
                auc=moved_auc(said["weight"], np.hypot(*(now_m - then_m).T), hit_radius_m)
            )
    return of


def _pairs(rows: Table, first: str, second: str) -> list[tuple[float, float]]:
    """Two columns, side by side."""
    return list(zip(rows[first].tolist(), rows[second].tolist(), strict=True))


def tracking_rows(rows: Table) -> Table:
    """What one tracker answers after each round; a round without an answer is no success."""
    now = where(rows, rows["hindsight"] == 0)
    return now | {name: now[name] == 1 for name in ("near", "plain_near", "prior_near")}
