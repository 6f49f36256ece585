r"""Places that a UE visits again and again, as a mixture of estimates.

An estimate z_n of spread sigma_n, right with probability w_n, has with places x_j, visited in its class c_n of time
with the shares a_cj, the density

    p(z_n) = w_n sum_j a_cj N(z_n; x_j, sigma_n^2 I) + (1 - w_n sum_j a_cj) / A.

Shares of a class are drawn to those of all classes, as if by `_PRIOR` more estimates. EM finds places and shares. A
place is there with odds exp(gain of log-likelihood - cost). Its share costs log n: the shares of
habits may be small, and twice the 1/2 log n of BIC is what an even prior of shares costs there. Its position costs
log(A / (2 pi s^2)), where s^2 is the variance a axis that is left of it: BIC's log n leaves out A / sigma^2, and two
estimates that lie together by chance would make a place. What was right of m estimates is displaced by an error of
variance s^2 + bias_m^2 = sigma^2 / m + bias_m^2 a axis, so that

    P(within hit_radius_m) = P(it is there) [1 - exp(-hit_radius_m^2 / 2 (sigma^2 / m + bias_m^2))].

`home_and_work` knows the shares instead, of days on and off work, for rounds as long as a day, which have no hours. It
asks which of two places is home: the other order has the likelihood L', so that P(home) = L / (L + L').
"""

from __future__ import annotations

import numpy as np

from fl.evenly import evenly
from netsim.columns import frozen, no_places
from netsim.units import BoolArray, FloatArray, IntArray

_PRIOR = 20.0
_STEPS = 40
_SUREST = 0.999  # probability that an estimate is of one of the places, at most
_LEAST_DAYS = 2  # of which a place that is visited again has estimates
_TRIES = 3  # places that are fitted for one that is named, at most
_MOST_SEEDS = 400  # estimates at which a new place is looked for


@frozen
class EstimatesOfUe:
    """Estimates of one UE: z_m (n, 2), spread_m and right (n,), class of time (n,) and number of the day (n,)."""

    z_m: FloatArray
    spread_m: FloatArray
    right: FloatArray
    of_class: IntArray
    day: IntArray

    def density(self, place_m: FloatArray) -> FloatArray:
        """N(z_n; x_j, sigma_n^2 I) (n, k)."""
        square = ((self.z_m[:, None] - place_m) ** 2).sum(axis=2)
        variance = self.spread_m[:, None] ** 2
        return np.asarray(np.exp(-square / (2 * variance)) / (2 * np.pi * variance))


@frozen
class FittedPlaces:
    """Places (k, 2), responsibilities (n, k) of them, and the log-likelihood."""

    place_m: FloatArray
    mine: FloatArray
    log_likelihood: float


@frozen
class Visited:
    """Places (k, 2), and the probability (k,) that each lies within hit_radius_m of one that is visited."""

    place_m: FloatArray
    probability: FloatArray


def habits(
    said: EstimatesOfUe,
    known_m: FloatArray,
    classes: int,
    area_m2: float,
    bias_m: float,
    hit_radius_m: float,
    most: int,
) -> Visited:
    """Places besides those known (j, 2), at most `most`, as long as each makes all estimates more likely; the most
    visited first.

    A place within hit_radius_m of one that is there already explains estimates, but is no other place.
    """
    found = _fitted(said, known_m, len(known_m), classes, area_m2)
    odds = np.zeros(0)
    while _apart(found, hit_radius_m)[len(known_m) :].sum() < most and len(odds) < _TRIES * most:
        seed = said.z_m[_densest(said, found, said.right)]  # where most of what is not explained yet lies
        more = _fitted(said, np.concatenate([found.place_m, seed[None]]), len(known_m), classes, area_m2)
        gain = more.log_likelihood - found.log_likelihood - float(_costs(said, more, area_m2)[-1])
        days = np.unique(said.day[more.mine[:, -1] > 0.5])  # with an estimate that is probably of this place
        if gain <= 0 or len(days) < _LEAST_DAYS:
            break
        found = more
        odds = np.append(odds, gain)
    new = np.flatnonzero(_apart(found, hit_radius_m)[len(known_m) :])
    order = new[np.argsort(-found.mine[:, len(known_m) + new].sum(axis=0), kind="stable")]
    within = _within(said, found, bias_m, hit_radius_m)[len(known_m) :] / (1.0 + np.exp(-odds))
    return Visited(found.place_m[len(known_m) + order], within[order])


def _apart(found: FittedPlaces, hit_radius_m: float) -> BoolArray:
    """Which places (k,) are further than hit_radius_m from all places before them."""
    away_m = np.linalg.norm(found.place_m[:, None] - found.place_m, axis=2)
    return np.asarray(~np.tril(away_m <= hit_radius_m, -1).any(axis=1))


