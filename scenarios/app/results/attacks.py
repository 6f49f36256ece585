"""What attacks reach, from their rows in the records: errors, named places, what they state, claims, and tracking.

Of a UE without a home one thing may be found, its place of most time, as a home is. Of any other three may be found
within leakage.hit_radius_m of a named place: home, work, and both of them. All arrays of hits have one column for each,
in this order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np

from fl.leakage.chance import others_peaks, uniform_shares
from fl.leakage.reliability import Reliability, moved_auc, near_auc, reliability
from fl.leakage.tracks import MOST_NAMED
from fl.learners.density import Density
from fl.types import rank_of_place
from netsim.columns import no_ints, row_id
from netsim.geometry import Area
from netsim.units import BoolArray, FloatArray
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.read import Table, where
from scenarios.app.results.statistics import half_width, mean_of, row_numbers
from scenarios.app.study import Record

DAY_S = 86_400.0
PLACES = ("home", "work", "both")
_FEW_UES = 5


def named_share(summary: Record, name: str) -> float | None:
    """Mean of the shares in percent of homes, of workplaces, and of UEs without a home of their places of most time
    that an attack names at the end; None where there is no place to name.
    """
    shares = (keys.HOME_LOCATED, keys.WORK_LOCATED, keys.DENSEST_LOCATED)
    known = [value for key in shares if (value := summary.get(key.of(name))) is not None and not isnan(value)]
    return sum(known) / len(known) if known else None


def last_of(table: Table, model: np.ndarray | None = None) -> Table:
    """The last row of each track (UE, model); or, with one number for all models, of each UE."""
    if not len(table["ue"]):
        return table
    track = row_id(table["ue"], table["model"] if model is None else model)
    _, reverse = np.unique(track[::-1], return_index=True)
    rows = np.sort(len(track) - 1 - reverse)
    return where(table, rows)


def anywhere_m(updates: Table, leakage: Table, learner: object, area_m: tuple[float, float, float, float]) -> float:
    """Mean distance from true centroids (2,000 of them, evenly taken) to places spread evenly over the area.

    Of an attacked density: from those that were estimated, to the points of its grid that lie in the area: its places
    are what a constant answer names.
    """
    if not isinstance(learner, Density) or not len(leakage["ue"]):
        unit = (np.arange(40) + 0.5) / 40
        x, y = (low + unit * (high - low) for low, high in zip(area_m[:2], area_m[2:], strict=True))
        return _mean_away_m(updates, x, y)
    heard = row_numbers(where(leakage, leakage["heard"] == 1))
    low, high = np.array(learner.area_m or area_m).reshape(2, 2)
    x, y = (np.linspace(low[k], high[k], n) for k, n in enumerate((*learner.grid, 0)[:2]))
    y = y if len(y) else (low[1:] + high[1:]) / 2
    x, y = (v[(v >= area_m[k]) & (v <= area_m[k + 2])] for k, v in enumerate((x, y)))
    x, y = (v[_evenly(len(v), 100)] for v in (x, y))
    return _mean_away_m(where(updates, np.isin(row_numbers(updates), heard)), x, y)


def _mean_away_m(updates: Table, x: np.ndarray, y: np.ndarray) -> float:
    """Mean distance from true centroids (2,000 of them, evenly taken) to all points of x (p,) and y (q,)."""
    known = np.flatnonzero(np.isfinite(updates["x_m"]))
    known = known[_evenly(len(known), 2000)]
    centroids = zip(updates["x_m"][known], updates["y_m"][known], strict=True)
    away = [np.hypot(x_m - x[:, None], y_m - y).mean() for x_m, y_m in centroids if len(x) and len(y)]
    return mean_of(np.array(away))


def _evenly(n: int, most: int) -> np.ndarray:
    """At most so many of n indices, evenly taken."""
    return np.linspace(0, n - 1, min(n, most)).astype(int) if n else no_ints()


def guess_rows(leakage: Table, labels: Sequence[str]) -> Table:
    """What random guesses and the true centroids reach, after the last round of the first attack with estimates."""
    guessed = set(leakage["attack"][np.isfinite(leakage["guess_sw1_m"])])
    label = next((label for label in labels if label in guessed), labels[0])
    rows = last_of(where(leakage, leakage["attack"] == label))
    return rows | {"guess_sqrt_sw1": np.sqrt(rows["guess_sw1_m"])}


def attack_rows(rows: Table, centre: Mapping[str, np.ndarray]) -> dict[str, Table]:
    """What measures of one attack are taken from, by name, of its rows of `leakage`.

    centre : `row`, the numbers of updates, and `centre_m`, the distance of their true centroids from the map's centre.
    """
    heard = where(rows, rows["heard"] == 1)
    last = last_of(rows)
    for error in ("error_m", "selected_error_m"):
        heard[error] = np.where(heard["diverged"] == 1, np.inf, heard[error])
    of = {"compared": rows, "heard": heard, "last": last, "less centre": _less_centre(heard, centre)}
    steps = where(heard, np.isfinite(heard["step_error_m"]))
    if (heard["places"] > 0).any():
        of["places"] = heard
    return of | ({"walks": last_of(steps)} if len(steps["ue"]) else {})


def _less_centre(heard: Table, centre: Mapping[str, np.ndarray]) -> Table:
    """Error less that of the map's centre; an estimate that diverged counts as this baseline."""
    order = np.argsort(centre["row"])
    at = order[np.searchsorted(centre["row"][order], row_numbers(heard))]
    less = np.where(np.isinf(heard["error_m"]), 0.0, heard["error_m"] - centre["centre_m"][at])
    return _paired(heard, less)


