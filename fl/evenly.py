"""Some of many, evenly spaced in their order."""

from __future__ import annotations

import numpy as np

from netsim.units import IntArray


def evenly(count: int, most: int) -> IntArray:
    """At most `most` numbers of 0..count - 1, ascending: all, or evenly spaced ones with both ends."""
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).astype(np.int64)
