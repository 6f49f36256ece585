"""Leakage over time: where truth meets estimates, once a round, for every UE.

Nothing here is visible to an attack. Rows are kept per track, a (UE, model) pair: the points measured so far, the
batch centroids so far, and each attack's estimates so far. Home and work belong to a UE: they are held against all that
an attack has said of it, in all its models.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from fl.leakage.distances import density_peaks, exact_w1, guesses_nearest_m, nearest_m, sliced_w1, sorted_projections
from fl.types import Estimates, Local, State
from netsim.geometry import Area
from netsim.mobility.base import Places
from netsim.part import Part
from netsim.rng import Rng
from netsim.row_id import row_id
from netsim.units import FloatArray

NAN = float("nan")
FEWEST_DRAWS = 20  # of the band of random guesses,
GUESSES = 40  # whose draws fall beyond so many guesses: the more there are, the less draws differ


class Leakage(Part):
    """How leakage is measured."""

    directions: int = Field(default=90, ge=4, le=2000)
    """directions of the sliced Wasserstein distance"""
    max_points: int = Field(default=2000, ge=100, le=100_000)
    """true points of a UE that enter it (evenly thinned in time beyond)"""
    random_baseline_draws: int = Field(default=300, ge=1, le=10_000)
    """random attackers of the reference band; for n > 40 guesses 40 / n as many, though no fewer than 20"""
    every_rounds: int = Field(default=1, ge=1, le=1_000_000)
    """it is measured in round 1 and in every such round: with many UEs it costs more than the attacks"""
    peak_width_m: float = Field(default=75.0, gt=0)
    """kernel width of the density whose peaks an attacker would name"""
    near_m: float = Field(default=100.0, gt=0)
    """what counts as knowing a place"""
    literal_score: bool = False
    """divide `place_error_m` by the number of places, as the formula of the density paper is printed; then more places
    look less private"""
    target: str = Field(default="all", min_length=1, max_length=200)
    """whose leakage the summary speaks of: all, most-data (the UE with most measurements), or a UE by name"""

    renamed: ClassVar[dict[str, str]] = {"guess_draws": "random_baseline_draws"}


@dataclass(frozen=True)
class Now:
    """A round, as leakage sees it: truth on one side, what the attacks said on the other.

    selected_mean_m (n, 2) is the mean of what each measured row really learnt from, NaN where nothing was sent.
    """

    round: int
    measured: Local
    selected_mean_m: FloatArray
    estimates: dict[str, Estimates]
    area: Area
    places: Places


def empty() -> State:
    """Before the first round."""
    return {}


def _track(state: State, key: str) -> dict[str, Any]:
    if key not in state:
        state[key] = {
            "stride": 1,
            "seen": 0,
            "points": np.zeros((0, 2)),
            "sum_m": np.zeros(2),
            "centroids": np.zeros((0, 2)),
            "attacks": {},
        }
    return dict(state[key])


def _remember(track: dict[str, Any], points_m: FloatArray, most: int) -> None:
    """Add true points; when there are too many keep every second one, for good."""
    offset = -track["seen"] % track["stride"]
    points = np.concatenate([track["points"], points_m[offset :: track["stride"]]])
    while len(points) > most:
        points, track["stride"] = points[::2], track["stride"] * 2
    track["points"] = points
    track["seen"] += len(points_m)
    track["sum_m"] = track["sum_m"] + points_m.sum(axis=0)
    track["centroids"] = np.concatenate([track["centroids"], points_m.mean(axis=0)[None]])


def observe(how: Leakage, state: State, now: Now, rng: Rng) -> tuple[State, list[dict[str, Any]]]:
    """The next state, and one row per (UE, model) of the round and attack (see docs/records.md: leakage)."""
    rows: list[dict[str, Any]] = []
    state = dict(state)
    if now.round != 1 and now.round % how.every_rounds:
        return state, rows
    for i, (ue, model) in enumerate(zip(now.measured.ue, now.measured.model, strict=True)):
        key = f"{ue}.{model}"
        track = _track(state, key)
        _remember(track, now.measured.x[now.measured.ptr[i] : now.measured.ptr[i + 1]], how.max_points)
        if not now.estimates:  # nobody attacks: the truth is kept, and there is nothing to compare with it
            state[key] = track
            continue
        common = _Common(how, track, row_id(int(ue), int(model)), now.area, rng)
        attacks = dict(track["attacks"])
        for label, estimates in now.estimates.items():
            mine = (estimates.ue == ue) & (estimates.model == model)
            attacks[label], row = _attack(how, attacks.get(label), estimates, mine, track, common, now, i)
            rows.append({"attack": label, "ue": int(ue), "model": int(model), **row})
        state[key] = {**track, "attacks": attacks}
    return state, _with_places(how, state, now, rows)


class _Common:
    """What the attacks on one track are compared with: its points, the floor, and as many random guesses."""

    def __init__(self, how: Leakage, track: dict[str, Any], owner: int, area: Area, rng: Rng) -> None:
        self.how, self.owner, self.area, self.rng = how, owner, area, rng
        self.rounds = len(track["centroids"])
        self.points = sorted_projections(track["points"], how.directions)
        self.floor = float(sliced_w1(self.points, sorted_projections(track["centroids"], how.directions)))
        self._drawn: dict[int, dict[str, Any]] = {}

    def band(self, last: dict[str, Any], spoken: int) -> dict[str, Any]:
        """SW1 of as many uniformly random places as an attack has named centroids: mean, 5 % and 95 % quantile.

        It changes slowly: it is drawn anew when rounds or centroids have grown by a twentieth.
        """
        if spoken == 0 or (self.rounds < 1.05 * last["rounds"] and spoken < 1.05 * last["spoken"]):
            return last
        if spoken not in self._drawn:
            w1 = self._guesses_w1(spoken)
            self._drawn[spoken] = {
                "rounds": self.rounds,
                "spoken": spoken,
                "guess_sw1_m": float(w1.mean()),
                "guess_sw1_low_m": float(np.quantile(w1, 0.05)),
                "guess_sw1_high_m": float(np.quantile(w1, 0.95)),
            }
        return self._drawn[spoken]

    def _guesses_w1(self, count: int) -> FloatArray:
        """SW1 in metres of each draw; the guesses of a draw begin with those that it had when they were fewer."""
        draws = min(
            self.how.random_baseline_draws, max(self.how.random_baseline_draws * GUESSES // count, FEWEST_DRAWS)
        )
        found = []
        for some in np.array_split(np.arange(draws), max(1, draws * count // 20_000)):
            unit = self.rng.uniform("guess", np.full(len(some), self.owner), (count, 2), item=some)
            found.append(sliced_w1(self.points, sorted_projections(self.area.sample(unit), self.how.directions)))
        return np.concatenate(found)


_BAND = ("guess_sw1_m", "guess_sw1_low_m", "guess_sw1_high_m")


def _fresh() -> dict[str, Any]:
    """Before an attack has said anything; spoken: centroids that it named, named: these and other places."""
    return {
        "centroids": np.zeros((0, 2)),
        "places": np.zeros((0, 2)),
        "weights": np.zeros(0),
        "spoken": 0,
        "named": 0,
        "band": {"rounds": 0, "spoken": 0, **dict.fromkeys(_BAND, NAN)},
        "diverged": 0,
        "heard": 0,
        "stood": 0,
        "track_error_m": 0.0,
        "anchor_m": np.full((2, 2), np.nan),
        "walk_m": np.zeros(2),
    }


def _attack(
    how: Leakage,
    memory: dict[str, Any] | None,
    estimates: Estimates,
    mine: Any,
    track: dict[str, Any],
    common: _Common,
    now: Now,
    i: int,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """One attack on one UE: its memory, and the row of this round."""
    memory = dict(memory or _fresh())
    index = np.flatnonzero(mine)
    inside = now.area.contains(estimates.position_m[index])
    is_centroid, is_place, is_step = (
        np.array([estimates.what[j] == what for j in index], dtype=bool) for what in ("centroid", "place", "step")
    )
    heard = bool(is_centroid.any())
    said = estimates.position_m[index[is_centroid & inside]]
    diverged = heard and len(said) == 0
    memory["spoken"] += int(is_centroid.sum())
    memory["named"] += int((is_centroid | is_place).sum())
    memory["band"] = common.band(memory["band"], memory["spoken"])
    memory["heard"] += heard
    memory["diverged"] += diverged
    memory["centroids"] = np.concatenate([memory["centroids"], said])
    place = index[is_place & inside]
    memory["places"] = np.concatenate([memory["places"], estimates.position_m[place]])
    memory["weights"] = np.concatenate([memory["weights"], estimates.weight[place]])
    row = {
        **_round_errors(memory, said, track, now, i),
        **_distribution(how, memory, track, common),
        **_named(how, estimates.position_m[place], estimates.weight[place], track),
        **_steps(memory, estimates.position_m[index[is_step]], heard, track),
        "heard": heard,
        "diverged": diverged,
        "diverged_percent": 100.0 * memory["diverged"] / memory["heard"] if memory["heard"] else NAN,
    }
    return memory, row


def _round_errors(memory: dict[str, Any], said: FloatArray, track: dict[str, Any], now: Now, i: int) -> dict[str, Any]:
    """Errors of this round's estimate, of the last one standing, and of all of them smoothed."""
    truth = track["centroids"][-1]
    selected = now.selected_mean_m[i]
    past = memory["centroids"]
    last = past[-1] if len(past) else np.full(2, np.nan)
    memory["track_error_m"] += float(np.linalg.norm(last - truth)) if len(past) else 0.0
    memory["stood"] += len(past) > 0
    error = float(np.linalg.norm(said[0] - truth)) if len(said) else NAN
    overall = track["sum_m"] / track["seen"]
    smoothed = np.median(past, axis=0) if len(past) else np.full(2, np.nan)
    return {
        "error_m": error,
        "selected_error_m": float(np.linalg.norm(said[0] - selected)) if len(said) else NAN,
        "track_error_m": memory["track_error_m"] / memory["stood"] if len(past) else NAN,
        "smoothed_error_m": float(np.linalg.norm(smoothed - overall)),
    }


