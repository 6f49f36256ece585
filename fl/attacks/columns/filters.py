"""Columns of updates under noise: matched filters for what a place would make of them, votes of
units, and peaks of spans.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from fl.attacks.base import View
from fl.attacks.columns.base import Column, Scene, Tally, add_by_ue, look_up_ues
from fl.attacks.place_filter import build_place_gradients
from fl.attacks.place_maps import NeuronVotes, PlaceMaps, pair_owners_with_sources, smooth_maps
from fl.attacks.span import Span
from fl.learners import FirstLayerLearner, LayeredLearner
from fl.learners.rsrp_net import RsrpNet
from fl.types import RoundContext
from netsim.checkpoint import to_tree
from netsim.rng import Rng
from netsim.units import AnyFloats, FloatArray, IntArray

_LAYERS = 2
_LINEAR = 2.0  # deviations of noise: what stands out further counts by its logarithm
_EVEN = 0.1  # votes that are spread evenly, as a share of those cast


class RowFilters(Column):
    r"""What single updates D_r of a UE hold of what a place x would make of them, beyond noise.

    With a_l(x) what layer l reads of x, its bias included, D_{r,l} that layer's part of the update,
    n_l its units, sigma_r the root mean square of the update, which noise makes up, and R rounds,

        q_l = sum_r (|D_{r,l}^T a_l|^2 / (|a_l|^2 sigma_r^2) - n_l) / sqrt(2 n_l R),    l = 1, 2,
        c = log(1 + mean_r b_r^2),    b_r = <D_r, grad F(x; w_r)> / (|grad F| sigma_r).

    In noise alone q_l has mean 0 and variance 1, and b_r too. The columns are 2 arsinh(q_l / 2) and
    c, each less its mean over all UEs: places that many updates tell of tell them not apart.
    """

    names = ("filter of layer 1", "filter of layer 2", "filter of gradients")
    grant = "single updates"

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        usable = np.flatnonzero(view.is_usable[view.source])
        if view.vantage != "updates" or not isinstance(view.learner, RsrpNet) or not len(usable):
            return tally
        ue = view.ue[usable]
        measured = measure_rows(view, view.source[usable], scene)
        return {
            "rounds": add_by_ue(tally.get("rounds"), ue, np.ones(len(ue))),
            "total": add_by_ue(tally.get("total"), ue, measured),
        }

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        if not tally:
            return self.build_zeros(ue, scene)
        rounds = np.maximum(tally["rounds"], 1.0)[:, None, None]
        total = tally["total"]
        q = total[:, :_LAYERS] / np.sqrt(rounds)
        squashed = _LINEAR * np.arcsinh(q / _LINEAR)
        maps = np.concatenate([squashed, np.log1p(total[:, _LAYERS:] / rounds)], axis=1)
        is_known = tally["rounds"] > 0
        maps[is_known] -= maps[is_known].mean(axis=0)
        return look_up_ues(maps, ue).transpose(1, 0, 2)


def measure_rows(view: View, source: IntArray, scene: Scene) -> FloatArray:
    """Terms (n, 3, G) of q_1, q_2 and c of usable updates (n,); 0 of a layer that is missing, and
    where a network has diverged or is not known.
    """
    measured = np.zeros((len(source), _LAYERS + 1, len(scene.place)))
    model = view.source_model[source]
    units = view.learner.net.sizes[1 : _LAYERS + 1]
    for m in np.unique(model).tolist():
        gradients = build_place_gradients(view, view.model_before.parameters[m], m, scene.place_m)
        for row in np.flatnonzero(model == m).tolist():
            update = view.update[source[row]]
            size = np.abs(update).max()  # so that squares neither overflow nor vanish
            even = update / size
            *energy, product = gradients.measure_layers(even / np.sqrt((even**2).mean()))
            for layer, n_units in enumerate(units[: len(energy)]):
                excess = energy[layer] - n_units
                measured[row, layer] = np.where(energy[layer] > 0, excess, 0.0)
                measured[row, layer] /= np.sqrt(2 * n_units)
            measured[row, -1] = product**2
    return measured


class SharedMaps(Column):
    """log(V(x) / sum V + 0.1 / G) of a map V of a UE that adds up over rounds, also of sums that it
    is in, smoothed by a Gaussian.
    """

    width_m: ClassVar[float]
    learner: ClassVar[type]

    @abstractmethod
    def score(self, view: View, scene: Scene, rng: Rng) -> AnyFloats:
        """What a round adds to the map of each source (n_source, all places of the grid)."""

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        if not isinstance(view.learner, self.learner):
            return tally
        maps = PlaceMaps(**tally) if tally else PlaceMaps.empty()
        owner, source = pair_owners_with_sources(view)
        return to_tree(maps.plus(owner, self.score(view, scene, rng)[source]))

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        columns = self.build_zeros(ue, scene)
        if not tally:
            return columns
        is_known = np.isin(ue, tally["owner"])
        maps = PlaceMaps(**tally).look_up(ue[is_known])
        votes = smooth_maps(maps, scene.grid, self.width_m)[:, scene.place]
        cast = votes.sum(axis=1, keepdims=True)
        share = votes / np.where(cast > 0, cast, 1.0)
        columns[0, is_known] = np.log(share * len(scene.place) / _EVEN + 1.0)
        return columns


class UnitVotes(SharedMaps):
    """Votes of units of the first layer (see `neuron-votes`)."""

    names = ("votes of units",)
    grant = "updates or sums"
    width_m = 40.0
    learner = FirstLayerLearner

    def score(self, view: View, scene: Scene, rng: Rng) -> AnyFloats:
        return NeuronVotes().compute_scores(view, scene.grid, rng)


class SpanPeaks(SharedMaps):
    """Peaks of the span of the 4 strongest directions of layer 2 (see `span`)."""

    names = ("peaks of spans",)
    grant = "updates or sums, and weights"
    width_m = 60.0
    learner = LayeredLearner

    def score(self, view: View, scene: Scene, rng: Rng) -> AnyFloats:
        return Span(rank=4, add="peaks").compute_scores(view, scene.grid, rng)
