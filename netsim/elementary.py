"""Exponentials and logarithms inside compiled loops, in a form that compilers turn into vector instructions.

x = k ln 2 + r with a whole number k and |r| <= ln(2) / 2; then exp(x) = 2^k (1 + p(r)) with the Taylor series p(r) of
exp(r) - 1, and exp(x) - 1 = 2^k p(r) + (2^k - 1), which also keeps the relative precision of small x. k comes from
adding a number so large that the sum has no digits behind the point; its lowest bits are then k, and moved to the
exponent they make 2^k.

x = 2^k m with 1 / sqrt(2) <= m < sqrt(2); then log(x) = k ln 2 + log(m), and log(m) = 2 artanh((m - 1) / (m + 1)) by
its Taylor series.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import overload

from netsim.compiled import compiled

_LOG2E = 1.4426950408889634
_HIGH, _LOW = 0.693145751953125, 1.42860682030941723212e-6  # of ln 2; products with _HIGH are exact
_MIN, _MIN_32 = -700.0, np.float32(-80.0)  # where exp(x) - 1 is -1 long since, and 2^k not yet below all numbers
_WHOLE, _WHOLE_32 = 6755399441055744.0, np.float32(12582912.0)  # 1.5 * 2^52, 1.5 * 2^23
_LOG2E_32, _HIGH_32, _LOW_32 = np.float32(_LOG2E), np.float32(_HIGH), np.float32(_LOW)
_ONE_32, _BIAS_32, _SHIFT_32 = np.float32(1.0), np.int32(127), np.int32(23)
_T2, _T3, _T4, _T5, _T6, _T7 = (np.float32(1 / n) for n in (2, 6, 24, 120, 720, 5040))
_MIN_EXP, _MAX_EXP = -745.2, 709.8  # beyond which exp is 0, and infinity
_OFFSET = np.int64(0x4338000000000000)  # bits of _WHOLE
_ROOT_HALF, _MANTISSA = np.int64(0x3FE6A09E667F3BCD), np.int64(52)  # bits of 1 / sqrt(2); digits behind the point
_TWO_52, _SHIFT = np.int64(0x4330000000000000), np.int64(2048)  # bits of 2^52; what makes an exponent positive


@compiled
def exp(x: float) -> float:
    """exp(x), within two units of the last place."""
    y = -750.0 if x < _MIN_EXP else x
    y = 750.0 if y > _MAX_EXP else y
    k, p = _reduced(y)
    half = k >> 1  # 2^k itself may be out of range
    first = np.int64((half + 1023) << _MANTISSA).view(np.float64)
    second = np.int64((k - half + 1023) << _MANTISSA).view(np.float64)
    value: Any = (1.0 + p) * first * second
    value = 0.0 if x < _MIN_EXP else value
    return np.inf if x > _MAX_EXP else value


@compiled
def log(x: float) -> float:
    """The natural logarithm of a number above 2e-308, within two units of the last place; NaN of NaN, and of less."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits - _ROOT_HALF) >> _MANTISSA
    m = np.int64(bits - (exponent << _MANTISSA)).view(np.float64)
    k = np.int64((exponent + _SHIFT) | _TWO_52).view(np.float64) - (4503599627370496.0 + 2048.0)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = 1.0 / 21.0
    p = p * z + 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    value: Any = k * _HIGH + (2.0 * s + (2.0 * s * z * p + k * _LOW))
    value = value if x > 2.3e-308 else np.nan
    return np.inf if x == np.inf else value


def expm1_below(x: Any) -> Any:
    """exp(x) - 1 of a number x <= 0, of its own precision; within two units of the last place, NaN of NaN."""
    return np.expm1(x)


@overload(expm1_below)
def _expm1_below(x: Any) -> Any:
    return _single if str(x) == "float32" else _double


def _double(x: Any) -> Any:
    x = _MIN if x < _MIN else x
    k, p = _reduced(x)
    power = np.int64((k + 1023) << _MANTISSA).view(np.float64)
    return power * p + (power - 1.0)


@compiled
def _reduced(x: float) -> tuple[Any, float]:
    """k and p(r)."""
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
    return np.float64(shifted).view(np.int64) - _OFFSET, r + r * r * p


def _single(x: Any) -> Any:
    x = _MIN_32 if x < _MIN_32 else x
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
