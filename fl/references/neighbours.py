"""A map of nearest neighbours."""

from __future__ import annotations

import numpy as np

from netsim.units import FloatArray


def nearest_neighbours(x: FloatArray, y: FloatArray, at: FloatArray, most: int) -> FloatArray:
    """Mean of the `most` nearest of samples x (N, 2), y (N,) at places (k, 2), weighted by 1 / (distance + 1 m)."""
    from scipy.spatial import cKDTree

    distance, index = cKDTree(x).query(at, k=min(most, len(x)))
    distance, index = distance.reshape(len(at), -1), index.reshape(len(at), -1)
    weight = 1.0 / (distance + 1.0)  # a metre keeps an exact repeat from silencing its neighbours
    return np.asarray((weight * y[index]).sum(axis=1) / weight.sum(axis=1))
