"""The attack `tracker` on made-up estimates of known truth: 300 m a axis, one in five anywhere in
the area."""

from dataclasses import astuple, dataclass, replace

import numpy as np

from fl.attacks.base import Attack, View
from fl.attacks.learnt_errors import LearntErrors
from fl.attacks.shadow_ues import Population, simulate_positions
from fl.attacks.tracker import Tracker
from fl.leakage.reliability import measure_reliability
from fl.tracking.belief import (
    answer_beliefs,
    compute_expected_distances_m,
    is_in_credible_area,
)
from fl.tracking.place_grid import PlaceGrid
from fl.types import Public, RoundContext
from netsim.clock import DAY_S, WEEK_S
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.trace_files.read import read_trace

Array = np.ndarray
SIGMA_M = 300.0
OUTLIER = 0.2
NEAR_M = 100.0


@dataclass(frozen=True)
class Source:
    """Where UEs were: truth_m (T, n, 2), the mean place of each round, NaN where a UE measured
    nothing.

    monday_s : time from a Monday's midnight to the first round's begin.
    """

    area: Area
    round_s: float
    truth_m: Array
    monday_s: float = 0.0

    @property
    def moved_m(self):
        """How far UEs moved from round to round (k,)."""
        moved = np.hypot(*np.moveaxis(np.diff(self.truth_m, axis=0), -1, 0)).reshape(-1)
        return moved[np.isfinite(moved)]

    def facts(self, number):
        """Of a round at its end."""
        time_s = (number + 1) * self.round_s
        week_s = (self.monday_s + time_s) % WEEK_S
        return RoundContext(
            number, time_s, Public(self.area, 1), round_s=self.round_s, week_s=week_s
        )


@dataclass(frozen=True)
class Scores:
    """Answers against truth, one a UE and round that has an estimate: ue, round; distances error_m;
    in90: truth in the area of 90 %; stated, hit: probability of the best disc of 100 m, and whether
    the truth was in it; of the whole belief expected_m: distance from the truth, and entropy_bits.
    """

    ue: Array
    round: Array
    error_m: Array
    in90: Array
    stated: Array
    hit: Array
    expected_m: Array
    entropy_bits: Array

    @property
    def reliability(self):
        return measure_reliability(np.arange(len(self.hit)), self.stated, self.hit, draws=1).error


