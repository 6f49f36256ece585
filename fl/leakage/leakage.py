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
from pydantic import Field

from fl.leakage.distances import (
    density_peaks,
    guesses_nearest_m,
    nearest_m,
    sliced_w1_of_sets,
    sorted_projections,
    sums_so_far,
)
from fl.leakage.tracks import (
    MOST_NAMED,
    Band,
    NamedPlaces,
    Track,
    TrackEstimates,
    Tracks,
    answers_of,
    rows_by,
)
from fl.types import Estimates, Local, Metrics
from netsim.columns import evenly, frozen, no_ints, row_id
from netsim.geometry import Area
from netsim.mobility.base import Places
from netsim.part import Part
from netsim.record import Row
from netsim.rng import Rng
from netsim.units import FloatArray

NAN = float("nan")
_STEPS = ("step_error_m", "walk_error_m", "step_no_motion_m", "walk_no_motion_m")
_OF_A_ROUND = (
    "centroid",
    "place",
    "step",
)  # estimates of a round are about a track; answers are about a UE
MOST_CENTROIDS = 500  # true or named ones of a track whose distribution is compared,
MOST_ESTIMATES = (
    2000  # and estimates of a UE whose density names places; of more, as many evenly in time
)
FEWEST_DRAWS = 20  # of the band of random guesses,
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
    every_rounds: int = Field(1, ge=1, le=1_000_000)
    """leakage, named places included, is measured in round 1, then once in this number of rounds,
    and in the last one (without rounds: in the last merge of `rounds`, where that is set); with
    many UEs it costs more than the attacks. Of rounds k to 2 k - 1, 2 k to 3 k - 1, ... it is the
    last one before all names change at once, if there is one, or else the first in which the
    attacker heard a UE"""
    first_round: int = Field(1, ge=1, le=1_000_000)
    """leakage is measured from this round on; attacks and truth of earlier rounds are remembered,
    and not scored"""
    peak_width_m: float = Field(75.0, gt=0)
    """kernel width of densities, m: of estimates, whose two highest peaks an attack names that
    gives no answers itself, and of the positions of other UEs, the baseline"""
    hit_radius_m: float = Field(100.0, gt=0)
    """distance within which a place counts as found, or as named, m"""
    list_places: int = Field(8, ge=1, le=100)
    """places of the list that each attack makes of sums, published models, or updates under names
    that change"""
    list_hit_radius_m: float = Field(50.0, gt=0)
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
    named: dict[str, dict[int, NamedPlaces]] = field(default_factory=dict)
    last: bool = False
    heard: bool = True
    names_end: int = 0


def observe(how: Leakage, tracks: Tracks, now: ComparedRound, rng: Rng) -> tuple[Tracks, list[Row]]:
    """The next tracks, and one row per (UE, model) of the round and attack (columns:
    `fl/round/tables.toml`).
    """
    answers = {
        label: now.named.get(label, {}) | answers_of(estimates, now.area)
        for label, estimates in now.estimates.items()
    }
    if not is_due(how, tracks, now):
        if now.round < how.first_round:
            tracks = _seen(how, tracks, now)
        return _answered(tracks, answers, now.round), []
    tracks = dict(tracks)
    rows_of = {
        label: rows_by(
            row_id(of.ue, of.model), np.flatnonzero([what in _OF_A_ROUND for what in of.what])
        )
        for label, of in now.estimates.items()
    }
    rows: list[Row] = []
    for i, (ue, model) in enumerate(
        zip(now.measured.ue.tolist(), now.measured.model.tolist(), strict=True)
    ):
        points_m = now.measured.x[now.measured.ptr[i] : now.measured.ptr[i + 1]]
        known = tracks.get((ue, model), Track.empty())
        if not len(points_m) and not known.seen:  # measured in a round that leakage left out
            continue
        track = known.plus(
            points_m, how.max_points, None if len(points_m) else now.selected_mean_m[i]
        )
        owner = row_id(ue, model)
        attacks = dict(track.attacks)
        truth = TrackTruth(how, track, owner, now.area, rng)
        for label, estimates in now.estimates.items():
            before = attacks.get(label) or TrackEstimates.nothing()
            if ue in answers[label]:
                before = replace(before, answers=answers[label][ue], answered=now.round)
            mine = estimates.select(rows_of[label].get(owner, no_ints()))
            attacks[label], row = _compared(before, mine, truth, now.selected_mean_m[i])
            rows.append({"attack": label, "ue": ue, "model": model, **row})
        tracks[ue, model] = replace(track, attacks=attacks, compared=now.round)
    every = _by_ue(tracks)
    asked = dict.fromkeys((row["ue"], row["attack"]) for row in rows)
    near = {(ue, label): _near(how, every[ue, label], ue, now) for ue, label in asked}
    return tracks, [row | near[row["ue"], row["attack"]] for row in rows]


