r"""Places whose gradients explain updates under noise, one or two places together over rounds."""

from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from pydantic import Field

from fl.attacks.base import Attack, View
from fl.attacks.place_maps import (
    answer_places,
    find_highest_places,
    find_map_owners,
    pair_owners_with_sources,
)
from fl.learners.rsrp_net import RsrpNet
from fl.tracking.place_grid import PlaceGrid
from fl.types import Estimates, RoundContext
from netsim.columns import frozen
from netsim.rng import Rng
from netsim.units import AnyFloats, FloatArray, IntArray

if TYPE_CHECKING:
    from fl.attacks.gradient_matching import PlaceGradients

_STARTS = 3  # first places of the search for a pair
_ALIKE = 1e-4  # squared sine between gradients that count as equal


@frozen
class PastUpdates:
    """Rounds so far: networks weights (k, d) of models of (k,); of each update (n,) its owner, its
    network, and its share along the gradient of each place, part (n, G).
    """

    weights: FloatArray
    of: IntArray
    owner: IntArray
    network: IntArray
    part: AnyFloats

    def plus(self, later: "PastUpdates") -> "PastUpdates":
        """With a later round, whose networks count from 0."""
        if not len(self.owner):
            return later
        return PastUpdates(
            np.concatenate([self.weights, later.weights]),
            np.concatenate([self.of, later.of]),
            np.concatenate([self.owner, later.owner]),
            np.concatenate([self.network, len(self.of) + later.network]),
            np.concatenate([self.part, later.part]),
        )

    def keep_latest(self, memory: int) -> "PastUpdates":
        """The last `memory` updates of each owner."""
        order = np.lexsort((-np.arange(len(self.owner)), self.owner))
        ordered = self.owner[order]
        age = np.arange(len(order)) - np.searchsorted(ordered, ordered)
        kept = np.sort(order[age < memory])
        used, network = np.unique(self.network[kept], return_inverse=True)
        return PastUpdates(
            self.weights[used], self.of[used], self.owner[kept], network, self.part[kept]
        )


