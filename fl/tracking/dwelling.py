r"""Home and workplace of a UE from estimates of many nights and days.

Estimates z_r of the rounds r of one night d have, with the home h, the likelihood

    p(z_d | h) = share prod_r e(z_r | h) + (1 - share) sum_h' pi(h') prod_r e(z_r | h'),

where share is the probability to sleep at home, pi the prior of places, and e the error of one
estimate without the part that persists (see `fl.tracking.error_model`): a night away is spent at
one other place. The nights of one UE are independent given h, so that log p(h) = log pi(h) + sum_d
log p(z_d | h). The persistent part of the error displaces all estimates of one place alike: what
nights tell is the home so displaced, and the posterior is convolved with N(0, bias_m^2). Without
that step false places are named with certainty.

A workday d has the same form, and two more things are known. A UE that is not at work may be at
home, so the other part is

    a_d = stay sum_h p(h | nights) prod_r e(z_r | h) + (1 - stay) sum_h' pi(h') prod_r e(z_r | h').

And many have no workplace, or work at home: then all days are a_d. With `employed` the probability
of a workplace away from home, and home within a distance left out of the prior of workplaces,

    p(w) ~ employed pi(w) (1 - P(home near w)) prod_d [share prod_r e(z_r | w) + (1 - share) a_d],
    p(none) ~ (1 - employed) prod_d a_d.

All likelihoods are relative to 1 / A, the density of an estimate that says nothing.

Of a UE and place three numbers are kept: log-likelihood of home, of work, and of the night or
workday that is not over yet, whose rounds belong together. With 10,000 places they take 120 kB per
UE.

**Places that a UE visits again and again** are a mixture of estimates. An estimate z_n of spread
sigma_n, right with probability w_n, has with places x_j, visited in its class c_n of time with the
shares a_cj, the density

    p(z_n) = w_n sum_j a_cj N(z_n; x_j, sigma_n^2 I) + (1 - w_n sum_j a_cj) / A.

Shares of a class are drawn to those of all classes, as if by `_PRIOR` more estimates. EM finds
places and shares. A place is there with odds exp(gain of log-likelihood - cost). Its share costs
log n: the shares of habits may be small, and twice the 1/2 log n of BIC is what an even prior of
shares costs there. Its position costs log(A / (2 pi s^2)), where s^2 is the variance per axis that
is left of it: BIC's log n leaves out A / sigma^2, and two estimates that lie together by chance
would make a place. What was right of m estimates is displaced by an error of variance s^2 +
bias_m^2 = sigma^2 / m + bias_m^2 per axis, so that

    P(within hit_radius_m) = P(it is there) [1 - exp(-hit_radius_m^2 / 2 (sigma^2 / m + bias_m^2))].

`home_and_work` knows the shares instead, of days on and off work, for rounds as long as a day,
which have no hours. It asks which of two places is home: the other order has the likelihood L', so
that P(home) = L / (L + L').
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fl.tracking.chain import blurred
from fl.tracking.error_model import ErrorModel
from fl.tracking.place_grid import PlaceGrid, disc_masses
from fl.types import RoundContext
from netsim.clock import DAY_S, WEEK_S
from netsim.columns import Columns, evenly, frozen, no_places
from netsim.units import BoolArray, Float32Array, FloatArray, IntArray

_HOUR_S = 3600.0
_LONGEST_S = 6 * _HOUR_S  # of a round that has a time of day
_WORKDAYS = 5
_APART = 2.0  # a workplace is that many times hit_radius_m from home
_BLOCK = 64  # UEs whose posteriors are computed at once
_PRIOR = 20.0
_EM_STEPS = 40
_SUREST = 0.999  # probability that an estimate is of one of the places, at most
_LEAST_DAYS = 2  # of which a place that is visited again has estimates
_TRIES = 3  # places that are fitted for one that is named, at most
_MOST_SEEDS = 400  # estimates at which a new place is looked for

Maps = Float32Array
"""one number per place: (n, G)"""


@dataclass(frozen=True)
class Shares:
    """Habits of people: home, the share of nights at home; work, of workdays at the workplace;
    stay, of other workdays at home; employed, of people with a workplace away from home.
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
    """The middle of the windows of rounds (n,) by the wall clock: number of the day (multiples of 7
    are Mondays), hour, and whether rounds are too long to have one.
    """

    day: IntArray
    hour: FloatArray
    whole_day: bool

    @classmethod
    def of(cls, time_s: FloatArray, week_s: FloatArray, round_s: float) -> Hours:
        """Rounds of round_s that end at time_s (n,), which by the wall clock is week_s (n,)."""
        weeks = np.floor(
            (time_s - week_s) / WEEK_S + 0.5
        )  # clock changes are far below half a week
        day, rest_s = np.divmod(weeks * WEEK_S + week_s - round_s / 2, DAY_S)
        return cls(day.astype(int), rest_s / _HOUR_S, round_s > _LONGEST_S)

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
        """The night or workday that the first round is in, if it is in any, by the hours at which
        people are there.

        Hours that end before they begin go over midnight; the night is that of the day on which it
        began.
        """
        day = self.day[0]
        hour = self.hour[0]
        over_midnight = home[1] < home[0]
        early = hour < home[1]
        late = hour >= home[0]
        if (early or late) if over_midnight else (early and late):
            return Period(day - (over_midnight and early), True)
        if work[0] <= hour < work[1] and not self.off[0]:
            return Period(day, False)
        return None