def is_due(how: Leakage, tracks: Tracks, now: ComparedRound) -> bool:
    """Whether leakage is measured in this round: once in each `every_rounds`, as the key says."""
    if now.round < how.first_round and not now.last:
        return False
    if now.last or how.every_rounds == 1:
        return True
    compared = max((track.compared for track in tracks.values()), default=0)
    block = now.round // how.every_rounds
    if not compared:
        return now.heard
    if (
        block == compared // how.every_rounds
        or now.round < now.names_end < (block + 1) * how.every_rounds
    ):
        return False
    return now.heard or now.round == now.names_end


def _seen(how: Leakage, tracks: Tracks, now: ComparedRound) -> Tracks:
    """The tracks with where UEs were in a round before the first that is compared."""
    after = dict(tracks)
    of = now.measured
    for i, owner in enumerate(zip(of.ue.tolist(), of.model.tolist(), strict=True)):
        points_m = of.x[of.ptr[i] : of.ptr[i + 1]]
        if len(points_m):
            after[owner] = after.get(owner, Track.empty()).plus(points_m, how.max_points)
    return after


def _answered(tracks: Tracks, answers: dict[str, dict[int, NamedPlaces]], number: int) -> Tracks:
    """The tracks with what attacks answer in a round that is not compared: it stands until they
    answer again.
    """
    after = dict(tracks)
    for (ue, model), track in tracks.items():
        new = {
            label: replace(
                track.attacks.get(label) or TrackEstimates.nothing(),
                answers=of[ue],
                answered=number,
            )
            for label, of in answers.items()
            if ue in of
        }
        after[ue, model] = replace(track, attacks=track.attacks | new)
    return after


def _by_ue(tracks: Tracks) -> dict[tuple[int, str], list[TrackEstimates]]:
    """Estimates of each attack about each UE, in the order of its models."""
    found: dict[tuple[int, str], list[TrackEstimates]] = {}
    for (ue, _), track in sorted(tracks.items(), key=lambda item: item[0]):
        for label, said in track.attacks.items():
            found.setdefault((ue, label), []).append(said)
    return found


