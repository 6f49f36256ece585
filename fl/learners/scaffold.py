"""Local training with control variates, which UEs remember from round to round."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from fl.learners import PLACE_GRADIENTS
from fl.learners.torch_net import TorchNet
from fl.server_optimiser import MODEL_CHANGES
from fl.types import Local, Model, Public, Updates
from netsim.columns import ByKey
from netsim.part import Share
from netsim.rng import Rng
from netsim.units import FloatArray

_CONTROL = "control"
_NOT_OFFERED = {MODEL_CHANGES, PLACE_GRADIENTS, "bound", "record bound", "record gradients"}
_NOT_OFFERED |= {"linear local steps", "sample gradient"}


class Scaffold(TorchNet, kind="scaffold"):
    """SCAFFOLD: a `torch` learner whose UEs correct every gradient by c - c_i, with its keys.

    With learning rate eta, K_i local steps and plain SGD (option II of the paper)::

        y_i <- y_i - eta (g_i(y_i) + c - c_i)       from y_i = w, K_i times
        c_i <- c_i - c + (w - y_i) / (K_i eta)      remembered by UE i, 0 at first
        w <- w + sum_i p_i (y_i - w)                c <- c + participation sum_i p_i (change of c_i)

    p_i are the weights of the aggregation; with `uniform` c is exactly the mean of all c_i as long
    as no update is lost. Of a lost update the UE keeps its c_i and c lacks the change. One with an
    aggregation by samples weighs both sums so. c is public, as the model is.

    A row has 2 d numbers, y_i - w and then eta (change of c_i), so that both are of one size: a
    clip holds the whole row and noise falls on all of it, and an epsilon covers both. Since c_i is
    made of earlier data, no bound of one record holds, and an update is no combination of the
    gradients of its round: attacks that count on either are refused. So are servers without rounds,
    whose c would be of other versions than the model, and optimisers of the server other than a
    full step, which would move c as if it were weights.
    """

    participation: Share = 1.0
    """share of the UEs whose updates are merged in a round (|S| / N), equal to that of the study"""

    reference: ClassVar = "Karimireddy et al., SCAFFOLD, 2020, Algorithm 1, option II"
    example: ClassVar = {"kind": "scaffold", "module": "perceptron", "arguments": {"hidden": [8]}}

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        return super().offers - _NOT_OFFERED

    def init(self, public: Public, rng: Rng) -> Model:
        model = super().init(public, rng)
        control = np.zeros_like(model.parameters)
        return replace(model, constants=model.constants | {_CONTROL: control})

    def start_ues(self, n_ue: int) -> ByKey:
        return ByKey.empty(0)

    def train_with_state(
        self, model: Model, phase: str, data: Local, state: ByKey, rng: Rng
    ) -> tuple[Updates, ByKey]:
        control = model.constants[_CONTROL][data.model]
        before = np.zeros_like(control)
        if len(state.key):
            before = np.nan_to_num(state.look_up(data.row))
        updates = self.train(model, data, rng, control - before)
        moved = updates.values
        steps = -(-data.count // self.compute_batch_sizes(data.count)) * self.local_epochs
        change = -control - moved / (self.learning_rate * steps)[:, None]
        change[~np.isfinite(updates.norm())] = 0.0
        values = np.concatenate([moved, self.learning_rate * change], axis=1)
        return updates.with_values(values, None), state.overwrite_values(data.row, before + change)

    def step(self, model: Model, phase: str, merged: FloatArray) -> Model:
        moved, change = np.split(merged, 2, axis=1)
        control = model.constants[_CONTROL] + self.participation / self.learning_rate * change
        return Model(model.parameters + moved, model.constants | {_CONTROL: control})
