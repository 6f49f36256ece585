r"""Statistics of human mobility, from the place of a person in every hour.

A place is a whole number, a grid cell or a venue; -1 where it is unknown. The measures are those of Song, Koren, Wang,
Barabasi, 'Modelling the scaling properties of human mobility', Nature Physics 6, 2010, and Song, Qu, Blumm, Barabasi,
'Limits of predictability in human mobility', Science 327, 2010.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from math import log2

import numpy as np

from netsim.units import FloatArray, IntArray

UNKNOWN = -1
WEEK_H = 168
FEWEST_HOURS = 24  # with a known place, below which a person has no statistics
_ZIPF_RANKS = 20
_MAX_LZ = 20_000  # hours of which entropy rate and predictability are computed; time grows with their square


@dataclass(frozen=True, eq=False)
class Series:
    """The places (h,) of one person, positions (h, 2) in m, and hours of the week (h,), 0 to 167 from Monday 0 h."""

    place: IntArray
    position_m: FloatArray
    hour_of_week: IntArray


@dataclass(frozen=True, eq=False)
class Measures:
    """Statistics of n people (n,), NaN where a person has too few known hours.

    hours : number of hours with a known place; places: number of distinct places.
    growth : exponent of S(t) ~ t^growth, S the number of distinct places until t.
    top_1, top_2 : share of known hours at the most visited place, at the two most visited ones.
    regularity : probability of the most frequent place of the hour of the week, weighted by known hours.
    zipf : exponent of the frequency of visits f_k ~ k^-zipf to the k-th most visited place.
    entropy : entropy of the shares of known hours at the places, bit.
    entropy_rate : entropy of the next place given all places before, bit an hour.
    predictability : upper bound of the share of hours whose place any algorithm can predict.
    gyration_m : radius of gyration, m.
    """

    hours: FloatArray
    places: FloatArray
    growth: FloatArray
    top_1: FloatArray
    top_2: FloatArray
    regularity: FloatArray
    zipf: FloatArray
    entropy: FloatArray
    entropy_rate: FloatArray
    predictability: FloatArray
    gyration_m: FloatArray

    def median(self) -> dict[str, float]:
        """Median over people of every measure; NaN without any value."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {k: float(np.median(v[np.isfinite(v)])) if np.isfinite(v).any() else np.nan for k, v in values.items()}


def measures(people: Iterable[Series]) -> Measures:
    """The statistics of people, one series each."""
    return Measures(*np.array([_of(one) for one in people], dtype=np.float64).reshape(-1, len(fields(Measures))).T)


def _of(one: Series) -> tuple[float, ...]:
    """The statistics of one person, in the order of `Measures`."""
    known = one.place != UNKNOWN
    n_hours, n_places = int(known.sum()), len(np.unique(one.place[known]))
    if n_hours < FEWEST_HOURS:
        return n_hours, n_places, *[np.nan] * (len(fields(Measures)) - 2)
    rate = entropy_bits(one.place[known][:_MAX_LZ])
    return (
        n_hours,
        n_places,
        growth(one.place),
        top_share(one.place, 1),
        top_share(one.place, 2),
        regularity(one.place, one.hour_of_week),
        zipf(one.place),
        uncorrelated_entropy_bits(one.place),
        rate,
        fano(rate, n_places),
        gyration_m(one.position_m[known]),
    )


def cells(position_m: FloatArray, cell_m: float) -> IntArray:
    """The square cell of a grid that positions (..., 2) lie in, numbered from 0 in order of x, then y; -1 for NaN.

    cell_m : side of a cell; 0 makes every distinct position, to 0.1 m, a place.
    """
    flat = np.asarray(position_m, dtype=np.float64).reshape(-1, 2)
    known = np.isfinite(flat).all(axis=1)
    at = np.round(flat[known] / 0.1) if cell_m == 0 else np.floor(flat[known] / cell_m)
    number = np.full(len(flat), UNKNOWN)
    if known.any():
        number[known] = np.unique(at, axis=0, return_inverse=True)[1].ravel()
    return number.reshape(np.shape(position_m)[:-1])


def filled(series: IntArray, fill_h: float) -> IntArray:
    """A series (h,) whose unknown entries have the last known one, at most fill_h hours before.

    Entries after the last known one stay unknown, as nothing says whether the person was still observed.
    """
    hour, known = np.arange(len(series)), series != UNKNOWN
    last = np.maximum.accumulate(np.where(known, hour, -1)) if len(series) else hour
    usable = (last >= 0) & (hour - last <= fill_h) & (known[::-1].cumsum()[::-1] > 0)
    return np.where(usable, series[last], UNKNOWN)


def distinct(series: IntArray) -> IntArray:
    """Number of distinct known places (h,) until each hour of one series (h,)."""
    known = np.flatnonzero(series != UNKNOWN)
    first = np.zeros(len(series), dtype=np.int64)
    first[known[np.unique(series[known], return_index=True)[1]]] = 1
    return np.cumsum(first)


