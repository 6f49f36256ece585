r"""Home and workplace of a UE from estimates of many nights and days.

Estimates z_r of the rounds r of one night d have, with the home h, the likelihood

    p(z_d | h) = share prod_r e(z_r | h) + (1 - share) sum_h' pi(h') prod_r e(z_r | h'),

where share is the probability to sleep at home, pi the prior of places, and e the error of one estimate without the
part that persists (see `fl.tracking.error_model`): a night away is spent at one other place. The nights of one UE are
independent given h, so that log p(h) = log pi(h) + sum_d log p(z_d | h). The persistent part of the error displaces all
estimates of one place alike: what nights tell is the home so displaced, and the posterior is convolved with
N(0, bias_m^2). Without that step false places are named with certainty.

A workday d has the same form, and two more things are known. A UE that is not at work may be at home, so the other
part is

    a_d = stay sum_h p(h | nights) prod_r e(z_r | h) + (1 - stay) sum_h' pi(h') prod_r e(z_r | h').

And many have no workplace, or work at home: then all days are a_d. With `employed` the probability of a workplace away
from home, and home within a distance left out of the prior of workplaces,

    p(w) ~ employed pi(w) (1 - P(home near w)) prod_d [share prod_r e(z_r | w) + (1 - share) a_d],
    p(none) ~ (1 - employed) prod_d a_d.

All likelihoods are relative to 1 / A, the density of an estimate that says nothing.

Of a UE and place three numbers are kept: log-likelihood of home, of work, and of the night or workday that is not over
yet, whose rounds belong together. With 10,000 places they take 120 kB per UE.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fl.tracking.error_model import ErrorModel
from fl.tracking.motion import blurred
from fl.tracking.place_grid import PlaceGrid, disc_masses
from fl.types import RoundContext
from netsim.clock import DAY_S, WEEK_S
from netsim.columns import Columns, frozen
from netsim.units import BoolArray, Float32Array, FloatArray, IntArray

_HOUR_S = 3600.0
_LONGEST_S = 6 * _HOUR_S  # of a round that has a time of day
_WORKDAYS = 5
_APART = 2.0  # a workplace is that many times hit_radius_m from home
_BLOCK = 64  # UEs whose posteriors are computed at once

Maps = Float32Array
"""one number per place: (n, G)"""


@dataclass(frozen=True)
class Shares:
    """Habits of people: home, the share of nights at home; work, of workdays at the workplace; stay, of other workdays
    at home; employed, of people with a workplace away from home.
    """

    home: float
    work: float
    stay: float
    employed: float


@dataclass(frozen=True)
class Period:
    """A night, or the office hours of a workday: number of the day, and which of the two."""

    day: int
    night: bool


@frozen
class Hours:
    """The middle of the windows of rounds (n,) by the wall clock: number of the day (multiples of 7 are Mondays), hour,
    and whether rounds are too long to have one.
    """

    day: IntArray
    hour: FloatArray
    whole_day: bool

    @classmethod
    def of(cls, time_s: FloatArray, week_s: FloatArray, round_s: float) -> Hours:
        """Rounds of round_s that end at time_s (n,), which by the wall clock is week_s (n,)."""
        weeks = np.floor((time_s - week_s) / WEEK_S + 0.5)  # clock changes are far below half a week
        day, rest_s = np.divmod(weeks * WEEK_S + week_s - round_s / 2, DAY_S)
        return cls(day.astype(np.int64), rest_s / _HOUR_S, round_s > _LONGEST_S)

    @classmethod
    def of_round(cls, facts: RoundContext) -> Hours | None:
        """One round; None if the wall clock is unknown."""
        if not np.isfinite([facts.week_s, facts.round_s]).all():
            return None
        return cls.of(np.array([facts.time_s]), np.array([facts.week_s]), facts.round_s)

    @property
    def off(self) -> BoolArray:
        """Whether the day is a Saturday or a Sunday."""
        return self.day % 7 >= _WORKDAYS

    def period(self, home: tuple[float, float], work: tuple[float, float]) -> Period | None:
        """The night or workday that the first round is in, if it is in any, by the hours at which people are there.

        Hours that end before they begin go over midnight; the night is that of the day on which it began.
        """
        day = int(self.day[0])
        hour = float(self.hour[0])
        over_midnight = home[1] < home[0]
        early = hour < home[1]
        late = hour >= home[0]
        if (early or late) if over_midnight else (early and late):
            return Period(day - (over_midnight and early), True)
        return Period(day, False) if work[0] <= hour < work[1] and not self.off[0] else None


@frozen
class Residences(Columns):
    """Evidence about senders (k,), ascending: home, work, open (k, G) and none (k,), sums of log-likelihoods; nights,
    days (k,) : how many are in them; rounds (k,) of the period that is open: its day, and whether it is a night.
    """

    sender: IntArray
    home: Maps
    work: Maps
    open: Maps
    none: FloatArray
    nights: IntArray
    days: IntArray
    rounds: IntArray
    day: IntArray
    night: BoolArray

    @classmethod
    def nothing(cls, sender: IntArray, places: int) -> Residences:
        """Before the first round."""
        n = len(sender)
        count = np.zeros(len(sender), dtype=np.int64)
        home, work, rest = np.zeros((3, n, places), dtype=np.float32)
        return cls(sender, home, work, rest, np.zeros(n), count, count, count, count, np.zeros(n, dtype=np.bool_))

    def plus(self, sender: IntArray, log_e: Maps, period: Period, shares: Shares) -> Residences:
        """With log_e (n, G) of one round in this period, of senders (n,) ascending."""
        mine = np.isin(self.sender, sender)
        places = log_e.shape[1]
        begun = Residences.nothing(np.setdiff1d(sender, self.sender), places)
        kept = self.select(mine) if mine.any() else begun.select(slice(0))
        rows = Residences.join([kept, begun])
        rows = rows.select(np.argsort(rows.sender))
        rows = rows.closed(shares, (rows.day != period.day) | (rows.night != period.night))
        now = replace(
            rows, open=rows.open + log_e, rounds=rows.rounds + 1,
            day=np.full(len(sender), period.day), night=np.full(len(sender), period.night),
        )  # fmt: skip
        every = now if mine.all() else Residences.join([self.select(~mine), now])
        return every.select(np.argsort(every.sender))

    def closed(self, shares: Shares, over: BoolArray) -> Residences:
        """With the open periods that are over (k,) counted as they stand."""
        home = self.home.copy()
        work = self.work.copy()
        none = self.none.copy()
        prior = even_prior(self.open.shape[1])
        over = over & (self.rounds > 0)
        for some in blocks(np.flatnonzero(over & self.night)):
            log_e = self.open[some]
            home[some] += log_mixed(shares.home, log_e, log_mean(log_e, prior))
        for some in blocks(np.flatnonzero(over & ~self.night)):
            log_e = self.open[some]
            away = log_away(shares.stay, log_e, _normalised(home[some]), prior)
            work[some] += log_mixed(shares.work, log_e, away)
            none[some] += away
        return replace(
            self, home=home, work=work, open=np.where(over[:, None], np.float32(0), self.open), none=none,
            nights=self.nights + (over & self.night), days=self.days + (over & ~self.night),
            rounds=np.where(over, 0, self.rounds),
        )  # fmt: skip

    def homes(self, shares: Shares, grid: PlaceGrid, bias_m: float) -> tuple[Maps, Maps]:
        """Probabilities (k, G) of homes as estimates show them, and of true homes, which are 0 before the first night.

        The open period counts as it stands.
        """
        known = self.closed(shares, self.night)
        seen, home = home_posterior(known.home, even_prior(len(grid)), grid, bias_m)
        return seen, home * (known.nights > 0)[:, None]

    def workplaces(self, seen: Maps, shares: Shares, grid: PlaceGrid, bias_m: float, hit_radius_m: float) -> Maps:
        """Probabilities (k, G) of workplaces, of homes as estimates show them (k, G).

        They are 0 before the first workday, and before the first night: a place of the day alone may be the home of a
        UE that stays there.
        """
        known = self.closed(shares, np.ones(len(self.sender), dtype=np.bool_))
        apart = disc_masses(seen, grid, _APART * hit_radius_m)
        work = work_posterior(known.work, known.none, apart, shares.employed, even_prior(len(grid)), grid, bias_m)
        return work * ((known.days > 0) & (known.nights > 0))[:, None]


def blocks(rows: IntArray) -> Iterator[IntArray]:
    """Rows in blocks that keep memory small."""
    return (rows[i : i + _BLOCK] for i in range(0, len(rows), _BLOCK))


def even_prior(places: int) -> Maps:
    """The prior (1, G): everywhere alike."""
    return np.full((1, places), 1 / places, np.float32)


def log_evidence(z_m: FloatArray, errors: ErrorModel, grid: PlaceGrid) -> Maps:
    """log A e (n, G) of the estimates (n, R, 2) of one round; 0 of a UE of whom nothing is said."""
    e = errors.without_bias().likelihood(z_m, grid)
    return np.log(e, out=e)


def log_mean(log_e: Maps, probability: Maps) -> FloatArray:
    """log sum_h p(h) exp(log_e(h)) (n,), of maps (n, G) and probabilities (n, G) or (1, G)."""
    top = log_e.max(axis=1, keepdims=True)
    some = (np.exp(log_e - top) * probability).sum(axis=1, dtype=np.float64)
    return np.asarray(np.log(np.maximum(some, 1e-300)) + top[:, 0])


def log_mixed(share: float, log_e: Maps, log_other: FloatArray) -> Maps:
    """log(share exp(log_e) + (1 - share) exp(log_other)) (n, G), of maps (n, G) and what is elsewhere (n,)."""
    other = np.log1p(-share) + log_other
    mixed = np.logaddexp(np.float32(np.log(share)) + log_e, other[:, None].astype(np.float32))
    return np.asarray(mixed)


def log_away(stay: float, log_e: Maps, home: Maps, prior: Maps) -> FloatArray:
    """log a_d (n,): the estimates of a workday (n, G) of a UE that does not work that day."""
    here = log_mean(log_e, home)
    elsewhere = log_mean(log_e, prior)
    return np.asarray(np.logaddexp(np.log(stay) + here, np.log1p(-stay) + elsewhere))


def home_posterior(log_p: Maps, prior: Maps, grid: PlaceGrid, bias_m: float) -> tuple[Maps, Maps]:
    """p(h | nights) (n, G) as estimates show it, and of the true home: of sums of log p(z_d | h) (n, G)."""
    with np.errstate(divide="ignore"):
        seen = _normalised(log_p + np.log(prior))
    return seen, _scaled(blurred(seen, grid, bias_m))


def work_posterior(
    log_p: Maps, log_none: FloatArray, near_home: Maps, employed: float, prior: Maps, grid: PlaceGrid, bias_m: float
) -> Maps:
    """p(w) (n, G) of the true workplace; what is left to 1 is the probability that there is none away from home.

    The UE does not work away from home where no place is apart from it. log_p (n, G), log_none (n,) : sums over days of
    the logarithms of both parts; near_home (n, G) : probability that the home is near each place.
    """
    apart = prior * np.maximum(1.0 - near_home, 0.0)
    far = np.asarray(apart.any(axis=1))  # of whom some place is apart from home: not in an area as small as a disc
    with np.errstate(divide="ignore"):
        each = np.where(far[:, None], log_p + np.log(apart), np.float32(0.0))
    some = log_mean(each, np.ones((1, 1), dtype=np.float32))
    odds = np.log(employed) + some - np.log1p(-employed) - log_none
    there = np.where(far, np.exp(-np.logaddexp(0.0, -odds)), 0.0)
    shown = blurred(_normalised(each), grid, bias_m)
    return _scaled(shown) * there[:, None].astype(np.float32)


def _normalised(log_p: Maps) -> Maps:
    """Probabilities (n, G) of logarithms up to a constant."""
    return _scaled(np.exp(log_p - log_p.max(axis=1, keepdims=True)))


def _scaled(p: Maps) -> Maps:
    """Rows that sum to 1."""
    return np.asarray(p / p.sum(axis=1, keepdims=True, dtype=np.float64).astype(np.float32))
