"""Decibels and watts. Powers travel in watts inside laws, in dBm at the edges."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
ComplexArray = npt.NDArray[np.complex128]
Float32Array = npt.NDArray[np.float32]
ByteArray = npt.NDArray[np.uint8]
Arrays = Mapping[str, np.ndarray]
AnyFloats = npt.NDArray[np.floating[Any]]
ArrayPair = tuple[FloatArray, FloatArray]
IntArrayPair = tuple[IntArray, IntArray]
FloatPair = tuple[float, float]
FloatTriple = tuple[float, float, float]
FloatQuadruple = tuple[float, float, float, float]
IntPair = tuple[int, int]
TextPair = tuple[str, str]
Floats = tuple[float, ...]
Ints = tuple[int, ...]
Texts = tuple[str, ...]
LatLon = FloatPair
"""Latitude and longitude, degrees."""

SPEED_OF_LIGHT_M_S = 299_792_458.0
BOLTZMANN_J_K = 1.380649e-23
_NEPERS_PER_DB = np.log(10.0) / 10.0  # exp is several times faster than a power of 10


def db_from_ratio(ratio: npt.ArrayLike) -> FloatArray:
    """10 log10(ratio); a ratio of 0 gives -inf without a warning."""
    with np.errstate(divide="ignore"):
        return 10.0 * np.log10(np.asarray(ratio, float))


def ratio_from_db(value_db: npt.ArrayLike) -> FloatArray:
    """10^(dB / 10)."""
    return np.exp(np.asarray(value_db, float) * _NEPERS_PER_DB)


@lru_cache(maxsize=64)
def find_ratio(value_db: float) -> float:
    """`ratio_from_db` of one setting, which laws ask for at every event."""
    return float(ratio_from_db(value_db))


def w_from_dbm(power_dbm: npt.ArrayLike) -> FloatArray:
    """Watts from dBm."""
    return 1e-3 * ratio_from_db(power_dbm)