class PlaceFilter(Attack):
    r"""Names the one or two places whose gradients explain all updates of a UE best, under noise.

    A step of gradient descent on samples at a place p moves a network along v_r(p) = dF(p; w_r)/dw,
    of unit length, whatever their labels and the learning rate. With u_r the update of round r, of
    unit length, which began from the weights w_r, one place maximises sum_r (v_r(p) . u_r)^2, and
    two maximise

        sum_r b^T G^-1 b,    b = (v_r(p) . u_r, v_r(q) . u_r),    G = [[1, g], [g, 1]],    g =
        v_r(p) . v_r(q),

    the likelihood of u_r = c_1 v_r(p) + c_2 v_r(q) + Gaussian noise with both factors unknown in
    every round. Noise is alike in all directions, so all numbers of an update count, where `span`
    reads one layer. Pairs are searched from the three highest single places, twice with one place
    kept. The first answer is the one that explains more alone.

    Of a UE all models together count, also from sums that it is in; of published models each model.
    """

    kind: Literal["place-filter"] = "place-filter"
    places: Literal[1, 2] = 2
    """number of places that explain a UE's updates together, and that are named"""
    cell_m: float = Field(40.0, ge=0.1, le=1e6)
    """largest distance between the places that are compared, m; a place is named to no better than
    half of it"""
    apart_m: float = Field(150.0, ge=0, le=1e6)
    """smallest distance between the two places, m"""
    memory: int = Field(60, ge=1, le=10_000)
    """number of latest updates of a UE that count"""

    reference = (
        "Matched subspace filter of Scharf and Friedlander 1994, on gradients at places of "
        "a known network"
    )
    example = {"kind": "place-filter", "cell_m": 100}
    space = {"places": (2, 1), "cell_m": (40.0, 25.0), "apart_m": (150.0, 300.0)}
    needs = {
        "positions": "the network's inputs must be positions",
        "sample gradient": "compares updates with gradients at places",
        "linear local steps": (
            "an update has the direction of gradients under steps that are linear in them"
        ),
        "linear server step": (
            "published models must differ by a sum of gradients; take fedavgm, or "
            "threat.observes: updates or aggregate"
        ),
        "starting weights": "it takes gradients there; add weights to threat.knowledge",
    }

    def start(self) -> PastUpdates:
        none = np.zeros(0, dtype=int)
        return PastUpdates(np.zeros((0, 0)), none, none, none, np.zeros((0, 0), dtype=np.float32))

    def run(
        self, view: View, facts: RoundContext, state: PastUpdates, rng: Rng
    ) -> tuple[Estimates, PastUpdates]:
        owner, source = pair_owners_with_sources(view)
        maps = len(np.union1d(owner, state.owner)) * self.memory
        grid = PlaceGrid.from_area(facts.public.area, self.cell_m, maps, self.label)
        state = self._add_updates(view, grid, owner, source, state).keep_latest(self.memory)
        owners = np.unique(find_map_owners(view))
        return answer_places(view, owners, self._name_places(view, grid, state, owners)), state

    def _add_updates(
        self, view: View, grid: PlaceGrid, owner: IntArray, source: IntArray, state: PastUpdates
    ) -> PastUpdates:
        """With the updates of a round."""
        is_usable = view.is_usable[source]
        owner = owner[is_usable]
        source = source[is_usable]
        models, network = np.unique(view.source_model[source], return_inverse=True)
        weights = view.model_before.parameters[models]
        part = np.zeros((len(owner), len(grid)), dtype=np.float32)
        for k, m in enumerate(models.tolist()):
            gradients = build_place_gradients(view, weights[k], m, grid.place_m)
            for row in np.flatnonzero(network == k):
                part[row] = gradients.project_update(view.update[source[row]])
        return state.plus(PastUpdates(weights, models, owner, network, part))

    def _name_places(
        self, view: View, grid: PlaceGrid, state: PastUpdates, owners: IntArray
    ) -> FloatArray:
        """The places (n, `places`, 2) of owners (n,): NaN of whom no update came."""
        alone = np.zeros((len(owners), len(grid)), dtype=np.float32)
        rows = np.flatnonzero(np.isin(state.owner, owners))
        np.add.at(alone, np.searchsorted(owners, state.owner[rows]), state.part[rows] ** 2)
        if self.places == 1:
            return find_highest_places(alone, grid.place_m, self.apart_m, 1)
        first = find_highest_places(alone, grid.place_m, self.apart_m, _STARTS)
        places_m = np.full((len(owners), 2, 2), np.nan)
        start = np.isfinite(first).all(axis=2)
        index, _ = np.nonzero(start)
        p = grid.find_cells(first[start])
        p, _ = self._find_partners(view, grid, state, owners, index, p)
        q, value = self._find_partners(view, grid, state, owners, index, p)
        for i in np.unique(index).tolist():
            rows_of_owner = np.flatnonzero(index == i)
            best = rows_of_owner[value[rows_of_owner].argmax()]
            pair = sorted((p[best], q[best]), key=lambda place: -alone[i, place])
            places_m[i] = grid.place_m[pair]
            if not np.isfinite(value[best]):  # no place is far enough from the first
                places_m[i, 1] = np.nan
        return places_m

    def _find_partners(
        self,
        view: View,
        grid: PlaceGrid,
        state: PastUpdates,
        owners: IntArray,
        index: IntArray,
        p: IntArray,
    ) -> tuple[IntArray, FloatArray]:
        """The best second place (s,) beside places p (s,) of owners[index] (s,), and what the pair
        explains.
        """
        owner = owners[index]
        score = np.zeros((len(p), len(grid)), dtype=np.float32)
        for k, m in enumerate(state.of.tolist()):
            gradients = build_place_gradients(view, state.weights[k], m, grid.place_m)
            for row in np.flatnonzero((state.network == k) & np.isin(state.owner, owner)):
                searches = np.flatnonzero(owner == state.owner[row])
                score[searches] += _explain_pairs(
                    state.part[row], p[searches], gradients.compute_cosines(p[searches])
                )
        x, y = grid.place_m.T
        for s, place in enumerate(p.tolist()):
            score[s, (x - x[place]) ** 2 + (y - y[place]) ** 2 < self.apart_m**2] = -np.inf
        q = score.argmax(axis=1)
        return q, np.asarray(score[np.arange(len(p)), q], dtype=float)


def _explain_pairs(part: AnyFloats, p: IntArray, cosine: AnyFloats) -> AnyFloats:
    """b^T G^-1 b of places p (m,) with every other (m, G): that of the better one alone where
    gradients are alike.
    """
    rest = 1.0 - cosine**2
    first = part[p][:, None]
    both = (first**2 + part**2 - 2.0 * cosine * first * part) / np.maximum(rest, _ALIKE)
    return np.where(rest < _ALIKE, np.maximum(first**2, part**2), both)


def build_place_gradients(
    view: View, weights: FloatArray, model: int, place_m: FloatArray
) -> "PlaceGradients":
    """Gradients at places (G, 2) of the network numbered model, with weights (d,)."""
    from fl.attacks.gradient_matching import PlaceGradients

    constants = view.model_before.constants
    scale_m = constants["scale_m"][model]
    waves = scale_m[:, None] * constants["wave_vectors"][0].T
    z = (place_m - constants["centre_m"][model]) / scale_m
    return PlaceGradients(cast(RsrpNet, view.learner).net, weights, waves, z)
