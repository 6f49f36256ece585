"""Weights by the number of samples and by the angle between an update and the mean update."""

from dataclasses import field
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.aggregation.base import Aggregation
from fl.aggregation.shares import effective, shares
from fl.types import Metrics, Received, RoundContext
from netsim.columns import frozen, no_ints, row_id
from netsim.units import FloatArray, IntArray


@frozen
class Angles:
    """Mean angle in radians of every row decoded so far, by ascending row id, and the number of its rounds."""

    row: IntArray
    angle: FloatArray
    rounds: FloatArray
    figures: Metrics = field(default_factory=dict)


class Beda(Aggregation):
    r"""G_k = |D_k| exp(f(angle_k)) / sum over the decoded, with f(a) = alpha (1 - exp(-exp(-alpha (a - 1)))).

    angle_k, in radians, lies between a row and the mean of all decoded rows weighted by size, smoothed by its running
    mean over the rounds in which the device was decoded: a~[t] = ((t - 1) a~[t - 1] + a[t]) / t. f falls with the
    angle, from nearly alpha to 0, and is alpha (1 - 1/e) at one radian. Angles are those of what was received, noise
    included; a row or a mean without length stands at a right angle. Figures: `angle_mean_rad`, `effective_devices`.
    """

    kind: Literal["beda"] = "beda"
    alpha: float = Field(default=5.0, gt=0, le=100)
    """alpha: the weight of an aligned UE grows by a factor of at most exp(alpha)"""

    reference: ClassVar = (
        "Wu and Wang, Fast-Convergent Federated Learning With Adaptive Weighting, 2021 (FedAdp); benchmark BEDA of the "
        "LAPA study"
    )
    needs: ClassVar = {"updates": "compares single updates, and a sum of them is all that the server gets"}

    def start(self) -> Angles:
        return Angles(no_ints(), np.zeros(0), np.zeros(0))

    def contribution(self, angle: FloatArray) -> FloatArray:
        """f of angles in radians."""
        return self.alpha * (1.0 - np.exp(-np.exp(-self.alpha * (angle - 1.0))))

    def weights(self, received: Received, facts: RoundContext, state: Angles) -> tuple[FloatArray, Angles]:
        updates, heard, n_model = received.updates, received.decoded, facts.public.n_model
        log_mass = np.log(updates.count)
        now = self._angles(received, shares(log_mass, heard, updates.model, n_model), n_model)
        row = row_id(updates.ue, updates.model)
        every = np.union1d(state.row, row[heard])
        angle, rounds = np.zeros(len(every)), np.zeros(len(every))
        old = np.searchsorted(every, state.row)
        angle[old], rounds[old] = state.angle, state.rounds
        mine = np.searchsorted(every, row[heard])
        rounds[mine] += 1
        angle[mine] += (now[heard] - angle[mine]) / rounds[mine]
        log_mass[heard] += self.contribution(angle[mine])
        weight = shares(log_mass, heard, updates.model, n_model)
        said = {"effective_devices": effective(weight)} | ({"angle_mean_rad": angle[mine].mean()} if len(mine) else {})
        return weight, Angles(every, angle, rounds, said)

    @staticmethod
    def _angles(received: Received, size: FloatArray, n_model: int) -> FloatArray:
        """Angle (n,) of each row to the mean of its model's."""
        updates = received.updates
        mean = updates.weighted_sum(size, n_model)
        rows = updates.rows(slice(None))
        inner = np.einsum("nd,nd->n", rows, mean[updates.model])
        length = updates.norm() * np.linalg.norm(mean, axis=1)[updates.model]
        with np.errstate(divide="ignore", invalid="ignore"):
            cosine = np.where((length > 0) & np.isfinite(length), inner / length, 0.0)
        return np.asarray(np.arccos(np.clip(cosine, -1.0, 1.0)))
