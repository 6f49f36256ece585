"""Asking again: surfaces of the same device, added up over questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np

from fl.attacks.base import Attack, View, latest, recall
from fl.attacks.density_peak import best_points
from fl.learners.base import SurfaceLearner
from fl.types import Estimates, Facts
from netsim.rng import Rng
from netsim.row_id import row_id
from netsim.units import FloatArray, IntArray


@dataclass(frozen=True)
class Answered:
    """What devices have answered so far: track (k,) ascending, sum (k, points) of all their surfaces."""

    track: IntArray
    sum: FloatArray


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

    def start(self) -> Answered:
        return Answered(np.zeros(0, dtype=np.int64), np.zeros((0, 0)))

    def run(self, view: View, facts: Facts, state: Answered, rng: Rng) -> tuple[Estimates, Answered]:
        learner = cast(SurfaceLearner, view.learner)
        surface = learner.surfaces(view.model_before, view.update)
        track = row_id(view.ue, view.model)[np.argsort(view.source)]  # one target a row
        flat = surface.sum(axis=1).reshape(len(surface), surface.shape[2] * surface.shape[3])
        past = state if len(state.track) else Answered(state.track, flat[:0])
        total = flat + np.nan_to_num(recall(past.track, past.sum, track))
        every, newest = latest(track, past.track)
        memory = Answered(every, np.concatenate([total, past.sum])[newest])
        said, status = best_points(total.reshape(len(total), *surface.shape[2:]), learner.grid_m(view.model_before))
        return view.spread("centroid", np.arange(len(said)), said, status=status), memory
