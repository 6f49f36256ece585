"""How far the slopes of a critic can be trusted: beside those of the true rewards."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from netsim.units import FloatArray, IntArray

_STEP = 0.1  # of an action: 1 dB


def gradient_cosine(
    slope: FloatArray, rewards: Callable[[FloatArray, IntArray], FloatArray], actions: FloatArray, at: IntArray
) -> float:
    """Cosine between slopes (S, K) along actions (S, K) and those of the true rewards in rounds at (S,), by central
    differences of 1 dB; mean over rounds. 1: a step along the slope helps most; 0: it helps no more than any other.
    """
    n, k = actions.shape
    apart = _STEP * np.concatenate([np.eye(k), -np.eye(k)])
    tried = (actions[:, None] + apart).reshape(-1, k)
    up, down = np.split(rewards(tried, np.repeat(at, 2 * k)).reshape(n, 2 * k), 2, axis=1)
    true = (up - down) / (2 * _STEP)
    size = np.linalg.norm(slope, axis=1) * np.linalg.norm(true, axis=1)
    return float(np.mean(np.divide((slope * true).sum(axis=1), size, out=np.zeros(n), where=size > 0)))
