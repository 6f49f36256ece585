"""Privacy loss distributions: the tightest figure for rounds that a Poisson sample of the users takes part in.

dp-accounting rounds the losses of each kind of round upwards to a grid and convolves them, so its epsilon is an upper
bound: within some parts in ten thousand of the truth from 0.1 upwards, coarser in what hardly costs anything.
Convolving takes up to half a second, so it is for a final statement, of at most MOST_KINDS kinds of round and
MOST_ROUNDS sampled rounds, and not for the loop.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from netsim.units import FloatArray

MOST_KINDS = 16
MOST_ROUNDS = 100_000
_POINTS = 10_000  # of the grid, up to an upper bound of epsilon
_POINTS_A_ROUND = 15_000  # of the grid, over the losses of one round


def epsilon_of(z: FloatArray, q: FloatArray, count: FloatArray, delta: float, at_most: float) -> float:
    """Epsilon for add-remove of rounds with noise multipliers z > 0, rates q in (0, 1], played count times: all (n,).

    at_most is a bound that is known already (RDP), which sets the grid. Rounds with q = 1 are one Gaussian together.
    """
    with _silent():
        from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
        from dp_accounting.pld import PLDAccountant

        accountant = PLDAccountant(value_discretization_interval=_grid(z, at_most))
        sampled = q < 1
        if not sampled.all():
            mu2 = float(np.sum(count[~sampled] / z[~sampled] ** 2))
            accountant.compose(GaussianDpEvent(mu2**-0.5))
        for z_, q_, n in zip(z[sampled], q[sampled], count[sampled], strict=True):
            accountant.compose(PoissonSampledDpEvent(float(q_), GaussianDpEvent(float(z_))), int(n))
        return float(accountant.get_epsilon(delta))


def _grid(z: FloatArray, at_most: float) -> float:
    """Width of a cell: fine against the epsilon, yet few over the losses of one round, about s^2/2 + 8 s, s = 1/z."""
    s = 1 / float(np.min(z))
    return max(at_most / _POINTS, (s * s / 2 + 8 * s) / _POINTS_A_ROUND)


@contextmanager
def _silent() -> Iterator[None]:
    """Nothing of the library reaches the screen."""
    log = logging.getLogger("absl")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