def growth(series: IntArray) -> float:
    """Exponent b of S(t) ~ t^b, by least squares of log S on log t at 20 times spaced evenly in log t from 24 h on.

    t counts known hours. NaN for less than 48 h.
    """
    known = series[series != UNKNOWN]
    if len(known) < 48:
        return float("nan")
    at = np.unique(np.geomspace(24, len(known), 20).round().astype(np.int64))
    return _slope(at.astype(np.float64), distinct(known)[at - 1].astype(np.float64))


def top_share(series: IntArray, n: int) -> float:
    """Share of known hours at the n places with the most hours."""
    hours = np.unique(series[series != UNKNOWN], return_counts=True)[1]
    return float(np.sort(hours)[::-1][:n].sum() / hours.sum())


def visits(series: IntArray) -> IntArray:
    """Number of visits to every place, most first: a visit is a run of equal known places."""
    known = series[series != UNKNOWN]
    arrives = np.append(True, known[1:] != known[:-1])[: len(known)]
    return np.sort(np.unique(known[arrives], return_counts=True)[1])[::-1]


def zipf(series: IntArray) -> float:
    """Exponent z of the frequency of visits f_k ~ k^-z; see `zipf_of`."""
    return zipf_of(visits(series))


def zipf_of(count: IntArray) -> float:
    """Exponent z of counts ~ k^-z, k the rank, by least squares of logs over the first 20 ranks with 2 visits or more.

    NaN for less than 5 such ranks.
    """
    count = np.sort(count)[::-1][:_ZIPF_RANKS]
    count = count[count >= 2]
    if len(count) < 5:
        return float("nan")
    return -_slope(np.arange(1.0, len(count) + 1), count.astype(np.float64))


def regularity(series: IntArray, hour_of_week: IntArray) -> float:
    """Share of known hours in the most frequent place of their hour of the week; NaN for less than 336 known hours.

    R(h) is the share of the most frequent place among the known places of hour h of the week; the mean of R is weighted
    by known hours, so that one observation of an hour does not count as regular as 20.
    """
    known = series != UNKNOWN
    if known.sum() < 2 * WEEK_H:  # an hour that is seen once looks regular
        return float("nan")
    place = np.unique(series[known], return_inverse=True)[1]
    cell = hour_of_week[known].astype(np.int64) * (int(place.max()) + 1) + place
    hour_place, count = np.unique(cell, return_counts=True)
    hour = hour_place // (int(place.max()) + 1)
    most = np.zeros(WEEK_H)
    np.maximum.at(most, hour, count)
    return float(most.sum() / known.sum())


def gyration_m(position_m: FloatArray) -> float:
    """Radius of gyration of positions (n, 2), m: root mean square distance from their mean."""
    from_mean = position_m - position_m.mean(axis=0)
    return float(np.sqrt((from_mean**2).sum(axis=1).mean()))


def uncorrelated_entropy_bits(series: IntArray) -> float:
    """-sum p_i log2 p_i of the shares p_i of known hours."""
    count = np.unique(series[series != UNKNOWN], return_counts=True)[1]
    share = count / count.sum()
    return float(-(share * np.log2(share)).sum() + 0.0)


def entropy_bits(series: IntArray) -> float:
    r"""Entropy rate of the known places, bits an hour, by the Lempel-Ziv estimator [Song et al. 2010, Science, SOM]::

        S = n log2 n / sum_i Lambda_i

    where Lambda_i is the length of the shortest sequence that starts at i and does not occur entirely before i.
    """
    known = series[series != UNKNOWN]
    n = len(known)
    return n * log2(n) / float(match_lengths(known).sum()) if n > 1 else 0.0


def match_lengths(series: IntArray) -> IntArray:
    """Lambda_i (n,): 1 + the length of the longest sequence that starts at i and occurs within series[:i]."""
    n = len(series)
    longest = np.zeros(n, dtype=np.int64)
    common = np.zeros(n + 1, dtype=np.int64)  # of the suffixes that start at i + 1 and at j
    column = np.arange(n)
    for i in range(n - 1, 0, -1):
        common[:n] = np.where(series == series[i], common[1:] + 1, 0)
        longest[i] = np.minimum(common[:i], i - column[:i]).max()
    return longest + 1


def fano(entropy: float, n_places: int) -> float:
    """The predictability P that solves Fano's inequality as an equation::

        S = H(P) + (1 - P) log2(N - 1),   H(P) = -P log2 P - (1 - P) log2(1 - P)

    S : entropy in bits, N : number of places. 1 for S = 0 or N = 1, and 1 / N for S >= log2 N.
    """
    if n_places <= 1 or entropy <= 0:
        return 1.0
    low, high = 1.0 / n_places, 1.0  # the right side falls from log2 N to 0
    if entropy >= log2(n_places):
        return low
    for _ in range(60):
        middle = (low + high) / 2
        rest = 1.0 - middle
        mixed = -middle * log2(middle) - (rest * log2(rest) if rest > 0 else 0.0)
        low, high = (middle, high) if mixed + rest * log2(n_places - 1) > entropy else (low, middle)
    return (low + high) / 2


def _slope(x: FloatArray, y: FloatArray) -> float:
    """Least-squares slope of log y on log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
