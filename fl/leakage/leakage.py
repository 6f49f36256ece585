"""Leakage over time: estimates are compared with the true positions of every UE, once a round.

Attacks have no access to this module. The state is kept per track, a (UE, model) pair: all measured points, batch
centroids and estimates of each attack so far. Home and work of a UE, or the densest place of one without a home, are
compared with all estimates of an attack for that UE, in all its models, and with the places that it names of that UE
(`fl.leakage.named`).
"""

from dataclasses import field, replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from fl.evenly import evenly
from fl.leakage.distances import (
    density_peaks,
    exact_w1,
    guesses_nearest_m,
    nearest_m,
    sliced_w1,
    sliced_w1_of_sets,
    sorted_projections,
    sums_so_far,
)
from fl.leakage.named import MOST_NAMED, NamedPlaces, answers_of
from fl.leakage.tracks import Band, Track, TrackEstimates, Tracks
from fl.types import Estimates, Local, Metrics
from netsim.columns import frozen, no_ints, row_id
from netsim.geometry import Area
from netsim.mobility.base import Places
from netsim.part import Part
from netsim.record import Row
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

NAN = float("nan")
_NOBODY = no_ints()
_NEAR = (
    "home_m", "work_m", "densest_m", "home_named_m", "work_named_m", "densest_named_m", "guess_home_m",
    "guess_densest_m", "named_x_m", "named_y_m", "second_x_m", "second_y_m",
)  # fmt: skip
_TOLD = ("centroid", "place", "step")  # what is said of a round, by track; answers are of a UE
MOST_CENTROIDS = 500  # true or named ones of a track whose distribution is compared,
MOST_ESTIMATES = 2000  # and estimates of a UE whose density names places; of more, as many evenly in time
FEWEST_DRAWS = 20  # of the band of random guesses,
GUESSES = 40  # beyond so many centroids, which draws of guesses fall matters less


class Leakage(Part):
    """Settings of the measures of leakage."""

    directions: int = Field(default=90, ge=4, le=2000)
    """number of directions of the sliced Wasserstein distance"""
    max_points: int = Field(default=2000, ge=100, le=100_000)
    """largest number of true points of a UE in it; more are thinned evenly in time"""
    random_baseline_draws: int = Field(default=300, ge=1, le=10_000)
    """number of random attackers of the baseline; for n > 40 guesses 40 / n times as many, but at least 20"""
    every_rounds: int = Field(default=1, ge=1, le=1_000_000)
    """leakage, named places included, is measured in round 1, then once in this number of rounds, and in the last one
    (without rounds: in the last merge of `rounds`, where that is set); with many UEs it costs more than the attacks.
    Of rounds k to 2 k - 1, 2 k to 3 k - 1, ... it is the last one before all names change at once, if there is one, or
    else the first in which the attacker heard a UE"""
    peak_width_m: float = Field(default=75.0, gt=0)
    """kernel width of densities, m: of estimates, whose two highest peaks an attack names that gives no answers itself,
    and of the positions of other UEs, the baseline"""
    hit_radius_m: float = Field(default=100.0, gt=0)
    """distance within which a place counts as found, or as named, m"""
    list_places: int = Field(default=8, ge=1, le=100)
    """places of the list that each attack makes of sums, published models, or updates under names that change"""
    list_hit_radius_m: float = Field(default=50.0, gt=0)
    """distance from a true home or workplace within which a place of a list counts as right, m"""
    literal_score: bool = False
    """divide `place_error_m` by the number of places, as printed in the density paper; more places then give a smaller
    error"""
    belief_ues: int = Field(default=3, ge=0, le=1000)
    """number of UEs, those of smallest index, whose beliefs are recorded cell by cell (trackers only)"""
    target: str = Field(default="all", min_length=1, max_length=200)
    """UEs in the summary of leakage: all, most-data (the UE with most measurements), or the name of a UE"""

    renamed: ClassVar = {"near_m": "hit_radius_m", "list_near_m": "list_hit_radius_m"}


