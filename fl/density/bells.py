"""The exact kernel along one axis, compiled: one pass, with exponentials that take vector instructions."""

from __future__ import annotations

import numpy as np

from netsim.compiled import compiled
from netsim.elementary import exp
from netsim.units import FloatArray


@compiled
def bells(at_m: FloatArray, axis_m: FloatArray, bandwidth_m: float) -> FloatArray:
    """exp(-((x - at) / bandwidth)^2 / 2) of coordinates at_m (n,) at places axis_m (P,): (n, P)."""
    out = np.empty((len(at_m), len(axis_m)))
    for i in range(len(at_m)):
        for p in range(len(axis_m)):
            steps = (axis_m[p] - at_m[i]) / bandwidth_m
            out[i, p] = exp(-0.5 * steps * steps)
    return out
