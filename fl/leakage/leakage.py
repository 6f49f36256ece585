"""Leakage over time: estimates are compared with the true positions of every UE, once a round.

Attacks have no access to this module. The state is kept per track, a (UE, model) pair: all measured
points, batch centroids and estimates of each attack so far. Home and work of a UE, or the densest
place of one without a home, are compared with all estimates of an attack for that UE, in all its
models, and with the places that it names of that UE (`fl.leakage.tracks`).
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.linalg import norm
from pydantic import Field, PositiveFloat

from fl.leakage.distances import (
    accumulate_sums,
    compute_sliced_w1_of_sets,
    expect_nearest_m,
    find_density_peaks,
    measure_nearest_m,
    sort_projections,
)
from fl.leakage.tracks import (
    MAX_NAMED,
    ChanceBand,
    NamedByAttack,
    NamedPlaces,
    Track,
    TrackEstimates,
    Tracks,
    collect_answers_inside,
    group_rows_by_key,
)
from fl.types import Estimates, Local, Metrics
from netsim.columns import frozen, no_ints, number_row, pick_even_indices
from netsim.geometry import Area
from netsim.mobility.base import Places
from netsim.part import Count, Part
from netsim.record import Row, TableRows
from netsim.rng import Rng
from netsim.units import ArrayPair, FloatArray

NAN = float("nan")
_STEPS = ("step_error_m", "walk_error_m", "step_no_motion_m", "walk_no_motion_m")
_OF_A_ROUND = (
    "centroid",
    "place",
    "step",
)  # estimates of a round are about a track; answers are about a UE
MOST_CENTROIDS = 500  # true or named ones of a track whose distribution is compared,
# and estimates of a UE whose density names places; of more, as many evenly in time
MOST_ESTIMATES = 2000
FEWEST_DRAWS = 20  # of the band of random guesses,
_Groups = dict[tuple[int, str], list[TrackEstimates]]
GUESSES = 40  # beyond so many centroids, which draws of guesses fall matters less


class Leakage(Part):
    """Settings of the measures of leakage."""

    directions: int = Field(90, ge=4, le=2000)
    """number of directions of the sliced Wasserstein distance"""
    max_points: int = Field(2000, ge=100, le=100_000)
    """largest number of true points of a UE in it; more are thinned evenly in time"""
    random_baseline_draws: int = Field(300, ge=1, le=10_000)
    """number of random attackers of the baseline; for n > 40 guesses 40 / n times as many, but at
    least 20"""
    every_rounds: Count = 1
    """leakage, named places included, is measured in round 1, then once in this number of rounds,
    and in the last one (without rounds: in the last merge of `rounds`, where that is set); with
    many UEs it costs more than the attacks. Of rounds k to 2 k - 1, 2 k to 3 k - 1, ... it is the
    last one before all names change at once, if there is one, or else the first in which the
    attacker heard a UE"""
    first_round: Count = 1
    """leakage is measured from this round on; attacks and truth of earlier rounds are remembered,
    and not scored"""
    peak_width_m: PositiveFloat = 75.0
    """kernel width of densities, m: of estimates, whose two highest peaks an attack names that
    gives no answers itself, and of the positions of other UEs, the baseline"""
    hit_radius_m: PositiveFloat = 100.0
    """distance within which a place counts as found, or as named, m"""
    list_places: int = Field(8, ge=1, le=100)
    """places of the list that each attack makes of sums, published models, or updates under names
    that change"""
    list_hit_radius_m: PositiveFloat = 50.0
    """distance from a true home or workplace within which a place of a list counts as right, m"""
    belief_ues: int = Field(3, ge=0, le=1000)
    """number of UEs, those of smallest index, whose beliefs are recorded cell by cell (trackers
    only)"""
    target: str = Field("all", min_length=1, max_length=200)
    """UEs in the summary of leakage: all, most-data (the UE with most measurements), or the name of
    a UE"""


@frozen
class ComparedRound:
    """A round, as leakage sees it: truth on one side, what the attacks said on the other.

    selected_mean_m (n, 2) is the mean of what each measured row really learnt from, NaN where
    nothing was sent. A row without samples learnt from earlier measurements only: their mean is its
    truth, and its points are known already. named : what attacks without answers name of UEs, where
    that does not follow from all estimates about a UE. last : no round can follow, so that this one
    is compared whatever its number. heard : whether the attacker heard any UE; names_end : the last
    round before all names change at once, 0 where none is known.
    """

    round: int
    measured: Local
    selected_mean_m: FloatArray
    estimates: dict[str, Estimates]
    area: Area
    places: Places
    named: NamedByAttack = field(default_factory=dict)
    last: bool = False
    heard: bool = True
    names_end: int = 0


def compare_round(
    leakage: Leakage, tracks: Tracks, current: ComparedRound, rng: Rng
) -> tuple[Tracks, TableRows]:
    """The next tracks, and one row per (UE, model) of the round and attack (columns:
    `fl/round/tables.toml`).
    """
    answers = {
        label: current.named.get(label, {}) | collect_answers_inside(estimates, current.area)
        for label, estimates in current.estimates.items()
    }
    if not is_due(leakage, tracks, current):
        if current.round < leakage.first_round:
            tracks = dict(tracks)
            for ue_and_model, points_m in current.measured.list_samples():
                if len(points_m):
                    track = tracks.get(ue_and_model, Track.empty())
                    tracks[ue_and_model] = track.add_round(points_m, leakage.max_points)
        return keep_answers(tracks, answers, current.round), []
    tracks = dict(tracks)
    rows_of_track = {}
    for label, estimates in current.estimates.items():
        rows_of_track[label] = group_rows_by_key(
            number_row(estimates.ue, estimates.model),
            np.flatnonzero(np.isin(estimates.what, _OF_A_ROUND)),
        )
    rows: TableRows = []
    for i, ((ue, model), points_m) in enumerate(current.measured.list_samples()):
        selected_m = current.selected_mean_m[i]
        track = tracks.get((ue, model), Track.empty())
        if not len(points_m) and not track.seen:  # measured in a round that leakage left out
            continue
        track = track.add_round(points_m, leakage.max_points, None if len(points_m) else selected_m)
        owner = number_row(ue, model)
        attacks = dict(track.attacks)
        truth = TrackTruth(leakage, track, owner, current.area, rng)
        for label, estimates in current.estimates.items():
            before = attacks.get(label) or TrackEstimates.empty()
            if ue in answers[label]:
                before = replace(before, answers=answers[label][ue], answered=current.round)
            new = estimates.select(rows_of_track[label].get(owner, no_ints()))
            attacks[label], row = _compare_track(before, new, truth, selected_m)
            rows.append({"attack": label, "ue": ue, "model": model, **row})
        tracks[ue, model] = replace(track, attacks=attacks, compared=current.round)
    groups = _group_by_ue(tracks)
    nearness: dict[tuple[int, str], Metrics] = {}
    for row in rows:
        pair = row["ue"], row["attack"]
        if pair not in nearness:
            nearness[pair] = _measure_nearness(leakage, groups[pair], row["ue"], current)
        row |= nearness[pair]
    return tracks, rows


def is_due(leakage: Leakage, tracks: Tracks, current: ComparedRound) -> bool:
    """Whether leakage is measured in this round: once in each `every_rounds`, as the key says."""
    if current.round < leakage.first_round and not current.last:
        return False
    if current.last or leakage.every_rounds == 1:
        return True
    compared = max((track.compared for track in tracks.values()), default=0)
    if not compared:
        return current.heard
    block = current.round // leakage.every_rounds
    if block == compared // leakage.every_rounds:
        return False
    if current.round < current.names_end < (block + 1) * leakage.every_rounds:
        return False
    return current.heard or current.round == current.names_end


def keep_answers(tracks: Tracks, answers: NamedByAttack, number: int) -> Tracks:
    """The tracks with what attacks answer in a round, without a comparison: it stands until they
    answer again.
    """
    after = dict(tracks)
    for (ue, model), track in tracks.items():
        attacks = dict(track.attacks)
        for label, answers_of_ue in answers.items():
            if ue in answers_of_ue:
                attacks[label] = replace(
                    attacks.get(label) or TrackEstimates.empty(),
                    answers=answers_of_ue[ue],
                    answered=number,
                )
        after[ue, model] = replace(track, attacks=attacks)
    return after


def _group_by_ue(tracks: Tracks) -> _Groups:
    """Estimates of each attack about each UE, in the order of its models."""
    groups: _Groups = {}
    for (ue, _), track in sorted(tracks.items(), key=lambda item: item[0]):
        for label, estimates in track.attacks.items():
            groups.setdefault((ue, label), []).append(estimates)
    return groups


@dataclass
class TrackTruth:
    """Truth and baselines of attacks on one track: its points, its true centroids, and as many
    random guesses.
    """

    leakage: Leakage
    track: Track
    owner: int
    area: Area
    rng: Rng
    _drawn: dict[int, ChanceBand] = field(default_factory=dict)

    @cached_property
    def points(self) -> FloatArray:
        """Sorted projections of its points (directions, n)."""
        return sort_projections(self.track.points, self.leakage.directions)

    @cached_property
    def sums(self) -> FloatArray:
        """Their sums so far."""
        return accumulate_sums(self.points)

    @cached_property
    def centroids_sw1_m(self) -> float:
        """SW1 in metres of the true centroids."""
        return self.measure_sw1_m(self.track.centroids)

    def measure_sw1_m(self, named_m: FloatArray) -> float:
        """SW1 in metres between all points and places (k, 2), of which at most 500 count."""
        return float(
            compute_sliced_w1_of_sets(
                self.points, named_m[pick_even_indices(len(named_m), MOST_CENTROIDS)], self.sums
            )
        )

    def draw_band(self, last: ChanceBand, n_centroids: int) -> ChanceBand:
        """The band of an attack that has named n_centroids centroids.

        It changes slowly: it is drawn again when rounds or centroids have grown by a twentieth.
        """
        rounds = len(self.track.centroids)
        if n_centroids == 0 or (rounds < 1.05 * last.rounds and n_centroids < 1.05 * last.spoken):
            return last
        if n_centroids not in self._drawn:
            w1 = self._draw_guesses_w1(n_centroids)
            low, high = np.quantile(w1, (0.05, 0.95)).tolist()
            self._drawn[n_centroids] = ChanceBand(rounds, n_centroids, w1.mean(), low, high)
        return self._drawn[n_centroids]

    def _draw_guesses_w1(self, count: int) -> FloatArray:
        """SW1 in metres of each draw; the guesses of a draw begin with those that it had when they
        were fewer.
        """
        max_draws = self.leakage.random_baseline_draws
        draws = min(max_draws, max(max_draws * GUESSES // count, FEWEST_DRAWS))
        n_blocks = max(1, draws * count // 20_000)
        w1 = []
        for block in np.array_split(np.arange(draws), n_blocks):
            unit = self.rng.uniform(
                "guess", np.full(len(block), self.owner), (count, 2), item=block
            )
            w1.append(compute_sliced_w1_of_sets(self.points, self.area.sample(unit), self.sums))
        return np.concatenate(w1)


def _compare_track(
    before: TrackEstimates, new: Estimates, truth: TrackTruth, selected_m: FloatArray
) -> tuple[TrackEstimates, Row]:
    """One attack on one UE: its estimates so far, and the row of this round, with new estimates.

    selected_m (2,): mean of what the UE trained on.
    """
    kind = new.kind
    is_inside = truth.area.contains(new.position_m)
    is_centroid = kind == "centroid"
    is_place = kind == "place"
    heard = bool(is_centroid.any())
    centroids_m = new.position_m[is_centroid & is_inside]
    is_place_inside = is_place & is_inside
    places_m = new.position_m[is_place_inside]
    weights = new.weight[is_place_inside]
    spoken = before.spoken + is_centroid.sum()
    band = truth.draw_band(before.band, spoken)
    after = replace(
        before,
        spoken=spoken,
        named=before.named + (is_centroid | is_place).sum(),
        band=band,
        centroids=np.concatenate([before.centroids, centroids_m]),
        places=np.concatenate([before.places, places_m]),
        weights=np.concatenate([before.weights, weights]),
    )
    true_m = truth.track.centroids[-1]
    after, steps = _follow_steps(after, new.position_m[kind == "step"], heard, true_m)
    w1_m = truth.measure_sw1_m(after.centroids)
    return after, {
        "heard": heard,
        "diverged": heard and not len(centroids_m),
        "error_m": _measure_distance_m(centroids_m, true_m),
        "selected_error_m": _measure_distance_m(centroids_m, selected_m),
        "sw1_m": w1_m,
        "sqrt_sw1": math.sqrt(w1_m),
        "true_centroids_sw1_m": truth.centroids_sw1_m,
        "guess_sw1_m": band.mean_m,
        "guess_sw1_m_q05": band.low_m,
        "guess_sw1_m_q95": band.high_m,
        "places": len(places_m),
        "place_error_m": _average_distance_m(places_m, weights, true_m),
        **steps,
    }


def _measure_distance_m(named_m: FloatArray, true_m: FloatArray) -> float:
    """Distance of the first of places (k, 2) from the truth (2,); NaN of none."""
    if len(named_m):
        return float(norm(named_m[0] - true_m))
    return NAN


def _average_distance_m(named_m: FloatArray, weight: FloatArray, true_m: FloatArray) -> float:
    """sum_j e_j |g_j - d| / sum_j e_j of places g (k, 2) with weights e (k,): Z of Zong et al., Eq.
    16, times k.
    """
    total = weight.sum()
    if not total > 0:
        return NAN
    return weight @ norm(named_m - true_m, axis=1) / total


def _follow_steps(
    before: TrackEstimates, step_m: FloatArray, heard: bool, true_m: FloatArray
) -> tuple[TrackEstimates, Metrics]:
    """Errors of the displacement since the last answer, and since the first, along the direction
    that the attack names.

    `no_motion` is the error of the guess that the UE did not move.
    """
    if not len(step_m):
        if heard:  # an answer that continues nothing begins a new walk
            before = replace(before, walk_m=np.zeros(2), anchor_m=np.stack([true_m, true_m]))
        return before, dict.fromkeys(_STEPS, NAN)
    first_m, last_m = before.anchor_m
    walk_m = before.walk_m + step_m[0]
    way_m = np.stack([step_m[0], walk_m])
    length = norm(way_m, axis=1)
    direction = way_m / np.where(length > 0, length, 1.0)[:, None]
    true_way_m = true_m - np.stack([last_m, first_m])
    along = (true_way_m * direction).sum(axis=1)
    errors_m = np.abs([*(along - length), *along])
    after = replace(before, walk_m=walk_m, anchor_m=np.stack([first_m, true_m]))
    return after, dict(zip(_STEPS, errors_m.tolist(), strict=True))


def _measure_nearness(
    leakage: Leakage, estimates: list[TrackEstimates], ue: int, current: ComparedRound
) -> Metrics:
    """How near the estimates about a UE, and the places that an attacker without the truth would
    name, are to its own.

    NaN for a UE without any: there is nothing to be near to.
    """
    places = {
        "home": current.places.home_m[ue],
        "work": current.places.work_m[ue],
        "densest": current.places.densest()[ue],
    }
    points_m, _ = _collect_estimates(estimates)
    named = NamedPlaces()
    if any(np.isfinite(true_m).all() for true_m in places.values()):
        named = _name_places(leakage, estimates, current.area)
    columns = ("named_x_m", "named_y_m", "second_x_m", "second_y_m")
    row = dict(zip(columns, named.home_and_work_m.ravel().tolist(), strict=True))
    count = sum(track.named for track in estimates)
    for name, true_m in places.items():
        row[f"{name}_m"] = measure_nearest_m(points_m, true_m)
        row[f"{name}_named_m"] = measure_nearest_m(named.list_candidates_m(name), true_m)
        if name != "work":
            row[f"guess_{name}_m"] = expect_nearest_m(true_m, current.area, count)
    return row


def _collect_estimates(estimates: list[TrackEstimates]) -> ArrayPair:
    """All centroids and places (n, 2) of a UE so far, with weights (n,)."""
    points_m = list[FloatArray]()
    weights = list[FloatArray]()
    for track in estimates:
        points_m += [track.centroids, track.places]
        weights += [np.ones(len(track.centroids)), track.weights]
    return np.concatenate(points_m), np.concatenate(weights)


def _name_places(leakage: Leakage, estimates: list[TrackEstimates], area: Area) -> NamedPlaces:
    """The places that an attack names of a UE: its latest answers, or else density peaks."""
    latest = max(estimates, key=lambda track: track.answered)
    if latest.answered:
        return latest.answers
    points_m, weight = _collect_estimates(estimates)
    rows = pick_even_indices(len(weight), MOST_ESTIMATES)
    return NamedPlaces.rank_in_order(
        find_density_peaks(points_m[rows], weight[rows], area, leakage.peak_width_m, MAX_NAMED)
    )


def list_named_places(leakage: Leakage, tracks: Tracks, area: Area, places: Places) -> TableRows:
    """Rows of the table `named`: what each attack names of each UE after the last round.

    None where no UE has a home, a workplace or a densest place.
    """
    true_m = places.home_m, places.work_m, places.densest()
    if not np.isfinite(np.concatenate(true_m)).any():
        return []
    rows = []
    for (ue, label), estimates in _group_by_ue(tracks).items():
        named = _name_places(leakage, estimates, area)
        for i, (x_m, y_m) in enumerate(named.place_m.tolist()):
            row = {
                "attack": label,
                "ue": ue,
                "rank": int(named.rank[i]),
                "x_m": x_m,
                "y_m": y_m,
                "place": named.place[i],
                "probability": float(named.probability[i]),
            }
            rows.append(row)
    return rows


def list_home_hits(
    leakage: Leakage, tracks: Tracks, area: Area, places: Places
) -> list[tuple[int, str, bool]]:
    """UE, attack, and whether it names the home of that UE within hit_radius_m now: of all attacked
    UEs with a home.
    """
    hits = []
    for (ue, label), estimates in _group_by_ue(tracks).items():
        home_m = places.home_m[ue]
        if np.isfinite(home_m).all():
            named = _name_places(leakage, estimates, area)
            distance_m = measure_nearest_m(named.list_candidates_m("home"), home_m)
            hits.append((ue, label, distance_m <= leakage.hit_radius_m))
    return hits
