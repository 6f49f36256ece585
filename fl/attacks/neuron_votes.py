r"""Votes of a first layer's units for places, added up over rounds."""

from typing import ClassVar, Literal, cast

import numpy as np
from pydantic import Field

from fl.attacks.base import View
from fl.attacks.closed_form import unit_cloud
from fl.attacks.place_maps import AddsMaps, Naming, PlaceMaps, best_of_all
from fl.learners import FirstLayerLearner
from fl.tracking.place_grid import PlaceGrid
from fl.types import Public
from netsim.rng import Rng
from netsim.units import AnyFloats, FloatArray


class NeuronVotes(AddsMaps):
    r"""Every unit of the first layer votes for one place in every round; the places with most votes are the answers.

    With rectified units the ratio r_h = dW_h / db_h (see `fl.attacks.closed_form`) is the mean of the samples that
    activate unit h. Units that only one place activates vote for that place, in every round again; the others scatter.
    A vote weighs

        min(|db_h| / sum_h |db_h|, max_weight),

    a vote for a place outside the area is dropped, and the map of all votes so far is smoothed by a Gaussian. Answers:
    the highest place, and the highest at least `apart_m` from those before.

    The votes of a UE are counted together, of all its models, also from sums that it is in; those of published models
    by model.
    Ratios are means of places where the local optimiser is linear in gradients: gradient descent, with momentum that
    starts at zero in every round, or with clipped gradients of whole samples.
    """

    kind: Literal["neuron-votes"] = "neuron-votes"
    width_m: float = Field(default=40.0, gt=0, le=1e6)
    """standard deviation of the Gaussian that smooths the votes, m"""
    max_weight: float = Field(default=0.05, gt=0, le=1)
    """largest weight of a unit in a round, as a share of all units"""
    answers: int = Field(default=2, ge=1, le=20)
    """number of places that are named of each UE"""

    renamed: ClassVar = {"most_weight": "max_weight"}
    reference: ClassVar = "Per-unit ratios of Bakopoulou et al., Location Leakage in Federated Signal Maps, Eq. 1"
    space: ClassVar = {"width_m": (40.0, 20.0, 80.0), "max_weight": (0.05, 0.01)}
    needs: ClassVar = {
        "positions": "the network's inputs must be positions",
        "biased first layer": "reads the first layer's weights and biases of an update",
        "linear local steps": "the ratio of two updates is a mean of places under steps that are linear in gradients",
        "linear server step": "published models must differ by a sum of gradients; take fedavgm, or see rows or sums",
    }

    def naming(self, view: View) -> Naming:
        return Naming(self.answers, self.apart_m, self.width_m)

    def listed(self, state: PlaceMaps, public: Public, count: int) -> FloatArray:
        return best_of_all(state, public.area, self.cell_m, Naming(count, self.apart_m, self.width_m))

    def scores(self, view: View, grid: PlaceGrid, rng: Rng) -> AnyFloats:
        """Weights of the votes of each update for each place of the grid (n_source, G)."""
        learner = cast(FirstLayerLearner, view.learner)
        centre, scale = (of[view.source_model][:, None] for of in learner.standardisation(view.model_before))
        good = view.usable
        dw, db = learner.first_layer(view.update)
        dw, db = np.where(good[:, None, None], dw, 0.0), np.where(good[:, None], db, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            where = centre + scale * unit_cloud(dw, db)
            size = np.abs(db) / np.abs(db).max(axis=1, keepdims=True, initial=1e-300)
            weight = np.minimum(size / size.sum(axis=1, keepdims=True), self.max_weight)
        row, unit = np.nonzero(grid.area.contains(where))
        at = row * len(grid) + grid.nearest(where[row, unit])
        count = np.bincount(at, weights=weight[row, unit], minlength=len(where) * len(grid))
        return np.asarray(count.reshape(len(where), len(grid)), dtype=np.float32)
