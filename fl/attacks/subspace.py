"""The strongest directions of many matrices at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from netsim.rng import Rng
from netsim.units import FloatArray

AnyFloats = npt.NDArray[np.floating[Any]]

_SPARE = 8  # directions beside those asked for, so that the search settles on the strongest
_SWEEPS = 2
_ROWS = 256  # whose lengths are taken at once


def scaled(matrix: FloatArray) -> FloatArray:
    """Finite matrices (n, p, q) divided, in place, by their largest entries: no square overflows or vanishes."""
    low, high = (best(matrix, axis=(1, 2), keepdims=True, initial=0.0) for best in (np.min, np.max))
    size = np.maximum(high, -low)
    matrix /= np.where(size > 0, size, 1.0)
    return matrix


def unit_rows(vector: FloatArray) -> FloatArray:
    """Vectors (n, p) of length 1, in place; zeros for one that is not finite, as those of a model that has diverged."""
    for at in range(0, len(vector), _ROWS):  # few rows at a time stay in the cache
        some = vector[at : at + _ROWS]
        size = np.abs(some).max(axis=1, keepdims=True, initial=0.0)
        good = np.isfinite(size) & (size > 0)
        even = np.where(good, some, 0.0) / np.where(good, size, 1.0)
        length = np.linalg.norm(even, axis=1, keepdims=True)
        np.divide(even, np.where(length > 0, length, 1.0), out=some)
    return vector


def principal(matrix: FloatArray, k: int, rng: Rng) -> FloatArray:
    """u_j s_j of the k strongest singular triplets of matrices (n, p, q), strongest first: (n, p, min(k, p, q)).

    Randomised subspace iteration [Halko, Martinsson, Tropp 2011, Algorithm 4.4]: exact to rounding for a matrix of
    rank k or less, and where one has no more than k + 8 rows or columns.
    """
    p, q = matrix.shape[1:]
    if min(p, q) <= k + _SPARE:
        u, s, _ = np.linalg.svd(matrix, full_matrices=False)
        return np.asarray((u * s[:, None, :])[:, :, :k])
    basis = np.linalg.qr(matrix @ rng.normal("directions", np.arange(q), (k + _SPARE,)))[0]
    for _ in range(_SWEEPS):
        across = np.linalg.qr(matrix.transpose(0, 2, 1) @ basis)[0]
        basis = np.linalg.qr(matrix @ across)[0]
    u, s, _ = np.linalg.svd(basis.transpose(0, 2, 1) @ matrix, full_matrices=False)
    return np.asarray((basis @ (u * s[:, None, :]))[:, :, :k])


def principal_of_columns(columns: FloatArray) -> FloatArray:
    """u_j s_j of few columns (n, p, m), strongest first, from their products: (n, p, m), exact to 1e-8 of the first."""
    _, turn = np.linalg.eigh(columns.transpose(0, 2, 1) @ columns)
    return np.asarray(columns @ turn[:, :, ::-1])


def directions(strong: FloatArray, k: int, least: float) -> FloatArray:
    """Unit vectors (n, p, k or fewer) of the first k of orthogonal columns (n, p, m), strongest first.

    Zero for a column that is shorter than `least` of the first one: it holds rounding only.
    """
    strong = strong[:, :, :k]
    length = np.sqrt(np.einsum("npk,npk->nk", strong, strong))[:, None]
    there = length > least * length[:, :, :1]
    return np.where(there, strong / np.where(there, length, 1.0), 0.0)


def parts(basis: FloatArray, unit: AnyFloats) -> AnyFloats:
    """U^T a (n, k, G) of bases U (n, p, k) and vectors a (G, p), in the precision of a."""
    n, p, k = basis.shape
    part: AnyFloats = basis.transpose(0, 2, 1).reshape(n * k, p).astype(unit.dtype) @ unit.T
    return part.reshape(n, k, len(unit))


def squares(part: AnyFloats) -> AnyFloats:
    """The sum over k of squares of (n, k, G): (n, G)."""
    total: AnyFloats = np.einsum("nkg,nkg->ng", part, part)
    return total