@frozen
class ComparedRound:
    """A round, as leakage sees it: truth on one side, what the attacks said on the other.

    selected_mean_m (n, 2) is the mean of what each measured row really learnt from, NaN where nothing was sent. A row
    without samples learnt from earlier measurements only: their mean is its truth, and its points are known already.
    named : what attacks without answers name of UEs, where that does not follow from all estimates about a UE.
    last : no round can follow, so that this one is compared whatever its number. heard : whether the attacker heard any
    UE; names_end : the last round before all names change at once, 0 where none is known.
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
    """The next tracks, and one row per (UE, model) of the round and attack (columns: `fl/round/tables.py`)."""
    rows: list[Row] = []
    answers = {
        label: now.named.get(label, {}) | answers_of(estimates, now.area) for label, estimates in now.estimates.items()
    }
    if not is_due(how, tracks, now):
        return _answered(tracks, answers, now.round), rows
    tracks = dict(tracks)
    said_of = {label: _by_track(estimates) for label, estimates in now.estimates.items()}
    for i, (ue, model) in enumerate(zip(now.measured.ue.tolist(), now.measured.model.tolist(), strict=True)):
        points_m = now.measured.x[now.measured.ptr[i] : now.measured.ptr[i + 1]]
        known = tracks.get((ue, model), Track.empty())
        if not len(points_m) and not known.seen:  # measured in a round that leakage left out
            continue
        track = known.plus(points_m, how.max_points, None if len(points_m) else now.selected_mean_m[i])
        if now.estimates:  # without attacks the truth is kept, and there is nothing to compare with it
            owner = row_id(ue, model)
            common, attacks = _Common(how, track, owner, now.area, rng), dict(track.attacks)
            for label, estimates in now.estimates.items():
                mine = said_of[label].get(owner, _NOBODY)
                before = attacks.get(label) or TrackEstimates.nothing()
                if ue in answers[label]:
                    before = replace(before, answers=answers[label][ue], answered=now.round)
                attacks[label], row = _attack(how, before, estimates, mine, track, common, now, i)
                rows.append({"attack": label, "ue": ue, "model": model, **row})
            track = replace(track, attacks=attacks)
        tracks[ue, model] = replace(track, compared=now.round)
    return tracks, _with_places(how, tracks, now, rows)


def is_due(how: Leakage, tracks: Tracks, now: ComparedRound) -> bool:
    """Whether leakage is measured in this round: once in each `every_rounds`, as the key says."""
    if now.last or how.every_rounds == 1:
        return True
    compared, block = max((t.compared for t in tracks.values()), default=0), now.round // how.every_rounds
    if not compared:
        return now.heard
    if block == compared // how.every_rounds or now.round < now.names_end < (block + 1) * how.every_rounds:
        return False
    return now.heard or now.round == now.names_end


def _answered(tracks: Tracks, answers: dict[str, dict[int, NamedPlaces]], number: int) -> Tracks:
    """The tracks with what attacks answer in a round that is not compared: it stands until they answer again."""
    after = dict(tracks)
    for (ue, model), track in tracks.items():
        new = {
            label: replace(track.attacks.get(label) or TrackEstimates.nothing(), answers=of[ue], answered=number)
            for label, of in answers.items()
            if ue in of
        }
        if new:
            after[ue, model] = replace(track, attacks=track.attacks | new)
    return after


def _by_track(estimates: Estimates) -> dict[int, IntArray]:
    """Estimates of each (UE, model) in the round, by its number, in their order."""
    places = np.flatnonzero([what in _TOLD for what in estimates.what])
    of = row_id(estimates.ue[places], estimates.model[places])
    order = np.argsort(of, kind="stable")
    tracks, first = np.unique(of[order], return_index=True)
    return dict(
        zip(tracks.tolist(), np.split(places[order], first[1:]), strict=False)
    )  # a split without estimates is empty


class _Common:
    """Truth and baselines of attacks on one track: its points, its true centroids, and as many random guesses."""

    def __init__(self, how: Leakage, track: Track, owner: int, area: Area, rng: Rng) -> None:
        self.how, self.owner, self.area, self.rng = how, owner, area, rng
        self.rounds = len(track.centroids)
        self.points = sorted_projections(track.points, how.directions)
        self.sums = sums_so_far(self.points)
        self.centroids = sorted_projections(
            track.centroids[evenly(len(track.centroids), MOST_CENTROIDS)], how.directions
        )
        self.of_centroids_m = float(sliced_w1(self.points, self.centroids, self.sums))
        self._drawn: dict[int, Band] = {}

    def band(self, last: Band, spoken: int) -> Band:
        """The band of an attack that has named `spoken` centroids.

        It changes slowly: it is drawn again when rounds or centroids have grown by a twentieth.
        """
        if spoken == 0 or (self.rounds < 1.05 * last.rounds and spoken < 1.05 * last.spoken):
            return last
        if spoken not in self._drawn:
            w1 = self._guesses_w1(spoken)
            low, high = np.quantile(w1, (0.05, 0.95)).tolist()
            self._drawn[spoken] = Band(self.rounds, spoken, float(w1.mean()), low, high)
        return self._drawn[spoken]

    def _guesses_w1(self, count: int) -> FloatArray:
        """SW1 in metres of each draw; the guesses of a draw begin with those that it had when they were fewer."""
        draws = min(
            self.how.random_baseline_draws, max(self.how.random_baseline_draws * GUESSES // count, FEWEST_DRAWS)
        )
        w1 = []
        for some in np.array_split(np.arange(draws), max(1, draws * count // 20_000)):
            unit = self.rng.uniform("guess", np.full(len(some), self.owner), (count, 2), item=some)
            w1.append(sliced_w1_of_sets(self.points, self.area.sample(unit), self.sums))
        return np.concatenate(w1)


def _attack(
    how: Leakage,
    before: TrackEstimates,
    estimates: Estimates,
    mine: IntArray,
    track: Track,
    common: _Common,
    now: ComparedRound,
    i: int,
) -> tuple[TrackEstimates, dict[str, Any]]:
    """One attack on one UE: what it has said so far, and the row of this round; mine: its estimates of this UE."""
    if not len(mine) and not before.heard:  # as of an attack that only gives answers
        return before, {**_SILENCE, "true_centroids_sw1_m": common.of_centroids_m}
    inside = now.area.contains(estimates.position_m[mine])
    is_centroid, is_place, is_step = (
        np.array([estimates.what[j] == what for j in mine], dtype=bool) for what in ("centroid", "place", "step")
    )
    heard = bool(is_centroid.any())
    named = estimates.position_m[mine[is_centroid & inside]]
    place, spoken = mine[is_place & inside], before.spoken + int(is_centroid.sum())
    said = replace(
        before,
        spoken=spoken,
        named=before.named + int((is_centroid | is_place).sum()),
        band=common.band(before.band, spoken),
        heard=before.heard + heard,
        diverged=before.diverged + (heard and len(named) == 0),
        centroids=np.concatenate([before.centroids, named]),
        places=np.concatenate([before.places, estimates.position_m[place]]),
        weights=np.concatenate([before.weights, estimates.weight[place]]),
    )
    said, errors = _round_errors(said, named, track, now.selected_mean_m[i])
    said, steps = _steps(said, estimates.position_m[mine[is_step]], heard, track)
    return said, {
        **errors,
        **_distribution(how, said, common),
        **_place_errors(how, estimates.position_m[place], estimates.weight[place], track),
        **steps,
        "heard": heard,
        "diverged": heard and len(named) == 0,
        "diverged_percent": 100.0 * said.diverged / said.heard if said.heard else NAN,
    }


_SILENCE = {
    **dict.fromkeys(("error_m", "selected_error_m", "track_error_m", "smoothed_error_m"), NAN),
    **dict.fromkeys(("sw1_m", "sqrt_sw1", "centroid_sw1_m", "guess_sw1_m", "guess_sw1_m_q05", "guess_sw1_m_q95"), NAN),
    **dict.fromkeys(("place_error_m", "diverged_percent"), NAN),
    **dict.fromkeys(("step_error_m", "step_no_motion_m", "walk_error_m", "walk_no_motion_m"), NAN),
    "places": 0, "heard": False, "diverged": False,
}  # fmt: skip


def _round_errors(
    said: TrackEstimates, named: FloatArray, track: Track, selected_m: FloatArray
) -> tuple[TrackEstimates, Metrics]:
    """Errors of this round's estimate, of the last one standing, and of all of them smoothed."""
    truth, past = track.centroids[-1], said.centroids
    if len(past):
        away_m = float(np.linalg.norm(past[-1] - truth))
        said = replace(said, track_error_sum_m=said.track_error_sum_m + away_m, stood=said.stood + 1)
    overall = track.sum_m / track.seen
    smoothed = np.median(past, axis=0) if len(past) else np.full(2, np.nan)
    return said, {
        "error_m": float(np.linalg.norm(named[0] - truth)) if len(named) else NAN,
        "selected_error_m": float(np.linalg.norm(named[0] - selected_m)) if len(named) else NAN,
        "track_error_m": said.track_error_sum_m / said.stood if len(past) else NAN,
        "smoothed_error_m": float(np.linalg.norm(smoothed - overall)),
    }


