"""Success of telling UEs apart: which of them are near a place, and which have moved.

Both figures are areas under ROC curves of the weights that the attack gives its estimates "near" and "moved": 0.5 is
random guessing, and only the order of weights counts.
"""

from __future__ import annotations

import numpy as np

from fl.membership.roc import auc
from netsim.units import FloatArray


def near_auc(weight: FloatArray, distance_m: FloatArray) -> float:
    """Probability that a UE nearer than the median has a larger weight (n,) than another, ties half.

    distance_m (n,): true distances to the places named; NaN: unknown, left out. NaN where no distance differs.
    """
    known = np.isfinite(distance_m)
    if not known.any():
        return float("nan")
    near = distance_m[known] < np.median(distance_m[known])
    return auc(weight[known][near], weight[known][~near])[0]


def moved_auc(weight: FloatArray, moved_m: FloatArray, hit_radius_m: float) -> float:
    """Probability that a UE that has moved by more than hit_radius_m has a larger weight (n,) than another, ties half.

    moved_m (n,): true displacements; NaN: unknown, left out. NaN where all have moved, or none.
    """
    known = np.isfinite(moved_m)
    moved = moved_m[known] > hit_radius_m
    return auc(weight[known][moved], weight[known][~moved])[0]
