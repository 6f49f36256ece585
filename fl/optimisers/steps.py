"""Steps of local optimisers, compiled: one pass over the weights, in their precision.

Products are rounded before they are added, so steps have the same bits on every processor.
"""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.units import FloatArray


@compiled
def descend(w: FloatArray, g: FloatArray, learning_rate: float) -> None:
    """w <- w - learning_rate g of rows (k, d)."""
    rate = w.dtype.type(learning_rate)
    for i in range(len(w)):
        weight, slope = w[i], g[i]
        for j in range(len(weight)):
            weight[j] -= rate * slope[j]


@compiled
def roll(w: FloatArray, g: FloatArray, v: FloatArray, learning_rate: float, momentum: float) -> None:
    """v <- momentum v + g, w <- w - learning_rate v of rows (k, d)."""
    rate, kept = w.dtype.type(learning_rate), w.dtype.type(momentum)
    for i in range(len(w)):
        weight, slope, velocity = w[i], g[i], v[i]
        for j in range(len(weight)):
            velocity[j] = kept * velocity[j] + slope[j]
            weight[j] -= rate * velocity[j]


@compiled
def adapt(
    w: FloatArray, g: FloatArray, m: FloatArray, v: FloatArray, beta1: float, beta2: float, epsilon: float,
    size: float, root: float,
) -> None:  # fmt: skip
    """m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2, w <- w - size m / (sqrt(v) / root + epsilon)."""
    number = w.dtype.type
    kept1, kept2, new1, new2 = number(beta1), number(beta2), number(1.0 - beta1), number(1.0 - beta2)
    size_, root_, least = number(size), number(root), number(epsilon)
    for i in range(len(w)):
        weight, slope, mean, square = w[i], g[i], m[i], v[i]
        for j in range(len(weight)):
            mean[j] = kept1 * mean[j] + new1 * slope[j]
            square[j] = kept2 * square[j] + new2 * slope[j] * slope[j]
            weight[j] -= size_ * mean[j] / (np.sqrt(square[j]) / root_ + least)
