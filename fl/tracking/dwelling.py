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

`find_home_and_work` knows the shares instead, of days on and off work, for rounds as long as a day,
which have no hours. It asks which of two places is home: the other order has the likelihood L', so
that P(home) = L / (L + L').
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import nan, pi

import numpy as np
from numpy.linalg import norm

from fl.tracking.chain import blur_maps
from fl.tracking.error_model import ErrorModel
from fl.tracking.place_grid import PlaceGrid, compute_disc_masses
from fl.types import RoundContext
from netsim.clock import DAY_S, WEEK_S
from netsim.columns import Columns, frozen, no_floats, no_places, pick_even_indices, split_blocks
from netsim.units import BoolArray, Float32Array, FloatArray, FloatPair, IntArray

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
    def from_times(cls, time_s: FloatArray, week_s: FloatArray, round_s: float) -> Hours:
        """Rounds of round_s that end at time_s (n,), which by the wall clock is week_s (n,)."""
        # clock changes are far below half a week
        weeks = np.floor((time_s - week_s) / WEEK_S + 0.5)
        middle_s = weeks * WEEK_S + week_s - round_s / 2
        day, rest_s = np.divmod(middle_s, DAY_S)
        return cls(day.astype(int), rest_s / _HOUR_S, round_s > _LONGEST_S)

    @classmethod
    def from_round(cls, facts: RoundContext) -> Hours | None:
        """One round; None if the wall clock is unknown."""
        if not np.isfinite([facts.week_s, facts.round_s]).all():
            return None
        return cls.from_times(np.array([facts.time_s]), np.array([facts.week_s]), facts.round_s)

    @property
    def is_weekend(self) -> BoolArray:
        """Whether the day is a Saturday or a Sunday."""
        return self.day % 7 >= _WORKDAYS

    def find_period(self, home: FloatPair, work: FloatPair) -> Period | None:
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
        is_office_hour = work[0] <= hour < work[1]
        if is_office_hour and not self.is_weekend[0]:
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
    def from_senders(cls, sender: IntArray, places: int) -> Residences:
        """Before the first round."""
        n = len(sender)
        count = np.zeros(n, int)
        home, work, rest = np.zeros((3, n, places), np.float32)
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
            np.zeros(n, bool),
        )

    def add_round(
        self, sender: IntArray, log_e: Maps, period: Period, shares: Shares
    ) -> Residences:
        """With log_e (n, G) of one round in this period, of senders (n,) ascending."""
        begun = Residences.from_senders(np.setdiff1d(sender, self.sender), log_e.shape[1])
        evidence = self
        if len(begun.sender):
            evidence = Residences.join([self, begun]) if len(self.sender) else begun
            evidence = evidence.select(np.argsort(evidence.sender))
        index = np.searchsorted(evidence.sender, sender)
        rows = evidence.select(index)
        is_over = (rows.day != period.day) | (rows.night != period.night)
        rows = rows.close_periods(shares, is_over)
        day = np.full(len(sender), period.day)
        night = np.full(len(sender), period.night)
        rows = replace(rows, open=rows.open + log_e, rounds=rows.rounds + 1, day=day, night=night)
        return evidence.replace_rows(index, rows)

    def close_periods(self, shares: Shares, over: BoolArray) -> Residences:
        """With the open periods that are over (k,) counted as they stand."""
        home = self.home.copy()
        work = self.work.copy()
        none = self.none.copy()
        prior = build_even_prior(self.open.shape[1])
        over = over & (self.rounds > 0)
        is_night = over & self.night
        is_day = over & ~self.night
        for block in split_rows(np.flatnonzero(is_night)):
            log_e = self.open[block]
            home[block] += mix_log_likelihoods(shares.home, log_e, compute_log_mean(log_e, prior))
        for block in split_rows(np.flatnonzero(is_day)):
            log_e = self.open[block]
            away = compute_log_away(shares.stay, log_e, _normalise_logs(home[block]), prior)
            work[block] += mix_log_likelihoods(shares.work, log_e, away)
            none[block] += away
        return replace(
            self,
            home=home,
            work=work,
            open=np.where(over[:, None], np.float32(0), self.open),
            none=none,
            nights=self.nights + is_night,
            days=self.days + is_day,
            rounds=np.where(over, 0, self.rounds),
        )

    def estimate_homes(
        self, shares: Shares, grid: PlaceGrid, bias_std_m: float
    ) -> tuple[Maps, Maps]:
        """Probabilities (k, G) of homes as estimates show them, and of true homes, which are 0
        before the first night.

        The open period counts as it stands.
        """
        closed = self.close_periods(shares, self.night)
        prior = build_even_prior(len(grid))
        seen, home = compute_home_posterior(closed.home, prior, grid, bias_std_m)
        return seen, home * (closed.nights > 0)[:, None]

    def estimate_workplaces(
        self, seen: Maps, shares: Shares, grid: PlaceGrid, bias_std_m: float, hit_radius_m: float
    ) -> Maps:
        """Probabilities (k, G) of workplaces, of homes as estimates show them (k, G).

        They are 0 before the first workday, and before the first night: a place of the day alone
        may be the home of a UE that stays there.
        """
        closed = self.close_periods(shares, np.ones(len(self.sender), bool))
        apart = compute_disc_masses(seen, grid, _APART * hit_radius_m)
        prior = build_even_prior(len(grid))
        work = compute_work_posterior(
            closed.work, closed.none, apart, shares.employed, prior, grid, bias_std_m
        )
        has_both = (closed.days > 0) & (closed.nights > 0)
        return work * has_both[:, None]


