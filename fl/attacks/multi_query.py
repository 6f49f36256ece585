"""Attack by repeated queries: sum of the surfaces of the same UE over requests."""

from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np

from fl.attacks.base import Attack, View, latest, recall
from fl.attacks.density_peak import best_points
from fl.learners.base import SurfaceLearner
from fl.types import Estimates, Facts
from netsim.rng import Rng
from netsim.row_id import row_id
from netsim.units import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Answered:
    """What devices have answered so far: track (k,) ascending, sum (k, points) of all their surfaces."""

    track: IntArray
    sum: FloatArray


class MultiQuery(Attack):
    r"""Sums all surfaces of a UE, over rounds and bandwidths, and estimates its position as the maximum.

    Every wave of a UE has its maximum at the position of the UE, for any wavelength and direction. K requests to a UE
    that draws new waves give K features, of which few suffice; a UE that keeps its waves reveals each of them once, and
    several bandwidths only restrict the position to the bands that they share. The attack assumes a UE that stays.
    """

    kind: Literal["multi-query"] = "multi-query"

    reference: ClassVar = "against Zong et al., Privacy by Projection, PoPETs 2023, Section 3.5, Multiple Queries"
    example: ClassVar = {"kind": "multi-query"}
    needs: ClassVar = {
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
