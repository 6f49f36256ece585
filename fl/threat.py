"""The threat model: who attacks, and exactly what they see of a round."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from fl.attacks.base import View
from fl.learners.base import Learner
from fl.types import Model, Received
from netsim.part import Part
from netsim.units import FloatArray


class Threat(Part):
    """Grants a view.

    `rows`: every decoded update, with its sender. `sum`: only the merged update of each model, as under secure
    aggregation. `model`: only the published models, before and after. An `analyst` is somebody outside who
    reads published models; the `server` runs the training.
    """

    sees: Literal["rows", "sum", "model"] = "rows"
    """what of a round the attacker can tell apart"""
    viewpoint: Literal["server", "analyst"] = "server"
    """where the attacker sits"""

    @model_validator(mode="after")
    def _analyst(self) -> Self:
        if self.viewpoint == "analyst" and self.sees != "model":
            raise ValueError(
                f"an analyst sees published models only: sees must be 'model', got {self.sees!r}; "
                "for rows or sums set viewpoint: server"
            )
        return self

    def view(
        self,
        learner: Learner,
        phase: str,
        received: Received,
        total: FloatArray,
        before: Model,
        after: Model,
    ) -> View:
        """The view of one phase. total (n_model, d) is the merge of the decoded rows, before server noise."""
        updates = received.updates
        heard = np.flatnonzero(received.decoded)
        ue, model = updates.ue[heard], updates.model[heard]
        if self.sees == "rows":
            update, source_model, source = updates.rows(heard), model, np.arange(len(heard))
        else:
            source_model, source = np.unique(model, return_inverse=True)
            whole = total if self.sees == "sum" else after.parameters - before.parameters
            update = whole[source_model]
        return View(self.sees, phase, update, source_model, ue, model, source, before, after, learner)