def split_rows(rows: IntArray) -> Iterator[IntArray]:
    """Rows in blocks that keep memory small."""
    for block in split_blocks(len(rows), _BLOCK):
        yield rows[block]


def build_even_prior(places: int) -> Maps:
    """The prior (1, G): everywhere alike."""
    return np.full((1, places), 1 / places, np.float32)


def compute_log_evidence(z_m: FloatArray, errors: ErrorModel, grid: PlaceGrid) -> Maps:
    """log A e (n, G) of the estimates (n, R, 2) of one round; 0 of a UE of whom nothing is said."""
    e = errors.remove_persistent_error().compute_likelihood_ratio(z_m, grid)
    return np.log(e, out=e)


def compute_log_mean(log_e: Maps, probability: Maps) -> FloatArray:
    """log sum_h p(h) exp(log_e(h)) (n,), of maps (n, G) and probabilities (n, G) or (1, G)."""
    top = log_e.max(axis=1, keepdims=True)
    weight = np.exp(log_e - top) * probability
    mean = weight.sum(axis=1, dtype=float)
    return np.log(np.maximum(mean, 1e-300)) + top[:, 0]


def mix_log_likelihoods(share: float, log_e: Maps, log_other: FloatArray) -> Maps:
    """log(share exp(log_e) + (1 - share) exp(log_other)) (n, G), of maps (n, G) and what is
    elsewhere (n,).
    """
    elsewhere = np.log1p(-share) + log_other
    log_share = np.float32(np.log(share))
    return np.logaddexp(log_share + log_e, elsewhere[:, None].astype(np.float32))


def compute_log_away(stay: float, log_e: Maps, home: Maps, prior: Maps) -> FloatArray:
    """log a_d (n,): the estimates of a workday (n, G) of a UE that does not work that day."""
    at_home = compute_log_mean(log_e, home)
    elsewhere = compute_log_mean(log_e, prior)
    log_home = np.log(stay) + at_home
    return np.logaddexp(log_home, np.log1p(-stay) + elsewhere)


def compute_home_posterior(
    log_p: Maps, prior: Maps, grid: PlaceGrid, bias_std_m: float
) -> tuple[Maps, Maps]:
    """p(h | nights) (n, G) as estimates show it, and of the true home: of sums of log p(z_d | h)
    (n, G).
    """
    with np.errstate(divide="ignore"):
        seen = _normalise_logs(log_p + np.log(prior))
    return seen, _normalise(blur_maps(seen, grid, bias_std_m))


def compute_work_posterior(
    log_p: Maps,
    log_none: FloatArray,
    near_home: Maps,
    employed: float,
    prior: Maps,
    grid: PlaceGrid,
    bias_std_m: float,
) -> Maps:
    """p(w) (n, G) of the true workplace; what is left to 1 is the probability that there is none
    away from home.

    The UE does not work away from home where no place is apart from it. log_p (n, G), log_none (n,)
    : sums over days of the logarithms of both parts; near_home (n, G) : probability that the home
    is near each place.
    """
    apart = prior * np.maximum(1.0 - near_home, 0.0)
    # of whom some place is apart from home: not in an area as small as a disc
    far = apart.any(axis=1)
    with np.errstate(divide="ignore"):
        log_p = log_p + np.log(apart)
    log_work = np.where(far[:, None], log_p, np.float32(0.0))
    log_mean = compute_log_mean(log_work, np.ones((1, 1), np.float32))
    odds = np.log(employed) + log_mean - np.log1p(-employed) - log_none
    works = np.exp(-np.logaddexp(0.0, -odds))
    probability = np.where(far, works, 0.0)
    place = blur_maps(_normalise_logs(log_work), grid, bias_std_m)
    return _normalise(place) * probability[:, None].astype(np.float32)