@dataclass
class TrackTruth:
    """Truth and baselines of attacks on one track: its points, its true centroids, and as many
    random guesses.
    """

    how: Leakage
    track: Track
    owner: int
    area: Area
    rng: Rng
    _drawn: dict[int, Band] = field(default_factory=dict)

    @cached_property
    def points(self) -> FloatArray:
        """Sorted projections of its points (directions, n)."""
        return sorted_projections(self.track.points, self.how.directions)

    @cached_property
    def sums(self) -> FloatArray:
        """Their sums so far."""
        return sums_so_far(self.points)

    @cached_property
    def of_centroids_m(self) -> float:
        """SW1 in metres of the true centroids."""
        return self.sw1_m(self.track.centroids)

    def sw1_m(self, named_m: FloatArray) -> float:
        """SW1 in metres between all points and places (k, 2), of which at most 500 count."""
        return float(
            sliced_w1_of_sets(self.points, named_m[evenly(len(named_m), MOST_CENTROIDS)], self.sums)
        )

    def band(self, last: Band, spoken: int) -> Band:
        """The band of an attack that has named `spoken` centroids.

        It changes slowly: it is drawn again when rounds or centroids have grown by a twentieth.
        """
        rounds = len(self.track.centroids)
        if spoken == 0 or (rounds < 1.05 * last.rounds and spoken < 1.05 * last.spoken):
            return last
        if spoken not in self._drawn:
            w1 = self._guesses_w1(spoken)
            low, high = np.quantile(w1, (0.05, 0.95)).tolist()
            self._drawn[spoken] = Band(rounds, spoken, float(w1.mean()), low, high)
        return self._drawn[spoken]

    def _guesses_w1(self, count: int) -> FloatArray:
        """SW1 in metres of each draw; the guesses of a draw begin with those that it had when they
        were fewer.
        """
        most = self.how.random_baseline_draws
        draws = min(most, max(most * GUESSES // count, FEWEST_DRAWS))
        w1 = []
        for some in np.array_split(np.arange(draws), max(1, draws * count // 20_000)):
            unit = self.rng.uniform("guess", np.full(len(some), self.owner), (count, 2), item=some)
            w1.append(sliced_w1_of_sets(self.points, self.area.sample(unit), self.sums))
        return np.concatenate(w1)


def _compared(
    before: TrackEstimates, mine: Estimates, truth: TrackTruth, selected_m: FloatArray
) -> tuple[TrackEstimates, Row]:
    """One attack on one UE: its estimates so far, and the row of this round, with `mine`.

    selected_m (2,): mean of what the UE trained on.
    """
    what = np.array(mine.what, dtype=object)
    inside = truth.area.contains(mine.position_m)
    centroid = what == "centroid"
    place = (what == "place") & inside
    heard = bool(centroid.any())
    centroids_m = mine.position_m[centroid & inside]
    places_m = mine.position_m[place]
    spoken = before.spoken + int(centroid.sum())
    band = truth.band(before.band, spoken)
    said = replace(
        before,
        spoken=spoken,
        named=before.named + int((centroid | (what == "place")).sum()),
        band=band,
        centroids=np.concatenate([before.centroids, centroids_m]),
        places=np.concatenate([before.places, places_m]),
        weights=np.concatenate([before.weights, mine.weight[place]]),
    )
    true_m = truth.track.centroids[-1]
    said, steps = _steps(said, mine.position_m[what == "step"], heard, true_m)
    w1_m = truth.sw1_m(said.centroids)
    return said, {
        "heard": heard,
        "diverged": heard and not len(centroids_m),
        "error_m": _distance_m(centroids_m, true_m),
        "selected_error_m": _distance_m(centroids_m, selected_m),
        "sw1_m": w1_m,
        "sqrt_sw1": math.sqrt(w1_m),
        "true_centroids_sw1_m": truth.of_centroids_m,
        "guess_sw1_m": band.mean_m,
        "guess_sw1_m_q05": band.low_m,
        "guess_sw1_m_q95": band.high_m,
        "places": len(places_m),
        "place_error_m": _mean_distance_m(places_m, mine.weight[place], true_m),
        **steps,
    }


def _distance_m(named_m: FloatArray, true_m: FloatArray) -> float:
    """Distance of the first of places (k, 2) from the truth (2,); NaN of none."""
    if len(named_m):
        return float(np.linalg.norm(named_m[0] - true_m))
    return NAN


def _mean_distance_m(named_m: FloatArray, weight: FloatArray, true_m: FloatArray) -> float:
    """sum_j e_j |g_j - d| / sum_j e_j of places g (k, 2) with weights e (k,): Z of Zong et al., Eq.
    16, times k.
    """
    if not weight.sum() > 0:
        return NAN
    return float(weight @ np.linalg.norm(named_m - true_m, axis=1) / weight.sum())


def _steps(
    said: TrackEstimates, step_m: FloatArray, heard: bool, true_m: FloatArray
) -> tuple[TrackEstimates, Metrics]:
    """Errors of the displacement since the last answer, and since the first, along the direction
    that the attack names.

    `no_motion` is the error of the guess that the UE did not move.
    """
    row = dict.fromkeys(_STEPS, NAN)
    (first, last) = said.anchor_m
    if len(step_m):
        walk_m = said.walk_m + step_m[0]
        way_m = np.stack([step_m[0], walk_m])
        since_m = np.stack([last, first])
        length = np.linalg.norm(way_m, axis=1)
        direction = way_m / np.where(length > 0, length, 1.0)[:, None]
        along = ((true_m - since_m) * direction).sum(axis=1)
        row = dict(zip(_STEPS, np.abs([*(along - length), *along]).tolist(), strict=True))
        said = replace(said, walk_m=walk_m, anchor_m=np.stack([first, true_m]))
    elif heard:  # an answer that continues nothing begins a new walk
        said = replace(said, walk_m=np.zeros(2), anchor_m=np.stack([true_m, true_m]))
    return said, row


def _near(how: Leakage, every: list[TrackEstimates], ue: int, now: ComparedRound) -> Metrics:
    """How near the estimates about a UE, and the places that an attacker without the truth would
    name, are to its own.

    NaN for a UE without any: there is nothing to be near to.
    """
    places = {
        "home": now.places.home_m[ue],
        "work": now.places.work_m[ue],
        "densest": now.places.densest()[ue],
    }
    points_m = _estimates(every)[0]
    named_m = np.full((MOST_NAMED, 2), np.nan)
    if any(np.isfinite(true_m).all() for true_m in places.values()):
        named_m = _guesses(how, every, now.area).best_two
    row = dict(
        zip(
            ("named_x_m", "named_y_m", "second_x_m", "second_y_m"),
            named_m.ravel().tolist(),
            strict=True,
        )
    )
    count = sum(said.named for said in every)
    for name, true_m in places.items():
        row |= {
            f"{name}_m": nearest_m(points_m, true_m),
            f"{name}_named_m": nearest_m(named_m, true_m),
        }
        if name != "work":
            row[f"guess_{name}_m"] = guesses_nearest_m(true_m, now.area, count)
    return row


def _estimates(said: list[TrackEstimates]) -> tuple[FloatArray, FloatArray]:
    """All centroids and places (n, 2) of a UE so far, with weights (n,)."""
    points = np.concatenate([at for each in said for at in (each.centroids, each.places)])
    return points, np.concatenate(
        [w for each in said for w in (np.ones(len(each.centroids)), each.weights)]
    )


def _guesses(how: Leakage, said: list[TrackEstimates], area: Area) -> NamedPlaces:
    """The places that an attack names of a UE: its latest answers, or else density peaks."""
    latest = max(said, key=lambda each: each.answered)
    if latest.answered:
        return latest.answers
    points, weight = (column[evenly(len(column), MOST_ESTIMATES)] for column in _estimates(said))
    return NamedPlaces.ranked(density_peaks(points, weight, area, how.peak_width_m, MOST_NAMED))


def named_at_end(how: Leakage, tracks: Tracks, area: Area, places: Places) -> list[Row]:
    """Rows of the table `named`: what each attack names of each UE after the last round.

    None where no UE has a home, a workplace or a densest place.
    """
    if not any(np.isfinite(of).any() for of in (places.home_m, places.work_m, places.densest())):
        return []
    rows = []
    for (ue, label), every in _by_ue(tracks).items():
        named = _guesses(how, every, area)
        for i, (x_m, y_m) in enumerate(named.place_m.tolist()):
            said = {"place": named.place[i], "probability": float(named.probability[i])}
            rows.append(
                {
                    "attack": label,
                    "ue": ue,
                    "rank": int(named.rank[i]),
                    "x_m": x_m,
                    "y_m": y_m,
                    **said,
                }
            )
    return rows


def homes_named(
    how: Leakage, tracks: Tracks, area: Area, places: Places
) -> list[tuple[int, str, bool]]:
    """UE, attack, and whether it names the home of that UE within hit_radius_m now: of all attacked
    UEs with a home.
    """
    return [
        (
            ue,
            label,
            nearest_m(_guesses(how, every, area).best_two, places.home_m[ue]) <= how.hit_radius_m,
        )
        for (ue, label), every in _by_ue(tracks).items()
        if np.isfinite(places.home_m[ue]).all()
    ]