@frozen
class Residences(Columns):
    """Evidence about senders (k,), ascending: home, work, open (k, G) and none (k,), sums of
    log-likelihoods; nights, days (k,) : how many are in them; rounds (k,) of the period that is
    open: its day, and whether it is a night.
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
        count = np.zeros(n, dtype=int)
        home, work, rest = np.zeros((3, n, places), dtype=np.float32)
        return cls(
            sender,
            home,
            work,
            rest,
            np.zeros(n),
            count,
            count,
            count,
            count,
            np.zeros(n, dtype=bool),
        )

    def plus(self, sender: IntArray, log_e: Maps, period: Period, shares: Shares) -> Residences:
        """With log_e (n, G) of one round in this period, of senders (n,) ascending."""
        begun = Residences.nothing(np.setdiff1d(sender, self.sender), log_e.shape[1])
        every = self
        if len(begun.sender):
            every = Residences.join([self, begun]) if len(self.sender) else begun
            every = every.select(np.argsort(every.sender))
        at = np.searchsorted(every.sender, sender)
        rows = every.select(at)
        rows = rows.closed(shares, (rows.day != period.day) | (rows.night != period.night))
        day, night = (np.full(len(sender), value) for value in (period.day, period.night))
        return every.replaced(
            at, replace(rows, open=rows.open + log_e, rounds=rows.rounds + 1, day=day, night=night)
        )

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
            self,
            home=home,
            work=work,
            open=np.where(over[:, None], np.float32(0), self.open),
            none=none,
            nights=self.nights + (over & self.night),
            days=self.days + (over & ~self.night),
            rounds=np.where(over, 0, self.rounds),
        )

    def homes(self, shares: Shares, grid: PlaceGrid, bias_m: float) -> tuple[Maps, Maps]:
        """Probabilities (k, G) of homes as estimates show them, and of true homes, which are 0
        before the first night.

        The open period counts as it stands.
        """
        known = self.closed(shares, self.night)
        seen, home = home_posterior(known.home, even_prior(len(grid)), grid, bias_m)
        return seen, home * (known.nights > 0)[:, None]

    def workplaces(
        self, seen: Maps, shares: Shares, grid: PlaceGrid, bias_m: float, hit_radius_m: float
    ) -> Maps:
        """Probabilities (k, G) of workplaces, of homes as estimates show them (k, G).

        They are 0 before the first workday, and before the first night: a place of the day alone
        may be the home of a UE that stays there.
        """
        known = self.closed(shares, np.ones(len(self.sender), dtype=bool))
        apart = disc_masses(seen, grid, _APART * hit_radius_m)
        work = work_posterior(
            known.work, known.none, apart, shares.employed, even_prior(len(grid)), grid, bias_m
        )
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
    some = (np.exp(log_e - top) * probability).sum(axis=1, dtype=float)
    return np.log(np.maximum(some, 1e-300)) + top[:, 0]


def log_mixed(share: float, log_e: Maps, log_other: FloatArray) -> Maps:
    """log(share exp(log_e) + (1 - share) exp(log_other)) (n, G), of maps (n, G) and what is
    elsewhere (n,).
    """
    other = np.log1p(-share) + log_other
    return np.logaddexp(np.float32(np.log(share)) + log_e, other[:, None].astype(np.float32))


def log_away(stay: float, log_e: Maps, home: Maps, prior: Maps) -> FloatArray:
    """log a_d (n,): the estimates of a workday (n, G) of a UE that does not work that day."""
    here = log_mean(log_e, home)
    elsewhere = log_mean(log_e, prior)
    return np.logaddexp(np.log(stay) + here, np.log1p(-stay) + elsewhere)


def home_posterior(log_p: Maps, prior: Maps, grid: PlaceGrid, bias_m: float) -> tuple[Maps, Maps]:
    """p(h | nights) (n, G) as estimates show it, and of the true home: of sums of log p(z_d | h)
    (n, G).
    """
    with np.errstate(divide="ignore"):
        seen = _normalised(log_p + np.log(prior))
    return seen, _scaled(blurred(seen, grid, bias_m))


def work_posterior(
    log_p: Maps,
    log_none: FloatArray,
    near_home: Maps,
    employed: float,
    prior: Maps,
    grid: PlaceGrid,
    bias_m: float,
) -> Maps:
    """p(w) (n, G) of the true workplace; what is left to 1 is the probability that there is none
    away from home.

    The UE does not work away from home where no place is apart from it. log_p (n, G), log_none (n,)
    : sums over days of the logarithms of both parts; near_home (n, G) : probability that the home
    is near each place.
    """
    apart = prior * np.maximum(1.0 - near_home, 0.0)
    far = apart.any(
        axis=1
    )  # of whom some place is apart from home: not in an area as small as a disc
    with np.errstate(divide="ignore"):
        each = np.where(far[:, None], log_p + np.log(apart), np.float32(0.0))
    some = log_mean(each, np.ones((1, 1), dtype=np.float32))
    odds = np.log(employed) + some - np.log1p(-employed) - log_none
    there = np.where(far, np.exp(-np.logaddexp(0.0, -odds)), 0.0)
    return _scaled(blurred(_normalised(each), grid, bias_m)) * there[:, None].astype(np.float32)


def _normalised(log_p: Maps) -> Maps:
    """Probabilities (n, G) of logarithms up to a constant."""
    return _scaled(np.exp(log_p - log_p.max(axis=1, keepdims=True)))


def _scaled(p: Maps) -> Maps:
    return p / p.sum(axis=1, keepdims=True, dtype=float).astype(np.float32)


@frozen
class EstimatesOfUe:
    """Estimates of one UE: z_m (n, 2), spread_m and right (n,), class of time (n,) and number of
    the day (n,); in an area of area_m2, with errors of which bias_m persists, for places that are
    right within hit_radius_m.
    """

    z_m: FloatArray
    spread_m: FloatArray
    right: FloatArray
    of_class: IntArray
    day: IntArray
    area_m2: float
    bias_m: float
    hit_radius_m: float

    def density(self, place_m: FloatArray) -> FloatArray:
        """N(z_n; x_j, sigma_n^2 I) (n, k)."""
        square = ((self.z_m[:, None] - place_m) ** 2).sum(axis=2)
        variance = self.spread_m[:, None] ** 2
        return np.exp(-square / (2 * variance)) / (2 * np.pi * variance)

    def fitted(
        self, place_m: FloatArray, share: FloatArray, known: int | None = None
    ) -> FittedPlaces:
        """EM over places (k, 2) with shares (C, k); where the first `known` places stay, shares are
        learnt as well.
        """
        found = self._expected(place_m, share)
        of_class = (np.arange(len(share))[:, None] == self.of_class).astype(float)
        counted = of_class @ self.right
        for _ in range(_EM_STEPS):
            if known is not None:
                visits = of_class @ found.mine
                overall = (visits.sum(axis=0) + 0.5) / (counted.sum() + 0.5 * (len(place_m) + 1))
                share = (visits + _PRIOR * overall) / (
                    np.maximum(counted, visits.sum(axis=1)) + _PRIOR
                )[:, None]
            found = self._expected(self._moved(found, known or 0), share)
        return found

    def _expected(self, place_m: FloatArray, share: FloatArray) -> FittedPlaces:
        """Responsibilities and log-likelihood of places and shares (C, k)."""
        prior = self.right[:, None] * share[self.of_class]
        prior *= _SUREST / np.maximum(
            prior.sum(axis=1, keepdims=True), _SUREST
        )  # where more lie there than errors say
        each = prior * self.density(place_m)
        whole = each.sum(axis=1) + (1.0 - prior.sum(axis=1)) / self.area_m2
        return FittedPlaces(place_m, each / whole[:, None], float(np.log(whole).sum()))

    def _moved(self, found: FittedPlaces, known: int) -> FloatArray:
        """Means (k, 2) of the estimates by responsibility; the first `known` places stay."""
        weight = found.mine / self.spread_m[:, None] ** 2
        total = weight.sum(axis=0)[:, None]
        mean = np.divide(weight.T @ self.z_m, total, out=found.place_m.copy(), where=total > 0)
        mean[:known] = found.place_m[:known]
        return mean

    def within(self, found: FittedPlaces) -> FloatArray:
        """P(a place is within hit_radius_m of what EM says) (k,), if it is there."""
        return -np.expm1(
            -(self.hit_radius_m**2) / (2 * (self._variance_m2(found) + self.bias_m**2))
        )

    def costs(self, found: FittedPlaces, shares: bool = True) -> FloatArray:
        """Log-likelihood that each place (k,) costs, with its share where that is not known."""
        position = np.maximum(np.log(self.area_m2 / (2 * np.pi * self._variance_m2(found))), 0.0)
        return position + shares * np.log(max(len(self.z_m), 1))

    def _variance_m2(self, found: FittedPlaces) -> FloatArray:
        """Variance a axis (k,) of each place, as far as estimates differ from round to round."""
        return 1.0 / np.maximum((found.mine / self.spread_m[:, None] ** 2).sum(axis=0), 1e-30)

    def densest_m(self, found: FittedPlaces, right: FloatArray) -> FloatArray:
        """The estimate (2,) around which most of the others (n,) lie, weighed by what places leave
        unexplained.
        """
        left = right * np.maximum(1.0 - found.mine.sum(axis=1), 0.0)
        some = evenly(len(left), _MOST_SEEDS)
        return self.z_m[some[np.argmax(left @ self.density(self.z_m[some]))]]


@frozen
class FittedPlaces:
    """Places (k, 2), responsibilities (n, k) of them, and the log-likelihood."""

    place_m: FloatArray
    mine: FloatArray
    log_likelihood: float

    def apart(self, hit_radius_m: float) -> BoolArray:
        """Which places (k,) are further than hit_radius_m from all places before them."""
        away_m = np.linalg.norm(self.place_m[:, None] - self.place_m, axis=2)
        return ~np.tril(away_m <= hit_radius_m, -1).any(axis=1)


def habits(said: EstimatesOfUe, known_m: FloatArray, classes: int, most: int) -> FloatArray:
    """Places (k, 3) besides those known (j, 2), at most `most`, as long as each makes all estimates
    more likely; the most visited first: x, y, and the probability that it lies within hit_radius_m
    of one that is visited.

    A place within hit_radius_m of one that is there already explains estimates, but is no other
    place.
    """
    known = len(known_m)

    def fitted(place_m: FloatArray) -> FittedPlaces:
        return said.fitted(
            place_m, np.full((classes, len(place_m)), 0.8 / max(len(place_m), 1)), known
        )

    found = fitted(known_m)
    odds = np.zeros(0)
    while found.apart(said.hit_radius_m)[known:].sum() < most and len(odds) < _TRIES * most:
        seed_m = said.densest_m(found, said.right)  # where most of what is not explained yet lies
        more = fitted(np.concatenate([found.place_m, seed_m[None]]))
        gain = more.log_likelihood - found.log_likelihood - said.costs(more)[-1]
        days = np.unique(
            said.day[more.mine[:, -1] > 0.5]
        )  # with an estimate that is probably of this place
        if gain <= 0 or len(days) < _LEAST_DAYS:
            break
        found = more
        odds = np.append(odds, gain)
    new = np.flatnonzero(found.apart(said.hit_radius_m)[known:])
    order = new[np.argsort(-found.mine[:, known + new].sum(axis=0), kind="stable")]
    within = said.within(found)[known:] / (1.0 + np.exp(-odds))
    return np.column_stack([found.place_m[known + order], within[order]])


def home_and_work(said: EstimatesOfUe, share: FloatArray) -> FloatArray:
    """Home and workplace (2, 3) of shares (C, 2) that are known: x, y and probability, NaN where
    there is none.
    """
    none = FittedPlaces(
        no_places(), np.zeros((len(said.z_m), 0)), -len(said.z_m) * np.log(said.area_m2)
    )
    right = share.max(axis=1)[said.of_class] * said.right
    seed_m = said.densest_m(none, right)
    home, work = (said.fitted(seed_m[None], share[:, [k]]) for k in (0, 1))
    second_m = said.densest_m(work if work.log_likelihood > home.log_likelihood else home, right)
    ways = [said.fitted(np.stack(pair), share) for pair in ((seed_m, second_m), (second_m, seed_m))]
    # neither, a home alone, and both in either order
    log_p = np.array(
        [each.log_likelihood - said.costs(each, False).sum() for each in (none, home, *ways)]
    )
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    best = np.argmax(p[2:])
    at_home = p[1] * said.within(home)[0]
    if p[1] > p[2:].max():
        return np.array([[*home.place_m[0], at_home], [np.nan] * 3])
    place_m = ways[best].place_m
    probability = p[2 + best] * said.within(ways[best])
    probability[0] += at_home * (np.linalg.norm(home.place_m[0] - place_m[0]) <= said.hit_radius_m)
    return np.column_stack([place_m, probability])
