"""What attacks reach, from their rows in the records: errors, named places, what they state,
claims, and tracking.

Of a UE without a home one thing may be found, its place of most time, as a home is. Of any other
three may be found within leakage.hit_radius_m of a named place: home, work, and both of them. All
arrays of hits have one column for each, in this order, and a fourth: whether one place finds both.
An attack that answers for homes and workplaces apart finds a home by a place for homes alone, and a
workplace by one for workplaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf, isnan, nan

import numpy as np

from fl.leakage.chance import compute_hit_probabilities, find_peaks_of_others
from fl.leakage.reliability import (
    Reliability,
    compute_moved_auc,
    compute_near_auc,
    measure_reliability,
)
from fl.leakage.tracks import MAX_NAMED
from fl.learners import Learner
from fl.types import find_place_kind
from netsim.clock import DAY_S
from netsim.columns import frozen, number_row, pick_even_indices
from netsim.geometry import Area, measure_lengths
from netsim.units import BoolArray, FloatArray
from scenarios.app.results.folder import Tables
from scenarios.app.results.read import (
    Table,
    build_row,
    iterate_cells,
    select_rows,
    stack_places_m,
)
from scenarios.app.results.statistics import (
    compute_ci95_half_width,
    compute_finite_mean,
    encode_row_keys,
)
from scenarios.app.study import Record

PLACES = ("home", "work", "both")
_FEW_UES = 5


def average_located_percent(summary: Record, name: str) -> float | None:
    """Average the shares in percent of places that an attack names at the end.

    Shares of homes, of workplaces, and of UEs without a home of their places of most time; None
    where there is no place to name.
    """
    shares = [
        summary.get(f"attack.{name}.{place}_located.percent")
        for place in ("home", "work", "densest")
    ]
    if located := [share for share in shares if share is not None and not isnan(share)]:
        return sum(located) / len(located)
    return None


def select_last_rows(table: Table) -> Table:
    """Select the last row of each track (UE, model)."""
    _, reverse = np.unique(number_row(table["ue"], table["model"])[::-1], return_index=True)
    return select_rows(table, np.sort(len(table["ue"]) - 1 - reverse))


def average_area_distance_m(updates: Table, leakage: Table, learner: Learner, area: Area) -> float:
    """Average the distance from true centroids to places spread evenly over the area.

    Centroids are at most 2,000, evenly taken. Of an attacked density: from those that were
    estimated, to the points of its grid that lie in the area: its places are what a constant
    answer names.
    """
    x, y = area.sample((np.arange(40) + 0.5)[:, None] / 40).T
    axes = learner.list_answer_axes_m(area)
    if axes is not None and len(leakage["ue"]):
        x, y = axes
        heard = encode_row_keys(select_rows(leakage, leakage["heard"] == 1))
        updates = select_rows(updates, np.isin(encode_row_keys(updates), heard))
    centroid_m = stack_places_m(updates)[np.isfinite(updates["x_m"])]
    n_max = 2000 if len(x) * len(y) else 0
    centroid_m = centroid_m[pick_even_indices(len(centroid_m), n_max)]
    means_m = [np.hypot(x_m - x[:, None], y_m - y).mean() for x_m, y_m in centroid_m]
    return compute_finite_mean(np.array(means_m))


def select_last_guess_rows(leakage: Table, labels: Sequence[str]) -> Table:
    """Select what random guesses and the true centroids reach, after the last round of the first
    attack with estimates.
    """
    guessed = set(leakage["attack"][np.isfinite(leakage["guess_sw1_m"])])
    label = next((label for label in labels if label in guessed), labels[0])
    rows = select_last_rows(select_rows(leakage, leakage["attack"] == label))
    return rows | {"guess_sqrt_sw1": np.sqrt(rows["guess_sw1_m"])}


def collect_attack_rows(rows: Table, centre_m: dict[int, float]) -> Tables:
    """Collect what measures of one attack are taken from, of its rows of `leakage`.

    centre_m : number of an update -> distance of its true centroid from the map's centre.
    """
    heard = select_rows(rows, rows["heard"] == 1)
    for error in ("error_m", "selected_error_m"):
        heard[error] = np.where(heard["diverged"] == 1, inf, heard[error])
    distance_m = np.array([centre_m[row] for row in encode_row_keys(heard).tolist()])
    difference = heard["error_m"] - distance_m
    # an estimate that diverged counts as the map's centre
    difference = np.where(np.isinf(heard["error_m"]), 0.0, difference)
    tables = {"compared": rows, "heard": heard, "last": select_last_rows(rows)}
    tables["less centre"] = _average_differences(heard, difference)
    if (heard["places"] > 0).any():
        tables["places"] = heard
    steps = select_last_rows(select_rows(heard, np.isfinite(heard["step_error_m"])))
    if len(steps["ue"]):
        tables["walks"] = steps
    return tables


def _average_differences(rows: Table, difference: FloatArray) -> Table:
    """Average over UEs differences (n,), NaN for none, with its 95 % interval; of fewer
    than five UEs over days.
    """
    is_known = np.isfinite(difference)
    unit = rows["ue"][is_known].astype(int)
    if len(np.unique(unit)) < _FEW_UES:
        unit = unit * 2**31 + (rows["time_s"][is_known] // DAY_S).astype(int)
    _, unit_of_row = np.unique(unit, return_inverse=True)
    differences = np.bincount(unit_of_row, weights=difference[is_known]) / np.bincount(unit_of_row)
    mean = compute_finite_mean(differences)
    half = compute_ci95_half_width(differences)
    return build_row(mean=mean, low=mean - half, high=mean + half)


def flag_homes_ever_named(rows: Table, homes: np.ndarray, hit_radius_m: float) -> Table:
    """Flag in column `named` whether an attack ever named a place near the home of each attacked UE
    that has one.
    """
    rows = select_rows(rows, np.isin(rows["ue"], homes))
    _, ue = np.unique(rows["ue"], return_inverse=True)
    return {"named": np.bincount(ue, weights=rows["home_named_m"] <= hit_radius_m) > 0}


def flag_failed_estimates(estimates: Table) -> Table:
    """Select estimates of a centroid or answer; column `failed` flags those that failed."""
    rows = select_rows(estimates, np.isin(estimates["quantity"], ("centroid", "answer")))
    return rows | {"failed": rows["status"] != "ok"}


@frozen
class Truth:
    """True homes and workplaces (n, 2, 2) of UEs (n,), NaN where one has none; within hit_radius_m
    they are found.
    """

    ue: FloatArray
    place_m: FloatArray
    hit_radius_m: float

    @classmethod
    def from_ues(
        cls,
        ues: Table,
        attacked: FloatArray,
        hit_radius_m: float,
        places: Sequence[str] = ("home", "work"),
    ) -> Truth:
        """Of the attacked UEs that have one of these places; of a single one it stands for the
        home.
        """
        place_m = np.full((len(ues["ue"]), 2, 2), nan)
        for k, place in enumerate(places):
            place_m[:, k] = np.column_stack([ues[f"{place}_x_m"], ues[f"{place}_y_m"]])
        is_kept = np.isfinite(place_m).all(axis=2).any(axis=1) & np.isin(ues["ue"], attacked)
        return cls(ues["ue"][is_kept], place_m[is_kept], hit_radius_m)

    def has_places(self) -> BoolArray:
        """Whether each UE has a home, a workplace, and both (n, 3)."""
        return _append_both(np.asarray(np.isfinite(self.place_m).all(axis=2)))

    def find_hits(self, named_m: FloatArray) -> BoolArray:
        """Find what named places find of each UE: (n, 4).

        named_m (k, 2), NaN where there is none; or (2, k, 2), those for homes and for workplaces.
        """
        named_m = np.broadcast_to(named_m, (2, *named_m.shape[-2:]))
        # (n, place, what it is named for, named)
        away_m = np.linalg.norm(named_m - self.place_m[:, :, None, None], axis=-1)
        is_near = away_m <= self.hit_radius_m
        is_found = np.asarray(np.diagonal(is_near, axis1=1, axis2=2).any(axis=1))
        return np.column_stack([_append_both(is_found), is_near.all(axis=1).any(axis=(1, 2))])


def _append_both(flags: np.ndarray) -> BoolArray:
    """Append flags of homes and workplaces (n, 2), and of both (n, 3)."""
    return np.column_stack([flags, flags.all(axis=1)])


def collect_named_rows(
    rows: Table,
    named: Table,
    truth: Truth,
    attacked: FloatArray,
    requested_s: dict[int, float],
    chance: Tables,
) -> Tables:
    """Collect what one attack names at the end, by PLACES; nothing where no UE has a place.

    rows, named : its rows of `leakage` and of `named`. attacked : all UEs that it attacked, also
    those without a place: what was named of them is scored on the others. requested_s : end of
    the window of each round. chance : of `collect_chance_rows`, where it is known.
    """
    if not len(truth.ue):
        return {}
    own_hits, other_hits = _score_named(truth, named, attacked)
    hits = _split_by_place(truth, ("hit", "shuffled"), (own_hits, other_hits))
    kind = _find_kinds(named)
    has_place = truth.has_places().T
    by_chance = chance.get("chance", {})
    chances = np.stack([other_hits, *by_chance.values()])
    hits["both"]["given_one"] = _compute_chance_given_one(own_hits, chances)[has_place[2]]
    if by_chance and any(map(find_place_kind, named["place"])):
        home, work = by_chance["uniform"].T[:2]
        hits["both apart"] = {"uniform": (home * work)[has_place[2]]}
    for k, place in enumerate(PLACES[:2]):
        # where an attack does not say which is which, any place is an answer
        is_answer = (kind == place) | (named["place"] == "")
        is_spoken = np.isin(truth.ue, named["ue"][is_answer])
        hits[place]["spoken"] = is_spoken[has_place[k]]
    hits["home"]["day"] = _find_lasting_naming_day(
        rows, truth.ue[has_place[0]], truth.hit_radius_m, requested_s
    )
    return hits


def _compute_chance_given_one(own_hits: BoolArray, chances: FloatArray) -> FloatArray:
    """Compute the chance (n,) of both where one of the two is known; 0 for UEs without one.

    Of the place that is known and the kind of chance with the largest mean,

        q = [the known one is found] max(chance of the other, [one place finds both]).

    Where an attack finds the other at most as often as by chance, whatever it knows of the first,
    so many hits or more are at most as likely as in binomial draws with the mean of q. [Hoeffding
    1956, "On the distribution of the number of successes in independent trials"]

    own_hits (n, 4), chances (n_kind, n, 4) : as `Truth.find_hits`.
    """
    chance = own_hits[:, [1, 0]] * np.maximum(chances[..., :2], own_hits[:, 3:])
    candidates = np.concatenate(chance, axis=1).T
    return candidates[np.argmax(np.nan_to_num(candidates.sum(axis=1), nan=-1.0))]


def collect_chance_rows(
    truth: Truth, area: Area, ue: FloatArray, points_m: FloatArray, width_m: float
) -> Tables:
    """Collect what places named by chance find.

    Uniformly random places, and the peaks of others' density; in `chance` of all UEs, (n, 4). ue
    (k,), points_m (k, 2) : true positions of all UEs, and whose they are.
    """
    if not len(truth.ue):
        return {}
    uniform = compute_hit_probabilities(
        truth.place_m[:, 0], truth.place_m[:, 1], truth.hit_radius_m, area, MAX_NAMED
    )
    other_hits = np.full((len(truth.ue), 4), nan)
    if len(np.unique(ue)) > 1:
        for i, peaks_m in enumerate(
            find_peaks_of_others(ue, points_m, truth.ue, area, width_m, MAX_NAMED)
        ):
            other_hits[i] = truth.find_hits(peaks_m)[i]
    hits = _split_by_place(truth, ("uniform", "others"), (uniform, other_hits))
    tables = {f"{place} by chance": columns for place, columns in hits.items()}
    return tables | {"chance": {"uniform": uniform, "others": other_hits}}


def _split_by_place(truth: Truth, columns: Sequence[str], hits: Sequence[np.ndarray]) -> Tables:
    """Split columns of hits (n, 4) by PLACES: of the UEs that have what it is about."""
    tables: Tables = {}
    for k, place in enumerate(PLACES):
        has_place = truth.has_places()[:, k]
        cells = [hit[has_place, k] for hit in hits]
        tables[place] = dict(zip(columns, cells, strict=True))
    return tables


def _score_named(truth: Truth, named: Table, attacked: FloatArray) -> tuple[BoolArray, FloatArray]:
    """Score what the places named of each UE find of it (n, 4), and of all others.

    Of others the share (n, 4) whose places find it; NaN where no other UE was attacked.
    """
    ues = [*truth.ue.tolist(), *np.setdiff1d(attacked, truth.ue).tolist()]
    # (home and work, named, axis)
    places_m = {ue: np.full((2, MAX_NAMED, 2), nan) for ue in ues}
    for ue, rank, place, *place_m in iterate_cells(named, "ue", "rank", "place", "x_m", "y_m"):
        if ue not in places_m:
            continue
        if find_place_kind(place):
            number, kind = divmod(int(rank) - 1, 2)
            places_m[ue][kind, number] = place_m
        elif 1 <= rank <= MAX_NAMED:
            places_m[ue][:, int(rank) - 1] = place_m
    own_hits = np.zeros((len(truth.ue), 4), dtype=bool)
    other_hits = np.zeros((len(truth.ue), 4))
    for k, named_m in enumerate(places_m.values()):
        hits = truth.find_hits(named_m)
        row = slice(k, k + 1)  # nothing of a UE without a place
        own_hits[row] = hits[row]
        hits[row] = False
        other_hits += hits
    n_others = len(ues) - 1
    if n_others == 0:
        return own_hits, np.full_like(other_hits, nan)
    return own_hits, other_hits / n_others


def _find_lasting_naming_day(
    rows: Table, ues: FloatArray, hit_radius_m: float, requested_s: dict[int, float]
) -> FloatArray:
    """Find the day (n,), from 1, from which on the home of each UE stays named until the end.

    Or its place of most time: a UE has one of them. Infinite where it does not.
    """
    rows = select_rows(rows, np.isin(rows["ue"], ues))
    ue_of_row = np.searchsorted(ues, rows["ue"])
    number = rows["round"]
    is_missed = ~(np.fmin(rows["home_named_m"], rows["densest_named_m"]) <= hit_radius_m)
    last_missed = np.full(len(ues), -1.0)
    np.maximum.at(last_missed, ue_of_row[is_missed], number[is_missed])
    is_later = number > last_missed[ue_of_row]
    since = np.full(len(ues), inf)
    np.minimum.at(since, ue_of_row[is_later], number[is_later])
    since_s = np.array([requested_s.get(number, inf) for number in since.tolist()])
    return np.ceil(since_s / DAY_S)


def _find_kinds(named: Table) -> np.ndarray:
    """Find what each place (n,) is said to be: home, work or third; empty where it is not said."""
    return np.array([place.partition(" ")[0] for place in named["place"]], dtype=object)


def measure_stated_reliability(named: Table, truth: Truth) -> Reliability:
    """Measure how reliable the places are that an attack says are home or work.

    named : its rows of `named`. A home or workplace of somebody who has none is wrong.
    """
    kind = _find_kinds(named)
    is_stated = (
        np.isin(named["ue"], truth.ue)
        & np.isin(kind, PLACES[:2])
        & np.isfinite(named["probability"])
    )
    stated = select_rows(named, is_stated)
    true_m = truth.place_m[np.searchsorted(truth.ue, stated["ue"]), (kind[is_stated] == "work") * 1]
    is_right = (
        np.linalg.norm(true_m - stack_places_m(stated), axis=1) <= truth.hit_radius_m
    )  # not where there is none: NaN
    return measure_reliability(
        stated["ue"].astype(int), np.clip(stated["probability"], 0.0, 1.0), is_right
    )


def collect_claim_aucs(estimates: Table, links: Table, hit_radius_m: float) -> Tables:
    """Collect areas under the ROC curves of one attack's claims over the run.

    Nothing for an attack that makes none. A UE is where it was when it was asked for its update.
    """
    visits = list(iterate_cells(estimates, "ue", "round"))
    before = {late: early for early, late in pairwise(sorted(set(visits))) if early[0] == late[0]}
    cells = iterate_cells(links, "ue", "round", "x_m", "y_m")
    place_m = {(ue, number): (x_m, y_m) for ue, number, x_m, y_m in cells}
    nowhere = (nan, nan)
    aucs: Tables = {}
    for quantity in {"near", "moved"} & set(estimates["quantity"]):
        rows = np.flatnonzero(estimates["quantity"] == quantity)
        claims = select_rows(estimates, rows)
        now_m = np.array([place_m.get(visits[k], nowhere) for k in rows])
        if quantity == "near":
            distance_m = measure_lengths(now_m - stack_places_m(claims))
            auc = compute_near_auc(claims["weight"], distance_m)
        else:
            earlier = [before.get(visits[k], nowhere) for k in rows]
            earlier_m = np.array([place_m.get(visit, nowhere) for visit in earlier])
            distance_m = measure_lengths(now_m - earlier_m)
            auc = compute_moved_auc(claims["weight"], distance_m, hit_radius_m)
        aucs[quantity] = build_row(auc=auc)
    return aucs


def select_tracking_rows(rows: Table) -> Table:
    """Select what one tracker answers after each round; a round without an answer is no success."""
    answers = select_rows(rows, rows["hindsight"] == 0)
    return answers | {name: answers[name] == 1 for name in ("near", "plain_near", "prior_near")}
