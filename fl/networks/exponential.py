"""exp(x) - 1 for x <= 0 inside compiled loops, in a form that compilers turn into vector instructions.

x = k ln 2 + r with a whole number k and |r| <= ln(2) / 2; then exp(x) - 1 = 2^k p(r) + (2^k - 1) with the Taylor series
p(r) of exp(r) - 1, which also keeps the relative precision of small x. k comes from adding a number so large that the
sum has no digits behind the point; its lowest bits are then k, and moved to the exponent they make 2^k.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload

_LOG2E = 1.4426950408889634
_HIGH, _LOW = 0.693145751953125, 1.42860682030941723212e-6  # of ln 2; products with _HIGH are exact
_LEAST, _LEAST_32 = -700.0, np.float32(-80.0)  # where exp(x) - 1 is -1 long since, and 2^k not yet below all numbers
_WHOLE, _WHOLE_32 = 6755399441055744.0, np.float32(12582912.0)  # 1.5 * 2^52, 1.5 * 2^23
_LOG2E_32, _HIGH_32, _LOW_32 = np.float32(_LOG2E), np.float32(_HIGH), np.float32(_LOW)
_ONE_32, _BIAS_32, _SHIFT_32 = np.float32(1.0), np.int32(127), np.int32(23)
_T2, _T3, _T4, _T5, _T6, _T7 = (np.float32(1 / n) for n in (2, 6, 24, 120, 720, 5040))


def expm1_below(x: Any) -> Any:
    """exp(x) - 1 of a number x <= 0, of its own precision; within two units of the last place, NaN of NaN."""
    return np.expm1(x)


@overload(expm1_below)
def _expm1_below(x: Any) -> Any:
    return _single if str(x) == "float32" else _double


def _double(x: Any) -> Any:
    x = _LEAST if x < _LEAST else x
    shifted = x * _LOG2E + _WHOLE
    k = shifted - _WHOLE
    r = (x - k * _HIGH) - k * _LOW
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    power = np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)
    return power * (r + r * r * p) + (power - 1.0)


def _single(x: Any) -> Any:
    x = _LEAST_32 if x < _LEAST_32 else x
    shifted = x * _LOG2E_32 + _WHOLE_32
    k = shifted - _WHOLE_32
    r = (x - k * _HIGH_32) - k * _LOW_32
    p = _T7 * r + _T6
    p = p * r + _T5
    p = p * r + _T4
    p = p * r + _T3
    p = p * r + _T2
    power = np.int32(np.int32(np.float32(shifted).view(np.int32) + _BIAS_32) << _SHIFT_32).view(np.float32)
    return power * (r + r * r * p) + (power - _ONE_32)
