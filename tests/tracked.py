"""The attack `tracker` on made-up estimates of known truth: 300 m a axis, one in five anywhere in
the area."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fl.attacks.base import Attack, View
from fl.attacks.learnt_errors import LearntErrors
from fl.attacks.shadow_ues import Population, positions_m
from fl.attacks.tracker import Tracker
from fl.leakage.reliability import reliability
from fl.tracking.belief import Belief, answers, expected_distance_m, in_area
from fl.tracking.place_grid import PlaceGrid
from fl.types import Estimates, Public, RoundContext
from netsim.clock import DAY_S, WEEK_S
from netsim.geometry import Area
from netsim.rng import Rng, Streams
from netsim.trace_files.read import read_trace
from netsim.traces.trace import Trace

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
    truth_m: np.ndarray
    monday_s: float = 0.0

    @property
    def moved_m(self) -> np.ndarray:
        """How far UEs moved from round to round (k,)."""
        moved = np.hypot(*np.moveaxis(np.diff(self.truth_m, axis=0), -1, 0)).reshape(-1)
        return moved[np.isfinite(moved)]

    def facts(self, number: int) -> RoundContext:
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

    ue: np.ndarray
    round: np.ndarray
    error_m: np.ndarray
    in90: np.ndarray
    stated: np.ndarray
    hit: np.ndarray
    expected_m: np.ndarray
    entropy_bits: np.ndarray

    @property
    def reliability(self) -> float:
        return reliability(np.arange(len(self.hit)), self.stated, self.hit, draws=1).error


@dataclass(frozen=True)
class Followed:
    """The same rounds in the same order: errors of the estimates by themselves, filter and
    smoother."""

    source: Source
    plain_m: np.ndarray
    filter: Scores
    smoother: Scores | None

    def gains_m(self, scores: Scores) -> np.ndarray:
        """By how much the mean error of the plain estimates exceeds that of a tracker, of each UE
        and day."""
        day = (scores.round * self.source.round_s // DAY_S).astype(int)
        _, group = np.unique(np.stack([scores.ue, day]), axis=1, return_inverse=True)
        return np.bincount(group, self.plain_m - scores.error_m) / np.bincount(group)


class Told(Attack):
    """Says what it was told of each round: centroids (T, n, 2) of UEs 0 ... n - 1."""

    kind: str = "told"
    said: object = None

    def run(self, view: View, facts: RoundContext, state: None, rng: Rng) -> tuple[Estimates, None]:
        return view.spread(
            "centroid", np.arange(len(view.ue)), self.said[facts.round][view.ue]
        ), None  # type: ignore[index]


def estimates(source: Source, seed: int = 0, bias_m: float = 0.0) -> np.ndarray:
    """Estimates (T, n, 2), NaN where a UE measured nothing or where they lie outside the area;
    bias_m of the deviation is the same in all rounds of a UE.
    """
    draw = np.random.default_rng(seed)
    truth = source.truth_m
    area = source.area
    if bias_m:
        lasting = draw.normal(0, bias_m, (1, *truth.shape[1:]))
    else:
        lasting = 0.0
    said = truth + lasting + draw.normal(0, np.sqrt(SIGMA_M**2 - bias_m**2), truth.shape)
    false = draw.uniform(size=truth.shape[:2]) < OUTLIER
    said[false] = area.low_m + draw.uniform(size=(int(false.sum()), 2)) * area.side_m
    said[~area.contains(said) | np.isnan(truth[:, :, 0])] = np.nan
    return said


def follow(
    source: Source,
    said: np.ndarray,
    hindsight: bool = True,
    moved_m: np.ndarray | None = None,
    **settings: object,
) -> Followed:
    """The tracker after each round, and in hindsight; moved_m (k,) : how far others move in a
    round, if it knows."""
    told = {"sigma_m": SIGMA_M, "outlier": OUTLIER, "cell_m": 100.0, **settings}
    attack = Tracker.model_construct(**(Tracker(**told).__dict__ | {"of": Told(said=said)}))  # type: ignore[arg-type]
    rng = Streams(0).at("attack.test")
    now = list[Scores]()
    state = attack.start()
    if moved_m is not None:
        state = replace(state, errors=LearntErrors(displacements_m=moved_m))
    for t in range(len(said)):
        there = np.flatnonzero(np.isfinite(said[t, :, 0]))
        if not len(there):
            continue
        _, state = attack.run(_view(there), source.facts(t), state, rng)
        belief = attack.belief(state, source.facts(t))
        assert belief is not None
        now.append(_scores(belief, source, there))
    later = list[Scores]()
    if hindsight:
        for belief in attack.hindsight(state, source.facts(len(said) - 1)):
            there = np.flatnonzero(np.isfinite(said[belief.round, :, 0]))
            later.append(
                _scores(belief, source, np.intersect1d(there, belief.ue))
            )  # it tells of a few UEs at a time
    filtered = _joined(now)
    smoothed = _joined(later) if hindsight else None
    plain = said[filtered.round, filtered.ue] - source.truth_m[filtered.round, filtered.ue]
    return Followed(source, np.hypot(*plain.T), filtered, smoothed)


def of_trace(
    trace: Trace, round_s: float, each_from_zero: bool = False, fewest_rounds: int = 1
) -> Source:
    """Users of a trace on one clock, or each from its own first row; only those with so many
    rounds."""
    time_s = trace.time_s
    first = np.searchsorted(trace.user, np.arange(len(trace.users)))
    if each_from_zero:
        time_s = time_s - time_s[first][trace.user]
    number = (time_s // round_s).astype(np.int64)
    key = number * len(trace.users) + trace.user
    places, row = np.unique(key, return_inverse=True)
    mean = np.stack(
        [np.bincount(row, trace.position_m[:, axis]) / np.bincount(row) for axis in (0, 1)], axis=1
    )
    truth = np.full((int(number.max()) + 1, len(trace.users), 2), np.nan)
    truth[places // len(trace.users), places % len(trace.users)] = mean
    often = np.isfinite(truth[:, :, 0]).sum(axis=0) >= fewest_rounds
    return Source(trace.area, round_s, truth[:, often], trace.local.first_day.weekday() * DAY_S)


def box(lat: float, lon: float) -> tuple[float, float, float, float]:
    """10 km x 10 km around a point."""
    north = 5.0 / 111.32
    east = north / float(np.cos(np.radians(lat)))
    return lat - north, lon - east, lat + north, lon + east


def taxis(data: Path, round_s: float, until: str) -> Source:
    trace = read_trace(
        data / "mobility_cabspotting_sf.csv.gz",
        area_deg=box(37.779, -122.413),
        timezone="America/Los_Angeles",
        since="2008-05-19",
        until=until,
    )
    return of_trace(trace, round_s)


def commuters(
    n: int,
    days: float,
    round_s: float,
    side_m: float = 10_000.0,
    seed: int = 0,
    roaming: float = 0.0,
) -> Source:
    """People with a home, and most of them a workplace, who travel between them; a share of them
    roams."""
    area = Area(0.0, 0.0, side_m, side_m)
    population = replace(Population.uniform(PlaceGrid(area, 200, 200)), roaming=roaming)
    rounds = int(days * DAY_S / round_s)
    looks = (np.arange(6) + 0.5) / 6
    time_s = ((np.arange(rounds)[:, None, None] + looks) * round_s + np.zeros((1, n, 1))).reshape(
        -1
    )
    ue = np.broadcast_to(np.arange(n)[:, None], (rounds, n, len(looks))).reshape(-1)
    place = positions_m(ue, time_s, population, Streams(seed).at("tracked"))
    return Source(area, round_s, place.reshape(rounds, n, len(looks), 2).mean(axis=2))


def _view(ue: np.ndarray) -> View:
    every = np.arange(len(ue))
    return View(
        "updates", "all", np.zeros((len(ue), 1)), every * 0, ue, every * 0, every, None, None, None
    )  # type: ignore[arg-type]


def _scores(belief: Belief, source: Source, ue: np.ndarray) -> Scores:
    p = belief.probability[np.searchsorted(belief.ue, ue)]
    truth = source.truth_m[belief.round, ue]
    said = answers(p, belief.grid, NEAR_M)
    return Scores(
        ue,
        np.full(len(ue), belief.round),
        np.hypot(*(said.place_m - truth).T),
        in_area(p, belief.grid, truth, said.least90),
        said.disc_probability,
        np.hypot(*(said.disc_m - truth).T) <= NEAR_M,
        expected_distance_m(p, belief.grid, truth),
        said.entropy_bits,
    )


def _joined(parts: list[Scores]) -> Scores:
    """Sorted by round and UE."""
    found = {
        name: np.concatenate([getattr(each, name) for each in parts])
        for name in Scores.__dataclass_fields__
    }
    order = np.lexsort((found["ue"], found["round"]))
    return Scores(**{name: values[order] for name, values in found.items()})