def _normalise_logs(log_p: Maps) -> Maps:
    """Probabilities (n, G) of logarithms up to a constant."""
    return _normalise(np.exp(log_p - log_p.max(axis=1, keepdims=True)))


def _normalise(p: Maps) -> Maps:
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
    time_class: IntArray
    day: IntArray
    area_m2: float
    bias_m: float
    hit_radius_m: float

    @cached_property
    def _variance_m2(self) -> FloatArray:
        """sigma_n^2 (n, 1)."""
        return self.spread_m[:, None] ** 2

    def compute_density(self, place_m: FloatArray) -> FloatArray:
        """N(z_n; x_j, sigma_n^2 I) (n, k)."""
        square = ((self.z_m[:, None] - place_m) ** 2).sum(axis=2)
        kernel = np.exp(-square / (2 * self._variance_m2))
        return kernel / (2 * pi * self._variance_m2)

    def fit_places(
        self, place_m: FloatArray, share: FloatArray, n_known: int | None = None
    ) -> FittedPlaces:
        """EM over places (k, 2) with shares (C, k); where the first `n_known` places stay, shares
        are learnt as well.
        """
        fitted = self._assign_estimates(place_m, share)
        of_class = (np.arange(len(share))[:, None] == self.time_class).astype(float)
        counted = of_class @ self.right
        for _ in range(_EM_STEPS):
            if n_known is not None:
                visits = of_class @ fitted.responsibility
                n_estimates = counted.sum() + 0.5 * (len(place_m) + 1)
                overall = (visits.sum(axis=0) + 0.5) / n_estimates
                n_of_class = np.maximum(counted, visits.sum(axis=1)) + _PRIOR
                share = (visits + _PRIOR * overall) / n_of_class[:, None]
            before = fitted
            fitted = self._assign_estimates(self._average_estimates(fitted, n_known or 0), share)
            if np.array_equal(fitted.place_m, before.place_m) and np.array_equal(
                fitted.responsibility, before.responsibility
            ):
                break  # every further step is this one
        return fitted

    def _assign_estimates(self, place_m: FloatArray, share: FloatArray) -> FittedPlaces:
        """Responsibilities and log-likelihood of places and shares (C, k)."""
        prior = self.right[:, None] * share[self.time_class]
        # where more lie there than errors say
        prior *= _SUREST / np.maximum(prior.sum(axis=1, keepdims=True), _SUREST)
        joint = prior * self.compute_density(place_m)
        elsewhere = (1.0 - prior.sum(axis=1)) / self.area_m2
        whole = joint.sum(axis=1) + elsewhere
        return FittedPlaces(place_m, joint / whole[:, None], np.log(whole).sum())

    def _average_estimates(self, fitted: FittedPlaces, n_known: int) -> FloatArray:
        """Means (k, 2) of the estimates by responsibility; the first `n_known` places stay."""
        weight = fitted.responsibility / self._variance_m2
        total = weight.sum(axis=0)[:, None]
        mean = fitted.place_m.copy()
        np.divide(weight.T @ self.z_m, total, out=mean, where=total > 0)
        mean[:n_known] = fitted.place_m[:n_known]
        return mean

    def compute_hit_probability(self, fitted: FittedPlaces) -> FloatArray:
        """P(a place is within hit_radius_m of what EM says) (k,), if it is there."""
        variance_m2 = self._compute_variance_m2(fitted) + self.bias_m**2
        return -np.expm1(-(self.hit_radius_m**2) / (2 * variance_m2))

    def compute_costs(self, fitted: FittedPlaces, shares: bool = True) -> FloatArray:
        """Log-likelihood that each place (k,) costs, with its share where that is not known."""
        cells = self.area_m2 / (2 * pi * self._compute_variance_m2(fitted))
        position = np.maximum(np.log(cells), 0.0)
        return position + shares * np.log(max(len(self.z_m), 1))

    def _compute_variance_m2(self, fitted: FittedPlaces) -> FloatArray:
        """Variance a axis (k,) of each place, as far as estimates differ from round to round."""
        return 1.0 / np.maximum((fitted.responsibility / self._variance_m2).sum(axis=0), 1e-30)

    def find_densest_m(self, fitted: FittedPlaces, right: FloatArray) -> FloatArray:
        """The estimate (2,) around which most of the others (n,) lie, weighed by what places leave
        unexplained.
        """
        left = right * np.maximum(1.0 - fitted.responsibility.sum(axis=1), 0.0)
        seeds = pick_even_indices(len(left), _MOST_SEEDS)
        return self.z_m[seeds[np.argmax(left @ self.compute_density(self.z_m[seeds]))]]


