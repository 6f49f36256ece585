"""Updates within a public random subspace."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.defenses.base import Defense
from fl.types import Local, RoundContext, Spend, State, Updates
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_BLOCK = 2048  # numbers that a cosine transform mixes; a power of two, which it is fast for
_TOGETHER = 64  # rows that are transformed at once


class Projection(Defense):
    """Projects every update on a random subspace of `dimension` r, drawn again in every round: u <- P P^T u.

    P = S F^T R has orthonormal columns: R takes r random coordinates, F is a cosine transform (orthonormal DCT-II) of
    blocks of 2,048 coordinates, S shuffles all coordinates and flips random signs. The subspace is public and the same
    for all UEs and models. Nothing is scaled up, so the mean of an update over subspaces is r / d times that update; a
    larger server learning rate makes up for it. Norms and distances do not grow; what is left is not noisy, and no
    budget is spent. The uplink counts all d numbers, though r would do.
    """

    kind: Literal["projection"] = "projection"
    dimension: int = Field(default=1000, ge=1, le=10_000_000)
    """dimension of the subspace (r); with as many as an update has numbers, or more, nothing changes"""

    reference: ClassVar = (
        "Konečný et al. 2016, Federated Learning: Strategies for Improving Communication Efficiency, Section 3 "
        "(rotation and subsampling); Tropp 2011, Improved Analysis of the Subsampled Randomized Hadamard Transform"
    )
    example: ClassVar = {"kind": "projection", "dimension": 12}
    keeps_bound: ClassVar = True
    contracts: ClassVar = True

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: State, rng: Rng
    ) -> tuple[Updates, State, list[Spend]]:
        d = updates.n_parameters
        if self.dimension >= d or not len(updates.ue):
            return updates, state, []
        place = np.argsort(rng.keys("shuffle", 0, d), kind="stable")
        sign = np.where(rng.keys("signs", 0, d) < 0.5, -1.0, 1.0)
        dropped = np.argsort(rng.keys("coordinates", 0, d), kind="stable")[self.dimension :]
        values = np.array(updates.rows(slice(None)))
        for first in range(0, len(values), _TOGETHER):
            rows = values[first : first + _TOGETHER]
            rows[:] = _projected(rows, place, sign, dropped)
        return updates.replaced(values, updates.bound), state, []


def _projected(rows: FloatArray, place: IntArray, sign: FloatArray, dropped: IntArray) -> FloatArray:
    """P P^T u of rows u (n, d); rounding changes a norm by less than what clips leave room for, (d + 8) units."""
    mixed = _transform(rows[:, place] * sign, inverse=False)
    mixed[:, dropped] = 0.0
    out = np.empty_like(rows)
    out[:, place] = _transform(mixed, inverse=True) * sign
    return out


def _transform(rows: FloatArray, inverse: bool) -> FloatArray:
    """The orthonormal DCT-II of blocks of each row (n, d), or its inverse."""
    from scipy.fft import dct, idct

    law, out, n = idct if inverse else dct, np.empty_like(rows), len(rows)
    whole = rows.shape[1] // _BLOCK * _BLOCK
    for part in (slice(0, whole), slice(whole, None)):
        if (size := rows[:, part].shape[1]) > 0:
            blocks = rows[:, part].reshape(n, -1, min(_BLOCK, size))
            out[:, part] = law(blocks, type=2, norm="ortho", axis=2).reshape(n, size)
    return out
