"""Maximum-likelihood attack: the likelihood of an update as a function of the position of the UE."""

from typing import ClassVar, Literal, cast

import numpy as np
from pydantic import Field

from fl.attacks.base import View
from fl.attacks.ramp_aware import RampAware
from fl.attacks.weighted_centroid import weighted_centroid
from fl.learners.base import GridLearner
from fl.radio_map.grid import Grid
from netsim.units import FloatArray

_FLOOR = 1e-12  # of the largest square: what no pattern explains is no smaller


class Likelihood(RampAware):
    r"""Maximum-likelihood position on a grid of candidates, refined by the strongest cells near it.

    Model and base stations are public, so the server can compute P_m(u), the expected squared gradient of a UE at u
    over unknown measurements, scaled to maximum 1. With the ramp of the noise fitted as in `ramp-aware`, the squares
    q_m of the update (maximum 1) have variance v_m = noise_m + P_m(u)::

        log L(u) = -1/2 sum_m (log v_m + q_m / v_m),    noise_m = max(0, a.c_m + b) + 1e-12

    u runs over candidates `step_m` apart. The estimate is the centroid (nu) of the cells within `step_m` of the best
    candidate whose squares exceed the noise; without any, that candidate. It is the strongest implemented attack
    against aligned noise of small rho, which misleads the other attacks, and weaker than `ramp-aware` otherwise.
    """

    kind: Literal["likelihood"] = "likelihood"  # type: ignore[assignment]
    nu: float | Literal["inf"] = "inf"
    """exponent of the cell weights; inf: only the strongest cell"""
    step_m: float = Field(default=10.0, gt=0, le=1e6)
    """distance between candidate positions, m"""

    reference: ClassVar = (
        "against Geometry-Aligned Differential Privacy, Eq. 16 and 37: an adversary who matches patterns"
    )
    example: ClassVar = {"kind": "likelihood", "block_cells": 2, "step_m": 100}

    def places(self, seen: FloatArray, grid: Grid, view: View) -> FloatArray:
        square, noise = self.square_and_noise(seen, grid)
        noise = noise + _FLOOR
        tried_m = self._tried(grid)
        pattern = cast(GridLearner, view.learner).expected_square(view.model_before, tried_m)
        gain = np.zeros((len(seen), len(tried_m)))  # log L(u) less that of noise alone
        for k, row in enumerate(pattern):
            top = row.max(initial=0.0)
            if top <= 0 or not np.isfinite(top):
                gain[:, k] = -np.inf
                continue
            touched = np.flatnonzero(row > _FLOOR * top)
            ratio, loud = row[touched] / top / noise[:, touched], square[:, touched] / noise[:, touched]
            gain[:, k] = (loud * ratio / (1 + ratio) - np.log1p(ratio)).sum(axis=1)
        best_m = tried_m[gain.argmax(axis=1)]
        near = np.linalg.norm(grid.centre_m[None] - best_m[:, None], axis=2) <= self.step_m
        centroid_m = weighted_centroid(self.size(seen, grid) * near, grid.centre_m, float(self.nu))
        silent = square.max(axis=1, keepdims=True) <= 0
        return np.where(silent, np.nan, np.where(np.isfinite(centroid_m), centroid_m, best_m))

    def _tried(self, grid: Grid) -> FloatArray:
        """Places over the whole area (k, 2), at most `step_m` apart."""
        area = grid.area

        def along(low: float, high: float) -> FloatArray:
            n = max(1, int(np.ceil((high - low) / self.step_m)))
            return low + (np.arange(n) + 0.5) * (high - low) / n

        x, y = np.meshgrid(along(area.x_min_m, area.x_max_m), along(area.y_min_m, area.y_max_m))
        return np.column_stack([x.ravel(), y.ravel()])
