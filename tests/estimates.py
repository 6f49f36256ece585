"""Estimates of attacks, written by hand."""

import numpy as np

from fl.types import Estimates


def said(*rows):
    """Estimates from (ue, model, what, x, y, weight)."""
    n = len(rows)
    ue, model, what, x, y, weight = zip(*rows, strict=True) if rows else ([],) * 6
    whole = np.zeros(n, dtype=np.int64)
    return Estimates(
        np.array(ue, dtype=np.int64),
        np.array(model, dtype=np.int64),
        list(what),
        np.array([x, y], dtype=np.float64).T.reshape(-1, 2),
        np.array(weight, dtype=np.float64),
        np.full(n, np.nan),
        whole,
        whole,
        ["ok"] * n,
    )