def _paired(rows: Table, less: FloatArray) -> Table:
    """Mean over UEs of differences (n,), NaN for none, with its 95 % interval; of fewer than five UEs over days."""
    known = np.isfinite(less)
    unit = rows["ue"][known].astype(np.int64)
    if len(np.unique(unit)) < _FEW_UES:
        unit = unit * 2**31 + (rows["time_s"][known] // DAY_S).astype(np.int64)
    _, of = np.unique(unit, return_inverse=True)
    each = np.bincount(of, weights=less[known]) / np.bincount(of)
    mean = mean_of(each)
    ends = {"mean": mean, "low": mean - half_width(each), "high": mean + half_width(each)}
    return {name: np.array([end]) for name, end in ends.items()}


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
    """True homes and workplaces (n, 2, 2) of UEs (n,), NaN where one has none; within hit_radius_m they are found."""

    ue: FloatArray
    place_m: FloatArray
    hit_radius_m: float

    @classmethod
    def of(
        cls, ues: Table, attacked: FloatArray, hit_radius_m: float, places: Sequence[str] = ("home", "work")
    ) -> Truth:
        """Of the attacked UEs that have one of these places."""
        place_m = np.stack([np.column_stack([ues[f"{place}_{axis}_m"] for axis in "xy"]) for place in places], axis=1)
        mine = np.isfinite(place_m).all(axis=2).any(axis=1) & np.isin(ues["ue"], attacked)
        return cls(ues["ue"][mine], place_m[mine], hit_radius_m)

    @classmethod
    def densest(cls, ues: Table, attacked: FloatArray, hit_radius_m: float) -> Truth:
        """Of the attacked UEs without a home: the place of most time stands for it."""
        truth = cls.of(ues, attacked, hit_radius_m, ("densest", "densest"))
        truth.place_m[:, 1] = np.nan
        return truth

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
) -> dict[str, Table]:
    """What one attack names at the end, by PLACES: its rows of `leakage` and `named`; nothing where no UE has a place.

    attacked : all UEs that it attacked, also those without a place: what was named of them is scored on the others.
    requested_s : end of the window of each round.
    """
    if not len(truth.ue):
        return {}
    of = _rows(truth, ("hit", "shuffled"), _scored(truth, named, attacked))
    for k, place in enumerate(PLACES[:2]):
        of[place]["spoken"] = _spoken(named, truth, k + 1)[truth.known()[:, k]]
    of["home"]["day"] = _named_from_day(rows, truth.ue[truth.known()[:, 0]], truth.hit_radius_m, requested_s)
    return of


def densest_rows(named: Table, truth: Truth, attacked: FloatArray) -> dict[str, Table]:
    """What one attack names of UEs without a home, as `named_rows`."""
    if not len(truth.ue):
        return {}
    own, of_others = _scored(truth, named, attacked)
    return {"densest": {"hit": own[:, 0], "shuffled": of_others[:, 0]}}


def chance_rows(truth: Truth, area: Area, ue: FloatArray, points_m: FloatArray, width_m: float) -> dict[str, Table]:
    """What places named by chance find: uniformly random ones, and the peaks of others' density.

    ue (k,), points_m (k, 2) : true positions of all UEs, and whose they are.
    """
    if not len(truth.ue):
        return {}
    uniform = uniform_shares(truth.place_m[:, 0], truth.place_m[:, 1], truth.hit_radius_m, area, MOST_NAMED)
    others = np.full((len(truth.ue), 3), np.nan)
    if len(np.unique(ue)) > 1:
        peaks = others_peaks(ue, points_m, truth.ue, area, width_m, MOST_NAMED)
        others = np.array([truth.hits(at)[i] for i, at in enumerate(peaks)], dtype=float)
    return {f"{place} by chance": of for place, of in _rows(truth, ("uniform", "others"), (uniform, others)).items()}


def _rows(truth: Truth, columns: Sequence[str], hits: Sequence[np.ndarray]) -> dict[str, Table]:
    """Columns of hits (n, 3), by PLACES: of the UEs that have what it is about."""
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