def _distribution(how: Leakage, said: TrackEstimates, common: _Common) -> dict[str, Any]:
    """Sliced Wasserstein distances of what was reconstructed so far."""
    w1 = centre = NAN
    if len(said.centroids):
        named = sorted_projections(said.centroids[evenly(len(said.centroids), MOST_CENTROIDS)], how.directions)
        w1 = float(sliced_w1(common.points, named, common.sums))
        centre = float(sliced_w1(common.centroids, named))
    return {
        "sw1_m": w1,
        "sqrt_sw1": float(np.sqrt(w1)),
        "centroid_sw1_m": centre,
        "true_centroids_sw1_m": common.of_centroids_m,
        "guess_sw1_m": said.band.mean_m,
        "guess_sw1_m_q05": said.band.low_m,
        "guess_sw1_m_q95": said.band.high_m,
    }


def _with_places(how: Leakage, tracks: Tracks, now: ComparedRound, rows: list[Row]) -> list[Row]:
    """The rows, each with how near the attack has come to its UE's places, all models together."""
    of_ue: dict[int, list[tuple[int, Track]]] = {}
    for (ue, model), track in tracks.items():
        of_ue.setdefault(ue, []).append((model, track))
    said: dict[tuple[int, str], list[TrackEstimates]] = {}
    for ue, label in dict.fromkeys((row["ue"], row["attack"]) for row in rows):
        ordered = sorted(of_ue[ue], key=lambda pair: pair[0])
        said[ue, label] = [track.attacks[label] for _, track in ordered if label in track.attacks]
    near = dict(zip(said, _places(how, said, now), strict=True))
    return [{**row, **near[row["ue"], row["attack"]]} for row in rows]


