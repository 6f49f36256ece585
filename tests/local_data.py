"""Local data of made-up devices."""

import numpy as np

from fl.types import Local
from netsim.columns import compute_bounds


def make_local(counts, x, y, ue=None, model=0):
    """Samples x (N, p) and y (N,) of devices with counts (n,) of them, one after the other."""
    ue = np.arange(len(counts)) if ue is None else ue
    return Local(ue, np.zeros_like(ue) + model, compute_bounds(counts), x, y, np.zeros(len(x)))