def home_and_work(
    said: EstimatesOfUe, share: FloatArray, area_m2: float, bias_m: float, hit_radius_m: float
) -> Visited:
    """Home and workplace (2, 2), NaN where there is none, of shares (C, 2) that are known."""
    none = FittedPlaces(no_places(), np.zeros((len(said.z_m), 0)), 0.0)
    place_m = np.full((2, 2), np.nan)
    probability = np.zeros(2)
    right = share.max(axis=1)[said.of_class] * said.right
    seed = said.z_m[_densest(said, none, right)]
    one = [_with_shares(said, seed[None], share[:, [k]], area_m2) for k in (0, 1)]
    alone = int(one[1].log_likelihood > one[0].log_likelihood)
    second = said.z_m[_densest(said, one[alone], right)]
    ways = [_with_shares(said, np.stack(pair), share, area_m2) for pair in ((seed, second), (second, seed))]
    # neither, a home alone, and both in either order
    empty = -len(said.z_m) * np.log(area_m2)
    log_p = np.array([empty, *(m.log_likelihood - _costs(said, m, area_m2, False).sum() for m in (one[0], *ways))])
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    best = int(np.argmax(p[2:]))
    if p[1] > p[2:].max():
        place_m[0], probability[0] = one[0].place_m[0], p[1] * _within(said, one[0], bias_m, hit_radius_m)[0]
    else:
        place_m = ways[best].place_m
        probability = p[2 + best] * _within(said, ways[best], bias_m, hit_radius_m)
        same = np.linalg.norm(one[0].place_m[0] - place_m[0]) <= hit_radius_m
        probability[0] += p[1] * same * _within(said, one[0], bias_m, hit_radius_m)[0]
    return Visited(place_m, probability)


def _within(said: EstimatesOfUe, found: FittedPlaces, bias_m: float, hit_radius_m: float) -> FloatArray:
    """P(a place is within hit_radius_m of what EM says) (k,), if it is there."""
    return -np.expm1(-(hit_radius_m**2) / (2 * (_variance_m2(said, found) + bias_m**2)))


def _variance_m2(said: EstimatesOfUe, found: FittedPlaces) -> FloatArray:
    """Variance a axis (k,) of each place, as far as estimates differ from round to round."""
    return np.asarray(1.0 / np.maximum((found.mine / said.spread_m[:, None] ** 2).sum(axis=0), 1e-30))


def _costs(said: EstimatesOfUe, found: FittedPlaces, area_m2: float, shares: bool = True) -> FloatArray:
    """Log-likelihood that each place (k,) costs, with its share where that is not known."""
    position = np.maximum(np.log(area_m2 / (2 * np.pi * _variance_m2(said, found))), 0.0)
    return np.asarray(position + shares * np.log(max(len(said.z_m), 1)))


def _densest(said: EstimatesOfUe, found: FittedPlaces, right: FloatArray) -> int:
    """The estimate around which most of the others (n,) lie, weighed by what places found leave unexplained."""
    left = right * np.maximum(1.0 - found.mine.sum(axis=1), 0.0)
    some = evenly(len(left), _MOST_SEEDS)
    return int(some[np.argmax(left @ said.density(said.z_m[some]))])


def _expected(said: EstimatesOfUe, place_m: FloatArray, share: FloatArray, area_m2: float) -> FittedPlaces:
    """Responsibilities and log-likelihood of places and shares (C, k)."""
    prior = said.right[:, None] * share[said.of_class]
    prior *= _SUREST / np.maximum(prior.sum(axis=1, keepdims=True), _SUREST)  # where more lie there than errors say
    each = prior * said.density(place_m)
    whole = each.sum(axis=1) + (1.0 - prior.sum(axis=1)) / area_m2
    return FittedPlaces(place_m, each / whole[:, None], float(np.log(whole).sum()))


def _moved(said: EstimatesOfUe, found: FittedPlaces, known: int) -> FloatArray:
    """Means (k, 2) of the estimates by responsibility; the first `known` places stay."""
    weight = found.mine / said.spread_m[:, None] ** 2
    total = weight.sum(axis=0)
    mean = np.divide(weight.T @ said.z_m, total[:, None], out=found.place_m.copy(), where=total[:, None] > 0)
    mean[:known] = found.place_m[:known]
    return np.asarray(mean)


def _fitted(said: EstimatesOfUe, place_m: FloatArray, known: int, classes: int, area_m2: float) -> FittedPlaces:
    """EM over places, but the first `known`, and shares by class."""
    k = len(place_m)
    found = _expected(said, place_m, np.full((classes, k), 0.8 / max(k, 1)), area_m2)
    of_class = (np.arange(classes)[:, None] == said.of_class).astype(np.float64)
    counted = of_class @ said.right
    for _ in range(_STEPS):
        visits = of_class @ found.mine
        overall = (visits.sum(axis=0) + 0.5) / (counted.sum() + 0.5 * (k + 1))
        share = (visits + _PRIOR * overall) / (np.maximum(counted, visits.sum(axis=1)) + _PRIOR)[:, None]
        found = _expected(said, _moved(said, found, known), share, area_m2)
    return found


def _with_shares(said: EstimatesOfUe, place_m: FloatArray, share: FloatArray, area_m2: float) -> FittedPlaces:
    """EM over places whose shares are known."""
    found = _expected(said, place_m, share, area_m2)
    for _ in range(_STEPS):
        found = _expected(said, _moved(said, found, 0), share, area_m2)
    return found
