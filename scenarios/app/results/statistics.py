"""Quantiles and means over rows, tracks and seeds, and numbers as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from netsim.columns import row_id
from netsim.units import FloatArray


def carried(grid: FloatArray) -> FloatArray:
    """Each column's last known value (n_time, n_track); NaN before the first."""
    row = np.where(np.isnan(grid), -1, np.arange(len(grid))[:, None])
    last = np.maximum.accumulate(row, axis=0)
    return np.where(last < 0, np.nan, np.take_along_axis(grid, np.maximum(last, 0), axis=0))


def quantile(grid: FloatArray, q: float) -> FloatArray:
    """Quantile over tracks (n_time,): NaN is left out, infinities take part."""
    if not grid.size:
        return np.full(len(grid), np.nan)
    ordered = np.sort(grid, axis=1)  # NaN comes last
    at = q * np.maximum((~np.isnan(grid)).sum(axis=1) - 1, 0)
    low, high = np.take_along_axis(
        ordered, np.column_stack([np.floor(at), np.ceil(at)]).astype(int), axis=1
    ).T
    share = at - np.floor(at)
    with np.errstate(invalid="ignore"):  # infinity less infinity; such a quantile is infinite
        between = np.where(np.isinf(high), np.inf, low + share * (high - low))
    return np.where(share == 0, low, between)


def quartiles(grid: FloatArray) -> Interval:
    """Lower quartile, median, upper quartile over tracks."""
    return quantile(grid, 0.25), quantile(grid, 0.5), quantile(grid, 0.75)


def quartiles_of(values: Iterable[float | None]) -> Quartiles:
    """Lower quartile, median, upper quartile of values, for instance over seeds; None and NaN are
    left out.
    """
    grid = np.array([[np.nan if v is None else float(v) for v in values]])
    low, median, high = (float(bound[0]) for bound in quartiles(grid))
    return low, median, high


Interval = tuple[FloatArray, FloatArray, FloatArray]
"""Lower bound, middle and upper bound (n_time,) each."""
Quartiles = tuple[float, float, float]
"""Lower quartile, median, upper quartile."""


def half_width(values: FloatArray | list[float]) -> float:
    """Half of the 95 % interval of a mean, by Student's t; NaN for one value."""
    from scipy.stats import t

    n = len(values)
    if n > 1:
        return float(t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n))
    return float("nan")


def mean_text(values: FloatArray) -> str:
    """A mean, with its 95 % interval where there are several values, and they differ."""
    mean = figure_text(float(np.mean(values)))
    same = len(values) < 2 or not np.isfinite(values).all() or not np.ptp(values)
    if same:
        return mean
    return f"{mean} ± {figure_text(half_width(values))}"


def wilson(hits: int, n: int) -> tuple[float, float, float]:
    """Percent of `hits` in `n`, with Wilson's 95 % interval; NaN of none."""
    from scipy.stats import binomtest

    if not n:
        return float("nan"), float("nan"), float("nan")
    interval = binomtest(hits, n).proportion_ci(method="wilson")
    return 100 * hits / n, 100 * float(interval.low), 100 * float(interval.high)


def figure_text(value: float, unit: str = "") -> str:
    """A number for people: three significant digits, thousands in full, very large ones with an
    exponent.

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


def row_numbers(table: Mapping[str, np.ndarray]) -> np.ndarray:
    """Round, UE and model of each row as one number."""
    round_, ue, model = (table[name].astype(int) for name in ("round", "ue", "model"))
    # whole numbers below 2^63: a million rounds, 2^31 UEs and 4,096 models; as floats they would be
    # rounded
    return row_id(round_ * 2**31 + ue, model)


def quantile_of(values: np.ndarray, q: float) -> float:
    """Quantile of values (n,), NaN among them counted as infinite; NaN (null in JSON) where it is
    infinite.
    """
    value = quantile(np.where(np.isnan(values), np.inf, values)[None], q)[0]
    if np.isfinite(value):
        return float(value)
    return float("nan")


def _finite(values: np.ndarray) -> np.ndarray:
    return np.asarray(values[np.isfinite(values)])


def mean_of(values: np.ndarray) -> float:
    """Mean of the finite values; NaN of none."""
    if len(_finite(values)):
        return float(np.mean(_finite(values)))
    return float("nan")


def median_of(values: np.ndarray) -> float:
    """Median of the finite values; NaN of none."""
    if len(_finite(values)):
        return float(np.median(_finite(values)))
    return float("nan")


MEANINGFUL = 20.0
"""largest epsilon that is a meaningful guarantee"""


def span_text(seconds: float) -> str:
    """A length of time in the largest unit that leaves it whole."""
    units = (("d", 86_400), ("h", 3600), ("min", 60))
    whole = [
        f"{seconds / size:g} {unit}"
        for unit, size in units
        if seconds >= size and seconds % size == 0
    ]
    if whole:
        return whole[0]
    return f"{seconds:g} s"
