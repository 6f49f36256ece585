"""Whether stated probabilities come true as often as stated."""

from __future__ import annotations

import numpy as np

from netsim.units import BoolArray, FloatArray

BINS = 10


def reliability_error(stated: FloatArray, hit: BoolArray) -> float:
    """sum_b n_b |mean stated - share of hits| / n over ten equal bins of stated probability (n,); NaN of none."""
    known = np.isfinite(stated)
    if not known.any():
        return float("nan")
    p, came = stated[known], hit[known].astype(np.float64)
    of = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    return float(np.abs(np.bincount(of, weights=p - came, minlength=BINS)).sum() / len(p))