def _places(how: Leakage, said: dict[tuple[int, str], list[TrackEstimates]], now: ComparedRound) -> list[Metrics]:
    """Measure estimates of each UE against its places, and those that an attacker without the truth would name.

    NaN for a UE without any: there is nothing to be near to.
    """
    ue, found = np.array([ue for ue, _ in said], dtype=np.int64), np.full((len(said), len(_NEAR)), np.nan)
    truth = np.stack([of[ue] for of in (now.places.home_m, now.places.work_m, now.places.densest())], axis=1)
    known, every = np.isfinite(truth).any(axis=(1, 2)), list(said.values())
    for i in np.flatnonzero(known).tolist():
        points, _ = _estimates(every[i])
        named = sum(each.named for each in every[i])
        found[i, :3] = [nearest_m(points, place) for place in truth[i]]
        found[i, 6:8] = [guesses_nearest_m(truth[i, k], now.area, named) for k in (0, 2)]
        found[i, 8:] = _guesses(how, every[i], now.area).best_two.ravel()
    away_m = np.linalg.norm(found[:, None, 8:].reshape(-1, 1, MOST_NAMED, 2) - truth[:, :, None], axis=3)
    found[:, 3:6] = np.fmin.reduce(np.where(np.isfinite(away_m), away_m, np.nan), axis=2)
    return [dict(zip(_NEAR, row, strict=True)) for row in found.tolist()]


