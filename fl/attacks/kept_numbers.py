r"""Places from the indices of the numbers of an update that were sent, whatever their values."""

from typing import ClassVar, Literal, cast

import numpy as np
from pydantic import Field

from fl.attacks.base import View
from fl.attacks.place_maps import AddsMaps, unit_rows
from fl.learners import LayeredLearner
from fl.tracking.place_grid import PlaceGrid
from netsim.rng import Rng
from netsim.units import AnyFloats

_LAYER = 2
_ROUNDING = 1e-9  # a map that varies less is flat


class KeptNumbers(AddsMaps):
    r"""Names places by which numbers of an update are not zero: what compression by `top-k` or `quantise` leaves.

    A weight of the second layer is updated by the sum over samples of h_i(x) delta, so the numbers that leave input i
    are large, and kept, where samples activate i. With q_i how many numbers that leave input i are not zero, and h(x)
    what the layer reads of a place under the model before the round,

        s(x) = <sqrt q, |h(x)|> / (|sqrt q| |h(x)|),

    standardised over the places of a grid and added up over rounds. Values and signs play no part, so it reads as much
    of an update whose values were hidden and whose positions are sent in clear. Answers: the highest place, then the
    highest at least `apart_m` from those before. An update of which no number, or the same share for every input, is
    left out says nothing.
    """

    kind: Literal["kept-numbers"] = "kept-numbers"
    cell_m: float | None = Field(default=25.0, ge=0.1, le=1e6)
    """largest distance between the places that are compared, m; none: as of span"""

    reference: ClassVar = "netsim: positions of the numbers that compression keeps, against hidden activations"
    space: ClassVar = {"apart_m": (200.0, 100.0, 400.0)}
    needs: ClassVar = {
        "layers": "reads the update of one fully connected layer",
        f"layer {_LAYER}": f"reads the update of layer {_LAYER}, and the network has none that is trained",
        "hidden activations": "computes what a hidden layer reads of every place",
        "starting weights": "computes hidden activations with them; add weights to threat.knowledge",
    }

    def scores(self, view: View, grid: PlaceGrid, rng: Rng) -> AnyFloats:
        learner = cast(LayeredLearner, view.learner)
        score = np.zeros((len(view.update), len(grid)))
        good = view.usable
        for model in np.unique(view.source_model[good]).tolist():
            rows = np.flatnonzero(good & (view.source_model == model))
            sent = (learner.layer(view.update[rows], _LAYER)[:, :-1] != 0).sum(axis=2)
            h = unit_rows(np.abs(learner.layer_input(view.model_before, model, grid.place_m, _LAYER)[:, :-1]))
            s = unit_rows(np.sqrt(sent)) @ h.T
            s -= s.mean(axis=1, keepdims=True)
            score[rows] = s / np.maximum(s.std(axis=1, keepdims=True), _ROUNDING)
        return score
