r"""The forward filter: what is known of where UEs are now, from all estimates up to now.

    a_t(j) = e_t(j) sum_i a_{t-1}(i) K(i, j) / s_t,     log-likelihood = sum_t log s_t,

in float32, rescaled in every step. e is relative to an estimate that may lie anywhere, so that the log-likelihood is
that of the model against one in which estimates say nothing. With r_k = w_k <a_{t-1}, K_k e_t> / s_t, the probability
that component k brought the UE here, the weights of motion are learnt online.

[Rabiner 1989, Eqs. 19-20 and 91-92, for the scaling]
"""

from __future__ import annotations

import numpy as np

from fl.tracking.emission import Emission, updated
from fl.tracking.maps import Maps, sums
from fl.tracking.motion import Motion
from netsim.columns import frozen
from netsim.units import FloatArray, IntArray

_NUMBERS = 80_000  # of a block of maps: temporary ones stay in the cache


@frozen
class RoundOfMotion:
    """One round of motion: weight (n_ue, K + 2) of the components, and target (n_ue or 1, ny, nx) of jumps."""

    weight: FloatArray
    target: Maps

    def take(self, rows: slice | IntArray) -> RoundOfMotion:
        """Select some UEs."""
        return RoundOfMotion(self.weight[rows], self.target if len(self.target) == 1 else self.target[rows])


@frozen
class FilterStep:
    """Result of a step: p (n_ue, ny, nx); log_ratio (n_ue,), the logarithm of s_t;
    share (n_ue, K + 2) : uses of each component, 0 unless one round has passed.
    """

    p: Maps
    log_ratio: FloatArray
    share: FloatArray


def blocks(n: int, places: int, numbers: int = 16_000) -> list[slice]:
    """Split n UEs into blocks whose maps stay in the cache, of one UE at least."""
    size = max(numbers // places, 1)
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]


def step(motion: Motion, p: Maps, legs: list[RoundOfMotion], emission: Emission) -> FilterStep:
    """Rounds of motion, then estimates, for all UEs; one without estimates moves only."""
    new, log_ratio = np.empty_like(p), np.zeros(len(p))
    bad, share = np.zeros(len(p), dtype=np.bool_), np.zeros((len(p), len(motion.sigma_m) + 2))
    read = motion.read_product(emission.fy, emission.fx) if len(legs) == 1 else []
    for rows in blocks(len(p), len(motion.grid), _NUMBERS):
        some, mine, own = p[rows], emission.select(rows), [leg.take(rows) for leg in legs]
        for leg in own:
            parts = motion.parts(some)
            if len(own) == 1:
                mine_read = [(fy[rows], fx[rows]) for fy, fx in read]
                share[rows] = _shares(motion, some, parts, leg, mine, mine_read)
            some = motion.step(some, parts, leg.weight, leg.target)
        log_ratio[rows], bad[rows] = updated(some, mine, new[rows])
    share[bad] = 0.0
    return FilterStep(new, log_ratio, share)


def _shares(
    motion: Motion, p: Maps, parts: list[Maps], leg: RoundOfMotion, emission: Emission, read: list[tuple[Maps, Maps]]
) -> FloatArray:
    """r_k (n_ue, K + 2) of a step from p, with `parts` of p, to estimates, of which Gaussians read `read`."""
    total = sums(p)
    each = [emission.inner(p, total), *(emission.floor * total + one for one in motion.product_uses(p, parts, read))]
    each.append(total * emission.inner(leg.target, sums(leg.target)))
    share = leg.weight * np.stack(each, axis=1)
    whole = share.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(share, whole, out=np.zeros_like(share), where=whole > 0))