def _estimates(said: list[TrackEstimates]) -> tuple[FloatArray, FloatArray]:
    """All centroids and places (n, 2) of a UE so far, with weights (n,)."""
    points = np.concatenate([at for each in said for at in (each.centroids, each.places)])
    return points, np.concatenate([w for each in said for w in (np.ones(len(each.centroids)), each.weights)])


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
    said: dict[tuple[int, str], list[TrackEstimates]] = {}
    for (ue, _), track in sorted(tracks.items()):
        for label, one in track.attacks.items():
            said.setdefault((ue, label), []).append(one)
    rows = list[Row]()
    for (ue, label), every in said.items():
        named = _guesses(how, every, area)
        for i, (x, y) in enumerate(named.place_m.tolist()):
            rows.append({
                "attack": label, "ue": ue, "rank": int(named.rank[i]), "x_m": x, "y_m": y, "place": named.place[i],
                "probability": float(named.probability[i]),
            })  # fmt: skip
    return rows


def _place_errors(how: Leakage, position_m: FloatArray, weight: FloatArray, track: Track) -> dict[str, Any]:
    """Number of places the attack named this round, and their distances from the truth, by the attack's own weights.

    Z_i = sum_j e_j |g_j - d_i| / sum_j e_j of [Zong et al., Eq. 16], there with a further 1 / K_i: `literal_score`.
    """
    count = len(weight)
    if count == 0 or not weight.sum() > 0:
        return {"places": count, "place_error_m": NAN}
    away = np.linalg.norm(position_m - track.centroids[-1], axis=1)
    score = float(weight @ away / weight.sum())
    return {"places": count, "place_error_m": score / count if how.literal_score else score}


def _steps(said: TrackEstimates, step_m: FloatArray, heard: bool, track: Track) -> tuple[TrackEstimates, Metrics]:
    """Errors of the displacement since the last answer, and since the first, along the direction that the attack names.

    `no_motion` is the error of the guess that the UE did not move.
    """
    row = dict.fromkeys(("step_error_m", "step_no_motion_m", "walk_error_m", "walk_no_motion_m"), NAN)
    truth, (first, last) = track.centroids[-1], said.anchor_m
    if len(step_m):
        walk_m = said.walk_m + step_m[0]
        for name, way_m, since in (("step", step_m[0], last), ("walk", walk_m, first)):
            length = float(np.linalg.norm(way_m))
            along = float((truth - since) @ (way_m / length if length else step_m[0]))
            row |= {f"{name}_error_m": abs(along - length), f"{name}_no_motion_m": abs(along)}
        said = replace(said, walk_m=walk_m, anchor_m=np.stack([first, truth]))
    elif heard:  # an answer that continues nothing begins a new walk
        said = replace(said, walk_m=np.zeros(2), anchor_m=np.stack([truth, truth]))
    return said, row


def exact(tracks: Tracks) -> dict[tuple[int, int, str], Metrics]:
    """Exact W1 in metres at the end, for each (UE, model, attack): of all points, and of the true centroids.

    Sets of more than 1,000 are thinned evenly first (see `fl.leakage.distances.exact_w1`).
    """
    return {
        (ue, model, label): {
            "w1_m": exact_w1(track.points, said.centroids),
            "centroid_w1_m": exact_w1(track.centroids, said.centroids),
        }
        for (ue, model), track in tracks.items()
        for label, said in track.attacks.items()
    }


def pairs(tracks: Tracks, directions: int, most: int = 30) -> list[tuple[int, int, float]]:
    """SW1 in metres between the points of every two UEs, (ue, ue, distance), for the `most` UEs with most points."""
    points: dict[int, list[FloatArray]] = {}
    for (ue, _), track in tracks.items():
        points.setdefault(ue, []).append(track.points)
    ues = sorted(sorted(points, key=lambda ue: -sum(map(len, points[ue])))[:most])
    shadows = {ue: sorted_projections(np.concatenate(points[ue]), directions) for ue in ues}
    return [(a, b, float(sliced_w1(shadows[a], shadows[b]))) for a, b in combinations(ues, 2)]