@frozen
class FittedPlaces:
    """Places (k, 2), responsibilities (n, k) of them, and the log-likelihood."""

    place_m: FloatArray
    responsibility: FloatArray
    log_likelihood: float

    def find_distinct(self, hit_radius_m: float) -> BoolArray:
        """Which places (k,) are further than hit_radius_m from all places before them."""
        away_m = norm(self.place_m[:, None] - self.place_m, axis=2)
        return ~np.tril(away_m <= hit_radius_m, -1).any(axis=1)


def find_visited_places(
    estimates: EstimatesOfUe, known_m: FloatArray, classes: int, max_places: int
) -> FloatArray:
    """Places (k, 3) besides those known (j, 2), at most max_places, as long as each makes all
    estimates more likely; the most visited first: x, y, and the probability that it lies within
    hit_radius_m of one that is visited.

    A place within hit_radius_m of one that is there already explains estimates, but is no other
    place.
    """
    n_known = len(known_m)

    def fit(place_m: FloatArray) -> FittedPlaces:
        share = np.full((classes, len(place_m)), 0.8 / max(len(place_m), 1))
        return estimates.fit_places(place_m, share, n_known)

    places = fit(known_m)
    odds = no_floats()
    while len(odds) < _TRIES * max_places:
        is_distinct = places.find_distinct(estimates.hit_radius_m)[n_known:]
        if is_distinct.sum() >= max_places:
            break
        # where most of what is not explained yet lies
        seed_m = estimates.find_densest_m(places, estimates.right)
        extended = fit(np.concatenate([places.place_m, seed_m[None]]))
        cost = estimates.compute_costs(extended)[-1]
        gain = extended.log_likelihood - places.log_likelihood - cost
        is_of_place = extended.responsibility[:, -1] > 0.5
        days = np.unique(estimates.day[is_of_place])
        if gain <= 0 or len(days) < _LEAST_DAYS:
            break
        places = extended
        odds = np.append(odds, gain)
    new = np.flatnonzero(places.find_distinct(estimates.hit_radius_m)[n_known:])
    n_visits = places.responsibility[:, n_known + new].sum(axis=0)
    order = new[np.argsort(-n_visits, kind="stable")]
    hit = estimates.compute_hit_probability(places)[n_known:]
    within = hit / (1.0 + np.exp(-odds))
    return np.column_stack([places.place_m[n_known + order], within[order]])


def find_home_and_work(estimates: EstimatesOfUe, share: FloatArray) -> FloatArray:
    """Home and workplace (2, 3) of shares (C, 2) that are known: x, y and probability, NaN where
    there is none.
    """
    n = len(estimates.z_m)
    none = FittedPlaces(no_places(), np.zeros((n, 0)), -n * np.log(estimates.area_m2))
    right = share.max(axis=1)[estimates.time_class] * estimates.right
    seed_m = estimates.find_densest_m(none, right)
    home = estimates.fit_places(seed_m[None], share[:, [0]])
    work = estimates.fit_places(seed_m[None], share[:, [1]])
    likelier = work if work.log_likelihood > home.log_likelihood else home
    second_m = estimates.find_densest_m(likelier, right)
    ways = [
        estimates.fit_places(np.stack([seed_m, second_m]), share),
        estimates.fit_places(np.stack([second_m, seed_m]), share),
    ]
    log_p = []
    for fitted in (none, home, *ways):  # neither, a home alone, and both in either order
        log_p.append(fitted.log_likelihood - estimates.compute_costs(fitted, False).sum())
    p = np.exp(np.array(log_p) - max(log_p))
    p /= p.sum()
    best = np.argmax(p[2:])
    at_home = p[1] * estimates.compute_hit_probability(home)[0]
    if p[1] > p[2:].max():
        return np.array([[*home.place_m[0], at_home], [nan] * 3])
    place_m = ways[best].place_m
    probability = p[2 + best] * estimates.compute_hit_probability(ways[best])
    away_m = norm(home.place_m[0] - place_m[0])
    probability[0] += at_home * (away_m <= estimates.hit_radius_m)
    return np.column_stack([place_m, probability])
