"""Quantiles and means over rows, tracks and seeds, and numbers as text."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import inf, nan, sqrt
from typing import NamedTuple, TypeVar

import numpy as np

from fl.membership.roc import Z_95
from netsim.columns import average_or_nan, number_row
from netsim.units import Arrays, FloatArray, FloatTriple

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


def group_by_label(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Label -> its items, as the summaries of its runs, in the order in which they came."""
    groups: dict[Key, list[Item]] = {}
    for label, item in pairs:
        groups.setdefault(label, []).append(item)
    return groups


def carry_forward(grid: FloatArray) -> FloatArray:
    """Carry each column's last known value (n_time, n_track); NaN before the first."""
    row = np.where(np.isnan(grid), -1, np.arange(len(grid))[:, None])
    last = np.maximum.accumulate(row, axis=0)
    return np.where(last < 0, nan, np.take_along_axis(grid, np.maximum(last, 0), axis=0))


def compute_quantile_over_tracks(grid: FloatArray, q: float) -> FloatArray:
    """Compute the quantile over tracks (n_time,): NaN is left out, infinities take part."""
    if not grid.size:
        return np.full(len(grid), nan)
    ordered = np.sort(grid, axis=1)  # NaN comes last
    position = q * np.maximum((~np.isnan(grid)).sum(axis=1) - 1, 0)
    low, high = np.take_along_axis(
        ordered, np.column_stack([np.floor(position), np.ceil(position)]).astype(int), axis=1
    ).T
    share = position - np.floor(position)
    with np.errstate(invalid="ignore"):  # infinity less infinity; such a quantile is infinite
        between = np.where(np.isinf(high), inf, low + share * (high - low))
    return np.where(share == 0, low, between)


def compute_quartiles_over_tracks(grid: FloatArray) -> Interval:
    """Compute lower quartile, median, upper quartile over tracks."""
    return (
        compute_quantile_over_tracks(grid, 0.25),
        compute_quantile_over_tracks(grid, 0.5),
        compute_quantile_over_tracks(grid, 0.75),
    )


def compute_quartiles(values: Iterable[float | None]) -> Quartiles:
    """Compute lower quartile, median, upper quartile of values, for instance over seeds; None and
    NaN are left out.
    """
    grid = np.array([[nan if v is None else float(v) for v in values]])
    low, median, high = (float(bound[0]) for bound in compute_quartiles_over_tracks(grid))
    return low, median, high


Interval = tuple[FloatArray, FloatArray, FloatArray]
"""Lower bound, middle and upper bound (n_time,) each."""
Quartiles = FloatTriple
"""Lower quartile, median, upper quartile."""


class MedianInterval(NamedTuple):
    """Interval of a median: the k-th value from below to the k-th from above, and its coverage."""

    low: float
    high: float
    k: int
    coverage: float


def compute_median_interval(values: FloatArray, error: float = 0.05) -> MedianInterval:
    """Compute the interval of the median of values (n,), from order statistics.

    With x_(1) <= ... <= x_(n) it is [x_(k), x_(n+1-k)], which covers the median with probability 1
    - 2 P(Bin(n, 1/2) < k) at least; k is the largest with a coverage of 1 - `error`. Of 95 % it
    needs six values; of fewer it is their range, which covers 1 - 2^(1-n). NaN is left out; (NaN,
    NaN, 1, 0) of nothing.
    """
    from scipy.stats import binom

    ordered = np.sort(values[~np.isnan(values)])
    n = len(ordered)
    if not n:
        return MedianInterval(nan, nan, 1, 0.0)
    k = max(int(binom.ppf(error / 2, n, 0.5)), 1)
    coverage = max(1 - 2 * binom.cdf(k - 1, n, 0.5), 0.0)
    return MedianInterval(ordered[k - 1], ordered[n - k], k, coverage)


def compute_ci95_half_width(values: FloatArray | list[float]) -> float:
    """Compute half of the 95 % interval of a mean, by Student's t; NaN for one value."""
    from scipy.special import stdtrit  # here, since it loads for long

    n = len(values)
    if n > 1:
        return float(stdtrit(n - 1, 0.975) * np.std(values, ddof=1) / np.sqrt(n))
    return nan


def format_mean(values: FloatArray) -> str:
    """Format a mean, with its 95 % interval where there are several values, and they differ."""
    mean = format_figure(float(np.mean(values)))
    same = len(values) < 2 or not np.isfinite(values).all() or not np.ptp(values)
    if same:
        return mean
    return f"{mean} ± {format_figure(compute_ci95_half_width(values))}"


def compute_percent_and_wilson_interval(hits: int, n: int) -> FloatTriple:
    """Compute percent of `hits` in `n`, with Wilson's 95 % interval; NaN of none."""
    if not n:
        return nan, nan, nan
    share = hits / n
    whole = 2 * (n + Z_95**2)
    middle = (2 * n * share + Z_95**2) / whole
    half = Z_95 / whole * sqrt(4 * n * share * (1 - share) + Z_95**2)
    low = 100 * (middle - half) if hits else 0.0
    return 100 * hits / n, low, 100 * (middle + half) if hits < n else 100.0


def format_figure(value: float, unit: str = "") -> str:
    """Format a number for people: three significant digits, thousands in full, very large ones with
    an exponent.

    unit : with m, a length below a millimetre is 0.000: its digits are rounding errors, which
    differ between machines.
    """
    if unit == "m" and abs(value) < 1e-3:
        return "0.000"
    if not np.isfinite(value):
        return "–" if np.isnan(value) else "∞"
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def encode_row_keys(table: Arrays) -> np.ndarray:
    """Encode round, UE and model of each row as one number (n,)."""
    round_, ue, model = (table[name].astype(int) for name in ("round", "ue", "model"))
    # whole numbers below 2^63: a million rounds, 2^31 UEs and 4,096 models; as floats they would be
    # rounded
    return number_row(round_ * 2**31 + ue, model)


def compute_quantile(values: np.ndarray, q: float) -> float:
    """Compute the quantile of values (n,), NaN among them counted as infinite; NaN (null in JSON)
    where it is infinite.
    """
    value = compute_quantile_over_tracks(np.where(np.isnan(values), inf, values)[None], q)[0]
    if np.isfinite(value):
        return float(value)
    return nan


def compute_finite_mean(values: np.ndarray) -> float:
    """Compute the mean of the finite values; NaN of none."""
    return average_or_nan(values[np.isfinite(values)])


MEANINGFUL = 20.0
"""largest epsilon that is a meaningful guarantee"""


def format_span(seconds: float) -> str:
    """Format a length of time in the largest unit that leaves it whole."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