@dataclass(frozen=True)
class Followed:
    """The same rounds in the same order: errors of the estimates by themselves, filter and
    smoother."""

    source: Source
    plain_m: Array
    filter: Scores
    smoother: Scores | None

    def gains_m(self, scores):
        """By how much the mean error of the plain estimates exceeds that of a tracker, of each UE
        and day."""
        day = (scores.round * self.source.round_s // DAY_S).astype(int)
        _, group = np.unique(np.stack([scores.ue, day]), axis=1, return_inverse=True)
        return np.bincount(group, self.plain_m - scores.error_m) / np.bincount(group)


class Told(Attack):
    """Says what it was told of each round: centroids (T, n, 2) of UEs 0 ... n - 1."""

    kind: str = "told"
    said: object = None

    def run(self, view, facts, state, rng):
        return view.build_estimates(
            "centroid", np.arange(len(view.ue)), self.said[facts.round][view.ue]
        ), None


def estimates(source, seed=0, bias_m=0.0):
    """Estimates (T, n, 2), NaN where a UE measured nothing or where they lie outside the area;
    bias_m of the deviation is the same in all rounds of a UE.
    """
    draw = np.random.default_rng(seed)
    truth = source.truth_m
    area = source.area
    z_m = truth + draw.normal(0, bias_m, (1, *truth.shape[1:])) if bias_m else truth
    z_m = z_m + draw.normal(0, np.sqrt(SIGMA_M**2 - bias_m**2), truth.shape)
    false = draw.uniform(size=truth.shape[:2]) < OUTLIER
    z_m[false] = area.low_m + draw.uniform(size=(int(false.sum()), 2)) * area.side_m
    z_m[~area.contains(z_m) | np.isnan(truth[:, :, 0])] = np.nan
    return z_m


def follow(source, z_m, hindsight=True, moved_m=None, **settings):
    """The tracker after each round, and in hindsight; moved_m (k,) : how far others move in a
    round, if it knows."""
    tracker = Tracker(**{"sigma_m": SIGMA_M, "outlier": OUTLIER, "cell_m": 100.0} | settings)
    attack = Tracker.model_construct(**tracker.__dict__ | {"of": Told(said=z_m)})
    rng = Streams(0).derive_rng("attack.test")
    state = attack.start()
    if moved_m is not None:
        state = replace(state, errors=LearntErrors(displacements_m=moved_m))
    is_named = np.isfinite(z_m[:, :, 0])
    filtered = []
    for t in np.flatnonzero(is_named.any(axis=1)).tolist():
        ue = np.flatnonzero(is_named[t])
        facts = source.facts(t)
        _, state = attack.run(view_of(ue), facts, state, rng)
        filtered.append(_score(attack.belief(state, facts), source, ue))
    smoothed = []
    if hindsight:
        for belief in attack.smooth_beliefs(
            state, source.facts(len(z_m) - 1)
        ):  # of a few UEs at a time
            ue = belief.ue[is_named[belief.round, belief.ue]]
            smoothed.append(_score(belief, source, ue))
    scores = _join(filtered)
    error_m = z_m[scores.round, scores.ue] - source.truth_m[scores.round, scores.ue]
    return Followed(source, np.hypot(*error_m.T), scores, _join(smoothed) if hindsight else None)


def from_trace(trace, round_s, each_from_zero=False, fewest_rounds=1):
    """Users of a trace on one clock, or each from its own first row; only those with so many
    rounds."""
    n = len(trace.users)
    time_s = trace.time_s
    if each_from_zero:
        first = np.searchsorted(trace.user, np.arange(n))
        time_s = time_s - time_s[first][trace.user]
    number = (time_s // round_s).astype(int)
    places, row, count = np.unique(number * n + trace.user, return_inverse=True, return_counts=True)
    truth = np.full(((int(number.max()) + 1) * n, 2), np.nan)
    for axis in (0, 1):
        truth[places, axis] = np.bincount(row, trace.position_m[:, axis]) / count
    truth = truth.reshape(-1, n, 2)
    often = np.isfinite(truth[:, :, 0]).sum(axis=0) >= fewest_rounds
    return Source(trace.area, round_s, truth[:, often], trace.local.first_day.weekday() * DAY_S)


def box(lat, lon):
    """10 km x 10 km around a point."""
    north = 5.0 / 111.32
    east = north / float(np.cos(np.radians(lat)))
    return lat - north, lon - east, lat + north, lon + east


def taxis(data, round_s, until):
    trace = read_trace(
        data / "mobility_cabspotting_sf.csv.gz",
        area_deg=box(37.779, -122.413),
        timezone="America/Los_Angeles",
        since="2008-05-19",
        until=until,
    )
    return from_trace(trace, round_s)


def commuters(n, days, round_s, side_m=10_000.0, seed=0, roaming=0.0):
    """People with a home, and most of them a workplace, who travel between them; a share of them
    roams."""
    area = Area(0.0, 0.0, side_m, side_m)
    population = replace(Population.uniform(PlaceGrid(area, 200, 200)), roaming=roaming)
    rounds = int(days * DAY_S / round_s)
    shape = (rounds, n, 6)
    number, ue, look = np.indices(shape).reshape(3, -1)
    time_s = (number + (look + 0.5) / 6) * round_s
    place = simulate_positions(ue, time_s, population, Streams(seed).derive_rng("tracked"))
    return Source(area, round_s, place.reshape(*shape, 2).mean(axis=2))


def view_of(ue):
    number = np.arange(len(ue))
    rows = (np.zeros((len(ue), 1)), 0 * number, ue, 0 * number, number)
    return View("updates", "all", *rows, None, None, None)


def _score(belief, source, ue):
    p = belief.probability[np.searchsorted(belief.ue, ue)]
    truth = source.truth_m[belief.round, ue]
    answers = answer_beliefs(p, belief.grid, NEAR_M)
    return Scores(
        ue,
        np.full(len(ue), belief.round),
        np.hypot(*(answers.place_m - truth).T),
        is_in_credible_area(p, belief.grid, truth, answers.least90),
        answers.disc_probability,
        np.hypot(*(answers.disc_m - truth).T) <= NEAR_M,
        compute_expected_distances_m(p, belief.grid, truth),
        answers.entropy_bits,
    )


def _join(parts):
    """Sorted by round and UE."""
    columns = [np.concatenate(column) for column in zip(*map(astuple, parts), strict=True)]
    order = np.lexsort(columns[:2])
    return Scores(*(column[order] for column in columns))
