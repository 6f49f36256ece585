r"""The exact kernel along one axis, compiled: one pass, with exponentials that take vector instructions.

Places of an axis that is evenly spaced by d need few exponentials. With s = d / h, the grid point x_c next to a, and
delta = (a - x_c) / h, where x_c may lie beyond the axis,

    exp(-((x_(c + k) - a) / h)^2 / 2) = exp(-(k s)^2 / 2) exp(k s delta - delta^2 / 2).

The first factor is a table for all a. In a run of `RUN` places that begins at k = k_0 the second one is its first value
times powers of exp(s delta). What puts a place off an even spacing, by e bandwidths, counts to first order:
1 - (k s - delta) e.

Relative errors are at most 3e-14 of numbers above 1e-10, and 4e-13 of those above 1e-290; smaller ones lose digits.
"""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.elementary import exp
from netsim.units import FloatArray

RUN = 16
END = 39.0  # bandwidths beyond which the kernel is below all numbers
_OFF = 1e-9  # bandwidths that an evenly spaced place may be off: the square of it times END is no digit
_WIDEST = 1.0  # bandwidths of a step, for which no power leaves the range of numbers
_FINEST = 0.01  # bandwidths of a step, for which the table is short


@compiled
def bells(at_m: FloatArray, axis_m: FloatArray, bandwidth_m: float, out: FloatArray) -> None:
    """Writes exp(-((x - at) / bandwidth)^2 / 2) of coordinates at_m (n,) at places axis_m (P,) to out (n, P)."""
    last = len(axis_m) - 1
    step_m = (axis_m[last] - axis_m[0]) / last if last > 0 else 0.0
    if _FINEST * bandwidth_m <= step_m <= _WIDEST * bandwidth_m:
        wide = step_m * 8193.0
        step_m = wide - (wide - step_m)  # 40 digits: its products with numbers of places are exact
        off = (axis_m - axis_m[0] - np.arange(last + 1) * step_m) / bandwidth_m
        if np.abs(off).max() <= _OFF:
            _by_powers(at_m, axis_m[0], bandwidth_m, step_m, off, out)
            return
    for i in range(len(at_m)):
        row, a = out[i], at_m[i]
        for p in range(len(axis_m)):
            steps = (axis_m[p] - a) / bandwidth_m
            row[p] = -0.5 * steps * steps
    flat = out.reshape(out.size)  # exponentials of one long array
    for k in range(len(flat)):
        flat[k] = exp(flat[k])


@compiled
def _by_powers(
    at_m: FloatArray, first_m: float, bandwidth_m: float, step_m: float, off: FloatArray, out: FloatArray
) -> None:
    """The same to out (n, P) where places are `off` (P,) bandwidths from multiples of a step behind the first."""
    s, (n, places) = step_m / bandwidth_m, out.shape
    reach, runs = int(END / s) + 1, -(-places // RUN)
    middle = reach + RUN
    table, ramp = np.empty(2 * middle + 1), np.arange(places) * s
    for k in range(len(table)):
        steps = (k - middle) * step_m / bandwidth_m
        table[k] = exp(-0.5 * steps * steps)
    nearest = np.floor((at_m - first_m) / step_m + 0.5)
    delta = (at_m - first_m - nearest * step_m) / bandwidth_m
    ratio, first = np.empty(n), np.empty((n, runs))
    for i in range(n):
        ratio[i] = exp(s * delta[i])
    for i in range(n):
        here, behind, near = first[i], nearest[i], delta[i]
        for run in range(runs):
            here[run] = (run * RUN - behind) * s * near - 0.5 * near * near
    flat = first.reshape(first.size)  # exponentials of one long array
    for k in range(len(flat)):
        flat[k] = exp(flat[k])
    powers, product = np.ones(RUN), np.empty((runs, RUN))
    for i in range(n):
        row, behind = out[i], nearest[i]
        if not abs(behind) <= places + reach:  # far away; or no number, nor is its row
            row[:] = behind if np.isnan(behind) else 0.0
            continue
        _powers(ratio[i], powers)
        q = int(behind)
        begin, end = max((q - reach) // RUN, 0), min((q + reach) // RUN + 1, runs)
        for run in range(begin, end):
            into, start = product[run], first[i, run]
            for j in range(RUN):
                into[j] = start * powers[j]
        low, high = min(begin * RUN, places), min(max(begin, end) * RUN, places)
        row[:low], row[high:] = 0.0, 0.0
        into, much = row[low:high], product.reshape(runs * RUN)[low:high]
        bell, along, astray = table[low - q + middle : high - q + middle], ramp[low:high], off[low:high]
        before = -behind * s - delta[i]
        for p in range(len(into)):
            into[p] = much[p] * bell[p] * (1.0 - (before + along[p]) * astray[p])


@compiled
def _powers(x: float, out: FloatArray) -> None:
    """x^j for all j < RUN, from few products in a row."""
    out[1] = x
    size = 2
    while size < RUN:
        x *= x
        for j in range(size):
            out[size + j] = out[j] * x
        size *= 2
