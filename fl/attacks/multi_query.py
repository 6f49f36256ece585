"""Asking again: surfaces of the same device, added up over questions."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, cast

import numpy as np

from fl.attacks.base import Attack, View, latest, recall
from fl.attacks.density_peak import best_points
from fl.learners.base import SurfaceLearner
from fl.types import Estimates, Facts, State
from netsim.rng import Rng
from netsim.row_id import row_id


class MultiQuery(Attack):
    r"""Adds up everything that a device has answered, over rounds and bandwidths, and names the highest point.

    Every wave of a device is at its height where the device is, whatever its length and direction. K questions to a
    device that draws anew are K features, and few are enough; a device that keeps its waves gives each of them once,
    and of several bandwidths only the bands that all of them share remain. It counts on a device that stays.
    """

    kind: Literal["multi-query"] = "multi-query"

    reference: ClassVar[str] = "against Zong et al., Privacy by Projection, PoPETs 2023, Section 3.5, Multiple Queries"
    example: ClassVar[dict[str, Any]] = {"kind": "multi-query"}
    needs: ClassVar[dict[str, str]] = {
        "surfaces": "reads answers about a grid of points",
        "rows": "adds up every device's own surfaces; merged ones cannot be told apart",
    }

    def run(self, view: View, facts: Facts, state: State, rng: Rng) -> tuple[Estimates, State]:
        learner = cast(SurfaceLearner, view.learner)
        surface = learner.surfaces(view.model_before, view.update)
        track = row_id(view.ue, view.model)[np.argsort(view.source)]  # one target a row
        flat = surface.sum(axis=1).reshape(len(surface), surface.shape[2] * surface.shape[3])
        past = state or {"track": np.zeros(0, dtype=np.int64), "sum": np.zeros((0, flat.shape[1]))}
        total = flat + np.nan_to_num(recall(past["track"], past["sum"], track))
        every, newest = latest(track, past["track"])
        memory = {"track": every, "sum": np.concatenate([total, past["sum"]])[newest]}
        said, status = best_points(total.reshape(len(total), *surface.shape[2:]), learner.grid_m(view.model_before))
        return view.spread("centroid", np.arange(len(said)), said, status=status), memory