def _scored(truth: Truth, named: Table, attacked: FloatArray) -> tuple[BoolArray, FloatArray]:
    """What the places named of each UE find of it (n, 3), and the share (n, 3) of all others' places that find it.

    The share is NaN where no other UE was attacked.
    """
    places_m = _places(named, np.concatenate([truth.ue, np.setdiff1d(attacked, truth.ue)]))
    n = len(truth.ue)
    m = len(places_m)
    own = np.zeros((n, 3), dtype=bool)
    found = np.zeros((n, 3))
    for k, named_m in enumerate(places_m):
        hits = truth.hits(named_m)
        if k < n:
            own[k] = hits[k]
            hits[k] = False
        found += hits
    return own, found / (m - 1) if m > 1 else np.full((n, 3), np.nan)


def _named_from_day(rows: Table, ues: FloatArray, hit_radius_m: float, requested_s: dict[int, float]) -> FloatArray:
    """Day (n,), from 1, from which on the home of each UE stays named until the end; infinite where it does not."""
    order = np.argsort(rows["ue"], kind="stable")
    named = rows["home_named_m"][order] <= hit_radius_m
    number = rows["round"][order]
    day = np.full(len(ues), np.inf)
    for k, ue in enumerate(ues):
        mine = slice(*np.searchsorted(rows["ue"], [ue, ue + 1], sorter=order))
        missed = number[mine][~named[mine]].max(initial=-1.0)
        since = number[mine][number[mine] > missed].min(initial=np.inf)
        if np.isfinite(since):
            day[k] = np.ceil(requested_s[int(since)] / DAY_S)
    return day


def _spoken(named: Table, truth: Truth, rank: int) -> BoolArray:
    """Of which UEs (n,) home (1) or work (2) is named: any place, where the attack does not say which is which."""
    which = np.array([rank_of_place(str(place)) for place in named["place"]], dtype=np.int64)
    return np.isin(truth.ue, named["ue"][(which == rank) | (named["place"] == "")])


def stated_reliability(named: Table, truth: Truth) -> Reliability:
    """Of the places that an attack says are home or work, from its rows of `named`.

    A home or workplace of somebody who has none is wrong.
    """
    rank = np.array([rank_of_place(str(place)) for place in named["place"]], dtype=np.int64)
    mine = np.isin(named["ue"], truth.ue) & (rank >= 1) & (rank <= MOST_NAMED) & np.isfinite(named["probability"])
    row = np.searchsorted(truth.ue, named["ue"][mine])
    said_m = np.column_stack([named["x_m"], named["y_m"]])[mine]
    away_m = np.linalg.norm(truth.place_m[row, rank[mine] - 1] - said_m, axis=1)
    right = away_m <= truth.hit_radius_m  # not where there is none: NaN
    ue = named["ue"][mine].astype(np.int64)
    probability = np.clip(named["probability"][mine], 0.0, 1.0)
    return reliability(ue, probability, right)


def claim_rows(estimates: Table, links: Table, hit_radius_m: float) -> dict[str, Table]:
    """Areas under the ROC curves of one attack's claims over the run; nothing for an attack that makes none.

    A UE is where it was when it was asked for its update.
    """
    import pandas

    if not np.isin(estimates["quantity"], ("near", "moved")).any():
        return {}
    columns = ["ue", "round", "x_m", "y_m"]
    visits = pandas.DataFrame(estimates)[columns[:2]].drop_duplicates().sort_values(columns[:2])
    visits["before"] = visits.groupby("ue")["round"].shift()
    places = pandas.DataFrame(links)[columns].drop_duplicates(columns[:2])
    claims = pandas.DataFrame(estimates).merge(visits, "left").merge(places, "left", columns[:2], suffixes=("", "_now"))
    claims = claims.merge(places, "left", left_on=["ue", "before"], right_on=columns[:2], suffixes=("", "_before"))
    near = claims[claims["quantity"] == "near"]
    moved = claims[claims["quantity"] == "moved"]
    of: dict[str, Table] = {}
    if len(near):
        away_m = np.hypot(near["x_m_now"] - near["x_m"], near["y_m_now"] - near["y_m"])
        of["near"] = {"auc": np.array([near_auc(near["weight"].to_numpy(), away_m.to_numpy())])}
    if len(moved):
        step_m = np.hypot(moved["x_m_now"] - moved["x_m_before"], moved["y_m_now"] - moved["y_m_before"]).to_numpy()
        of["moved"] = {"auc": np.array([moved_auc(moved["weight"].to_numpy(), step_m, hit_radius_m)])}
    return of


def tracking_rows(rows: Table) -> Table:
    """What one tracker answers after each round; a round without an answer is no success."""
    now = where(rows, rows["hindsight"] == 0)
    return now | {name: now[name] == 1 for name in ("near", "plain_near", "prior_near")}
