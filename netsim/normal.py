"""The normal distribution. scipy is loaded when it is asked for: checking a scenario does not pay for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.units import FloatArray


def ndtr(x: Any) -> FloatArray:
    """Probability of a standard normal number below x (...)."""
    from scipy import special

    return np.asarray(special.ndtr(x))


def ndtri(p: Any) -> FloatArray:
    """The number below which a standard normal one is with probability p (...)."""
    from scipy import special

    return np.asarray(special.ndtri(p))
