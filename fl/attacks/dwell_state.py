"""State of the attack `dwell`: estimates with the time of day at which they were made, and its places."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fl.attacks.learnt_errors import LearntErrors
from fl.tracking.error_model import ErrorModel
from fl.tracking.lifetimes import Lifetimes
from fl.tracking.residence import Period, Residences
from fl.tracking.visited import EstimatesOfUe
from fl.types import RoundContext, State
from netsim.clock import DAY_S, WEEK_S
from netsim.columns import Columns, frozen, no_floats, no_ints, no_places
from netsim.units import BoolArray, FloatArray, IntArray

_HOUR_S = 3600.0
_LONGEST_S = 6 * _HOUR_S  # of a round that has a time of day
_WORKDAYS = 5
MOST_THIRDS = 8


@dataclass(frozen=True)
class Hours:
    """The middle of a round's window by the wall clock: number of the day (multiples of 7 are Mondays), hour, and
    whether the round is too long to have one.
    """

    day: int
    hour: float
    whole_day: bool

    @classmethod
    def of(cls, facts: RoundContext) -> Hours | None:
        """None if the wall clock is unknown."""
        if not np.isfinite([facts.week_s, facts.round_s]).all():
            return None
        weeks = np.floor((facts.time_s - facts.week_s) / WEEK_S + 0.5)  # clock changes are far below half a week
        day, rest_s = divmod(weeks * WEEK_S + facts.week_s - facts.round_s / 2, DAY_S)
        return cls(int(day), float(rest_s) / _HOUR_S, facts.round_s > _LONGEST_S)

    @property
    def off(self) -> bool:
        """Whether the day is a Saturday or a Sunday."""
        return self.day % 7 >= _WORKDAYS

    def period(self, home: tuple[float, float], work: tuple[float, float]) -> Period | None:
        """The night or workday that the round is in, if it is in any, by the hours at which people are there.

        Hours that end before they begin go over midnight; the night is that of the day on which it began.
        """
        over_midnight, early = home[1] < home[0], self.hour < home[1]
        late = self.hour >= home[0]
        if (early or late) if over_midnight else (early and late):
            return Period(self.day - (over_midnight and early), True)
        return Period(self.day, False) if work[0] <= self.hour < work[1] and not self.off else None


@frozen
class NamedSoFar(Columns):
    """Places named so far (m,), each of a rank of an estimate: owner, z_m (m, 2), spread_m, right, of_class, day."""

    CLASSES: ClassVar[int] = 48

    owner: IntArray = field(default_factory=no_ints)
    z_m: FloatArray = field(default_factory=no_places)
    spread_m: FloatArray = field(default_factory=no_floats)
    right: FloatArray = field(default_factory=no_floats)
    of_class: IntArray = field(default_factory=no_ints)
    day: IntArray = field(default_factory=no_ints)

    def plus(self, names: IntArray, z_m: FloatArray, errors: ErrorModel, hours: Hours) -> NamedSoFar:
        """With estimates (k, R, 2) of UEs names (k,): class of time is the hour, of days off 24 more; of whole days,
        whether it is off, and 2 more where several places were named.

        A place that stands at several ranks counts once, at that of the largest share.
        """
        own, ranks = errors.without_bias(), z_m.shape[1]
        gain, share, sigma = (np.broadcast_to(of, (ranks,)) for of in (own.gain, own.share, own.sigma_m))
        named = np.isfinite(z_m).all(axis=2)
        part = np.where(named, share, 0.0)
        part = np.asarray(part / np.maximum(part.sum(axis=1, keepdims=True), 1e-300))
        there = named & ~_has_better(z_m, part)
        of_class = np.full(there.shape, int(hours.hour) + 24 * hours.off)
        if hours.whole_day:  # all of its places may be right
            part = np.ones(there.shape)
            of_class = np.broadcast_to(hours.off + 2 * (there.sum(axis=1) > 1)[:, None], there.shape)
        row, rank = np.nonzero(there)
        offset = np.broadcast_to(own.offset_m, (ranks, 2))
        place_m = (z_m[row, rank] - offset[rank]) / gain[rank, None]
        new = NamedSoFar(
            names[row], place_m, sigma[rank] / gain[rank], (1.0 - own.outlier) * part[row, rank], of_class[row, rank],
            np.full(len(row), hours.day),
        )  # fmt: skip
        return self.join([self, new])

    def of(self, ue: int) -> EstimatesOfUe:
        """Estimates of one UE."""
        mine = self.owner == ue
        return EstimatesOfUe(self.z_m[mine], self.spread_m[mine], self.right[mine], self.of_class[mine], self.day[mine])

    def count(self, names: IntArray) -> IntArray:
        """Number of estimates of each UE (k,), names ascending."""
        row = np.searchsorted(names, self.owner)
        mine = row < len(names)
        mine[mine] = names[row[mine]] == self.owner[mine]
        return np.bincount(row[mine], minlength=len(names))


def _has_better(z_m: FloatArray, share: FloatArray) -> BoolArray:
    """Which ranks of estimates (k, R, 2) name a place that a rank of larger share (k, R) names, or an earlier one."""
    equal = (z_m[:, :, None] == z_m[:, None]).all(axis=3)
    ranks = np.arange(z_m.shape[1])
    tie = (share[:, :, None] == share[:, None]) & (ranks[:, None] > ranks)
    return np.asarray((equal & ((share[:, :, None] < share[:, None]) | tie)).any(axis=2))


@frozen
class DwellPlaces(Columns):
    """Places to name: owner (k,) ascending, place_m (k, P, 2) and probability (k, P) of home, work and third
    places; looked (k,) : number of estimates at the search for third places.
    """

    owner: IntArray
    place_m: FloatArray
    probability: FloatArray
    looked: IntArray

    PLACES: ClassVar[tuple[str, ...]] = ("home", "work", *(f"third {k + 1}" for k in range(MOST_THIRDS)))

    @classmethod
    def empty(cls) -> DwellPlaces:
        """Before any estimate."""
        places = len(cls.PLACES)
        none = no_ints()
        return cls(none, np.zeros((0, places, 2)), np.zeros((0, places)), none)

    def with_rows(self, names: IntArray) -> DwellPlaces:
        """A copy with rows for these UEs too."""
        every = np.union1d(self.owner, names)
        new = DwellPlaces(
            every, np.full((len(every), len(self.PLACES), 2), np.nan), np.zeros((len(every), len(self.PLACES))),
            np.zeros(len(every), dtype=np.int64),
        )  # fmt: skip
        at = np.searchsorted(every, self.owner)
        new.place_m[at], new.probability[at], new.looked[at] = self.place_m, self.probability, self.looked
        return new

    def home_and_work(self, names: IntArray, place_m: FloatArray, probability: FloatArray) -> DwellPlaces:
        """With home and work (k, 2, 2) of UEs that have rows."""
        at = np.searchsorted(self.owner, names)
        places, p = self.place_m.copy(), self.probability.copy()
        places[at, :2], p[at, :2] = place_m, probability
        return replace(self, place_m=places, probability=p)

    def thirds(self, ue: int, place_m: FloatArray, probability: FloatArray, looked: int) -> DwellPlaces:
        """With the third places (j, 2) of one UE, and no others."""
        at, until = int(np.searchsorted(self.owner, ue)), 2 + len(place_m)
        places, p, seen = self.place_m.copy(), self.probability.copy(), self.looked.copy()
        places[at, 2:], p[at, 2:], seen[at] = np.nan, 0.0, looked
        places[at, 2:until], p[at, 2:until] = place_m, probability
        return replace(self, place_m=places, probability=p, looked=seen)

    def grown(self, names: IntArray, count: IntArray) -> BoolArray:
        """Whether the estimates of a UE (k,), count (k,), have grown by a tenth since the search for third places."""
        return np.asarray(count >= np.maximum(1.1 * self.looked[np.searchsorted(self.owner, names)], 2.0))

    def sure(self, ue: int, least: float) -> FloatArray:
        """Home and work (<= 2, 2) of a UE, as far as they are named."""
        at = int(np.searchsorted(self.owner, ue))
        return self.place_m[at, :2][self.probability[at, :2] >= max(least, 1e-9)]

    def recalled(self, ues: IntArray) -> tuple[FloatArray, FloatArray]:
        """Places (n, P, 2) and probabilities (n, P) of any UEs (n,), NaN and 0 where nothing is known."""
        known = self.with_rows(ues)
        at = np.searchsorted(known.owner, ues)
        return known.place_m[at], known.probability[at]


@dataclass(frozen=True)
class DwellState:
    """of : state of the wrapped attack; errors : learnt on UEs made up; past : what nights and workdays said; heard :
    all that was named; named : what of it would be answered, all three of the names that are followed now; lifetimes :
    of all names; precision, bias : sums over rounds of what estimates tell, and of bias_m^2 weighted by it.
    """

    of: State
    errors: LearntErrors
    past: Residences
    heard: NamedSoFar
    named: DwellPlaces
    precision: float = 0.0
    bias: float = 0.0
    lifetimes: Lifetimes = field(default_factory=Lifetimes)

    def followed(self, lifetimes: Lifetimes) -> DwellState:
        """Without the names that are given up."""
        follows, past = lifetimes.follows, self.past
        if follows(self.named.owner).all():
            return replace(self, lifetimes=lifetimes)
        return replace(
            self, lifetimes=lifetimes, past=past.rows(np.flatnonzero(follows(past.owner))),
            heard=self.heard.select(follows(self.heard.owner)), named=self.named.select(follows(self.named.owner)),
        )  # fmt: skip

    def with_errors(self, errors: ErrorModel) -> DwellState:
        """After one more round of estimates with these errors."""
        more = errors.precision
        return replace(self, precision=self.precision + more, bias=self.bias + more * errors.bias_m**2)

    @property
    def lasting_m(self) -> float:
        """The part of errors that persists, in what all rounds tell together: those count most that tell most."""
        return float(np.sqrt(self.bias / self.precision)) if self.precision > 0 else 0.0