def _distribution(how: Leakage, memory: dict[str, Any], track: dict[str, Any], common: _Common) -> dict[str, Any]:
    """Sliced Wasserstein distances of everything reconstructed so far."""
    w1 = centre = NAN
    if len(memory["centroids"]):
        said = sorted_projections(memory["centroids"], how.directions)
        w1 = float(sliced_w1(common.points, said))
        centre = float(sliced_w1(sorted_projections(track["centroids"], how.directions), said))
    return {
        "sw1_m": w1,
        "emd_sqrt_m": float(np.sqrt(w1)),
        "centroid_sw1_m": centre,
        "floor_sw1_m": common.floor,
        **{name: memory["band"][name] for name in _BAND},
    }


def _with_places(how: Leakage, state: State, now: Now, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, each with how near the attack has come to its UE's home and work, all models together."""
    tracks: dict[int, list[tuple[int, dict[str, Any]]]] = {}
    for key, track in state.items():
        ue, model = map(int, key.split("."))
        tracks.setdefault(ue, []).append((model, track))
    found: dict[tuple[int, str], dict[str, float]] = {}
    for row in rows:
        ue, label = row["ue"], row["attack"]
        if (ue, label) not in found:
            ordered = sorted(tracks[ue], key=lambda pair: pair[0])
            memories = [track["attacks"][label] for _, track in ordered if label in track["attacks"]]
            found[ue, label] = _places(how, memories, now, ue)
    return [{**row, **found[row["ue"], row["attack"]]} for row in rows]


def _places(how: Leakage, memories: list[dict[str, Any]], now: Now, ue: int) -> dict[str, float]:
    """How near all estimates of a UE came to home and work, and what an attacker without the truth would name."""
    home, work = now.places.home_m[ue], now.places.work_m[ue]
    if not np.isfinite(np.concatenate([home, work])).any():  # there is nothing to be near to
        return dict.fromkeys(("home_m", "work_m", "home_named_m", "work_named_m", "guess_home_m"), NAN)
    points = np.concatenate([m[kind] for m in memories for kind in ("centroids", "places")])
    weight = np.concatenate([w for m in memories for w in (np.ones(len(m["centroids"])), m["weights"])])
    peaks = density_peaks(points, weight, now.area, how.peak_width_m, 2)
    return {
        "home_m": nearest_m(points, home),
        "work_m": nearest_m(points, work),
        "home_named_m": nearest_m(peaks, home),
        "work_named_m": nearest_m(peaks, work),
        "guess_home_m": guesses_nearest_m(home, now.area, sum(m["named"] for m in memories)),
    }


def _named(how: Leakage, position_m: FloatArray, weight: FloatArray, track: dict[str, Any]) -> dict[str, Any]:
    """How many places the attack named this round, and how far they lie from the truth, by the attack's own weights.

    Z_i = sum_j e_j |g_j - d_i| / sum_j e_j of [Zong et al., Eq. 16], there with a further 1 / K_i: `literal_score`.
    """
    count = len(weight)
    if count == 0 or not weight.sum() > 0:
        return {"places": count, "place_error_m": NAN}
    away = np.linalg.norm(position_m - track["centroids"][-1], axis=1)
    score = float(weight @ away / weight.sum())
    return {"places": count, "place_error_m": score / count if how.literal_score else score}


def _steps(memory: dict[str, Any], step_m: FloatArray, heard: bool, track: dict[str, Any]) -> dict[str, Any]:
    """Errors of the displacement since the last answer, and since the first, along the direction that the attack names.

    `still` is the error of somebody who says that nobody moved.
    """
    row = dict.fromkeys(("step_error_m", "step_still_m", "walk_error_m", "walk_still_m"), NAN)
    truth, (first, last) = track["centroids"][-1], memory["anchor_m"]
    if len(step_m):
        memory["walk_m"] = memory["walk_m"] + step_m[0]
        for name, said, since in (("step", step_m[0], last), ("walk", memory["walk_m"], first)):
            length = float(np.linalg.norm(said))
            along = float((truth - since) @ (said / length if length else step_m[0]))
            row |= {f"{name}_error_m": abs(along - length), f"{name}_still_m": abs(along)}
        memory["anchor_m"] = np.stack([first, truth])
    elif heard:  # an answer that continues nothing begins a new walk
        memory |= {"walk_m": np.zeros(2), "anchor_m": np.stack([truth, truth])}
    return row


def exact(state: State) -> dict[tuple[int, int, str], dict[str, float]]:
    """Exact W1 in metres at the end, for each (UE, model, attack): of all points, and of the true centroids.

    Sets of more than 1,000 are thinned evenly first (see `fl.leakage.distances.exact_w1`).
    """
    found = {}
    for key, track in state.items():
        ue, model = (int(word) for word in key.split("."))
        for label, memory in track["attacks"].items():
            said = memory["centroids"]
            found[ue, model, label] = {
                "w1_m": exact_w1(track["points"], said),
                "centroid_w1_m": exact_w1(track["centroids"], said),
            }
    return found


def pairs(state: State, directions: int, most: int = 30) -> list[tuple[int, int, float]]:
    """SW1 in metres between the points of every two UEs, (ue, ue, distance), for the `most` UEs with most points."""
    points: dict[int, list[FloatArray]] = {}
    for key, track in state.items():
        points.setdefault(int(key.split(".")[0]), []).append(track["points"])
    ues = sorted(sorted(points, key=lambda ue: -sum(map(len, points[ue])))[:most])
    shadows = {ue: sorted_projections(np.concatenate(points[ue]), directions) for ue in ues}
    return [(a, b, float(sliced_w1(shadows[a], shadows[b]))) for a, b in combinations(ues, 2)]
