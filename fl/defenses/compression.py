"""Updates in fewer numbers: within a subspace, the largest alone, or in a few bits each."""

import numpy as np
from pydantic import Field

from fl.defenses import Defense, Protected
from fl.types import Local, RoundContext, State, Updates
from netsim.columns import split_blocks
from netsim.part import Share
from netsim.rng import Rng
from netsim.units import FloatArray

_BLOCK = 2048  # numbers that a cosine transform mixes; a power of two, which it is fast for
_TOGETHER = 64  # rows that are transformed at once


class Projection(Defense, kind="projection"):
    """Projects every update on a random subspace of `dimension` r, drawn again in every round: u <-
    P P^T u.

    P = S F^T R has orthonormal columns: R takes r random coordinates, F is a cosine transform
    (orthonormal DCT-II) of blocks of 2,048 coordinates, S shuffles all coordinates and flips random
    signs. The subspace is public and the same for all UEs and models. The mean of an update over
    subspaces is r / d times that update; a larger server learning rate makes up for it. Norms and
    distances do not grow; there is no noise and no spend. The uplink counts all d numbers.
    """

    dimension: int = Field(1000, ge=1, le=10_000_000)
    """dimension of the subspace (r); with as many as an update has numbers, or more, nothing
    changes"""

    reference = (
        "Konečný et al. 2016, Federated Learning: Strategies for Improving Communication "
        "Efficiency, Section 3 (rotation and subsampling); Tropp 2011, Improved Analysis of the "
        "Subsampled Randomized Hadamard Transform"
    )
    example = {"kind": "projection", "dimension": 12}
    keeps_bound = True
    contracts = True

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: State, rng: Rng
    ) -> Protected:
        d = updates.n_parameters
        if self.dimension >= d or not len(updates.ue):
            return updates, state, []
        place = np.argsort(rng.draw_keys("shuffle", 0, d), kind="stable")
        sign = np.where(rng.draw_keys("signs", 0, d) < 0.5, -1.0, 1.0)
        dropped = np.argsort(rng.draw_keys("coordinates", 0, d), kind="stable")[self.dimension :]
        values = np.array(updates.all_rows)
        # P P^T u; rounding changes a norm by less than what clips leave room for, (d + 8) units
        for rows in split_blocks(len(values), _TOGETHER):
            mixed = _transform(values[rows, place] * sign, inverse=False)
            mixed[:, dropped] = 0.0
            values[rows, place] = _transform(mixed, inverse=True) * sign
        return updates.with_values(values, updates.bound), state, []


def _transform(rows: FloatArray, inverse: bool) -> FloatArray:
    """The orthonormal DCT-II of blocks of each row (n, d), or its inverse."""
    from scipy.fft import dct, idct

    law = idct if inverse else dct
    out = np.empty_like(rows)
    n = len(rows)
    whole = rows.shape[1] // _BLOCK * _BLOCK
    for part in (slice(0, whole), slice(whole, None)):
        if (size := rows[:, part].shape[1]) > 0:
            mixed = rows[:, part].reshape(n, -1, min(_BLOCK, size))
            out[:, part] = law(mixed, type=2, norm="ortho", axis=2).reshape(n, size)
    return out


class TopK(Defense, kind="top-k"):
    """Keeps the k = max(1, round(share d)) numbers of largest magnitude of every update of d
    numbers; others become 0.

    Norms do not grow, but distances may: two updates can keep different numbers, so noise needs a
    clip after this step. Which numbers are kept depends on the data and is sent with them. Nothing
    that was left out is remembered for later rounds. The uplink counts all d numbers.
    """

    share: Share = 0.01
    """share of the numbers of an update that is kept"""

    reference = (
        "Aji and Heafield 2017, Sparse Communication for Distributed Gradient Descent, Section 3"
    )
    example = {"kind": "top-k", "share": 0.2}

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: State, rng: Rng
    ) -> Protected:
        d = updates.n_parameters
        k = max(1, round(self.share * d))
        values = np.array(updates.all_rows)
        if k < d:
            for row in values:  # one at a time: the places of the numbers need no memory then
                row[np.argpartition(np.abs(row), d - k)[: d - k]] = 0.0
        return updates.with_values(values, None), state, []


class Quantise(Defense, kind="quantise"):
    """Rounds every number of an update at random to one of a few levels, without bias (QSGD).

    With b bits there are s = 2^(b - 1) - 1 levels beside zero on either side. With N the L2 norm of
    u, u_i becomes

        N sign(u_i) L / s,    L = floor(a) + Bernoulli(a - floor(a)),    a = s |u_i| / N,

    so that its mean is u_i. The mean squared error is at most min(d / s^2, sqrt(d) / s) |u|^2
    [Alistarh et al. 2017, Lemma 3.1]. With one bit only signs are sent, times the mean magnitude:
    sum_i |u_i| / d sign(u), which is biased and no longer than u. Norms and distances may grow
    otherwise. The uplink counts full numbers.
    """

    bits: int = Field(8, ge=1, le=16)
    """bits per number, its sign included (b); 1: signs alone"""

    reference = (
        "Alistarh et al. 2017, QSGD, Section 3.1; one bit: Karimireddy et al. 2019, Error "
        "Feedback Fixes SignSGD, Section 4"
    )
    example = {"kind": "quantise", "bits": 4}

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: State, rng: Rng
    ) -> Protected:
        values = np.array(updates.all_rows)
        owner = updates.row
        for i, row in enumerate(values):  # a row at a time: as many random numbers as an update has
            unit = rng.uniform("rounding", owner[i : i + 1], row.shape)[0] if self.bits > 1 else row
            values[i] = self._quantise_row(row, unit)
        return updates.with_values(values, None), state, []

    def _quantise_row(self, row: FloatArray, unit: FloatArray) -> FloatArray:
        """One update (d,), with a uniform number for each of its own."""
        size = np.abs(row)
        if self.bits == 1:
            return size.mean() * np.sign(row)
        scale = np.sqrt(row @ row)
        if scale == 0.0:
            return row
        s = 2 ** (self.bits - 1) - 1
        return scale / s * np.sign(row) * np.floor(s * (size / scale) + unit)
