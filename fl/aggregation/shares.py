"""Weights from logarithms, per model, without overflow."""

from __future__ import annotations

import numpy as np

from netsim.units import BoolArray, FloatArray, IntArray


def shares(log_mass: FloatArray, decoded: BoolArray, model: IntArray, n_model: int) -> FloatArray:
    """exp(log_mass) / its sum over the decoded rows of the same model: (n,), 0 where not decoded."""
    highest = np.full(n_model, -np.inf)
    np.maximum.at(highest, model[decoded], log_mass[decoded])
    mass = np.zeros(len(model))
    mass[decoded] = np.exp(log_mass[decoded] - highest[model[decoded]])
    total = np.bincount(model, weights=mass, minlength=n_model)[model]
    return np.divide(mass, total, out=np.zeros_like(mass), where=total > 0)


def effective(weights: FloatArray) -> float:
    """Rows that equal weights of the same noise would have: (sum w)^2 / sum w^2; 0 where no row counts."""
    square = float((weights**2).sum())
    return float(weights.sum() ** 2 / square) if square > 0 else 0.0
