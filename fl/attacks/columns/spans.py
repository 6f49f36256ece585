"""Columns of span scores: places whose activations lie in the span of updates and of sums, by whom
they hold.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from fl.attacks.base import View
from fl.attacks.columns.base import Column, Scene, Tally, standardise_maps
from fl.attacks.participation_regression import SumsSoFar, mark_members, remove_momentum
from fl.attacks.place_maps import PlaceMaps, pair_owners_with_sources
from fl.attacks.span import Span
from fl.learners import LayeredLearner
from fl.types import RoundContext
from netsim.checkpoint import to_tree
from netsim.rng import Rng
from netsim.units import AnyFloats, FloatArray, IntArray

_LAYERS = 2
_RANK = 64
_RIDGE = 1.0  # sums
_MOST_MEMBERS = 500
_HOURS = 3  # classes of windows: any hour, night, working hours
_SHORT_S = 6 * 3600.0
_DAY_H = 24.0


class SpanMaps(Column):
    """Scores s(x) of `span` less their means over places, standardised, of layers 1 and 2: summed
    over all rounds in which UE u was in the update or sum; ridge regression of them on who was in
    (see `participation-regression`), 0 for who is always in; and, where windows are 6 h or shorter,
    summed over those about the night, and about working hours.

    It takes 64 directions, half of those of a layer at most.
    """

    names = tuple(
        f"layer {layer} {what}"
        for what in ("all hours", "at night", "at work", "by company")
        for layer in range(1, _LAYERS + 1)
    )
    grant = "updates or sums, and who is in them"

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        if not isinstance(view.learner, LayeredLearner):
            return tally
        sums = SumsSoFar(**tally["sums"]) if tally else SumsSoFar.empty()
        maps = PlaceMaps(**tally["maps"]) if tally else PlaceMaps.empty()
        if view.vantage == "model":
            view, sums = remove_momentum(view, facts, sums)
        score = score_layers(view, scene, rng)
        z = mark_members(view, len(sums.both))
        if z.shape[1] <= _MOST_MEMBERS:
            sums = sums.plus_view(view, facts, z, score)
        owner, source = pair_owners_with_sources(view)
        maps = maps.plus(owner * _HOURS + _classify_window(facts), score[source])
        return {"sums": to_tree(sums), "maps": to_tree(maps)}

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        if not tally:
            return self.build_zeros(ue, scene)
        score = np.zeros((len(ue), _HOURS + 1, _LAYERS * len(scene.place)))
        maps = PlaceMaps(**tally["maps"])
        key = ue[:, None] * _HOURS + np.arange(_HOURS)
        row, hour = np.nonzero(np.isin(key, maps.owner))
        score[row, hour] = maps.look_up(key[row, hour])
        score[:, 0] = score.sum(axis=1)
        sums = SumsSoFar(**tally["sums"])
        row = np.flatnonzero(ue < len(sums.both))
        score[row, _HOURS] = sums.estimate_maps(ue[row], _RIDGE).score
        by_layer = score.reshape(len(ue), len(self.names), len(scene.place))
        return standardise_maps(by_layer.transpose(1, 0, 2))


def score_layers(view: View, scene: Scene, rng: Rng) -> AnyFloats:
    """Scores (n_source, layers places) less their means over places; 0 of a source that is not
    usable.
    """
    learner = cast(LayeredLearner, view.learner)
    score = np.zeros((len(view.update), _LAYERS, len(scene.place)), dtype=np.float32)
    for layer in range(min(_LAYERS, learner.layers)):
        n_inputs = learner.select_layer(view.update, layer + 1).shape[1]
        span = Span(layer=layer + 1, rank=min(_RANK, n_inputs // 2), add="scores")
        score[:, layer] = span.compute_scores(view, scene.grid, rng)[:, scene.place]
    score -= score.mean(axis=2, keepdims=True)
    return score.reshape(len(score), _LAYERS * len(scene.place))


def _classify_window(facts: RoundContext) -> int:
    """1 of a short window about the night, 2 of one about working hours, 0 of any other."""
    hour = (facts.week_s - facts.round_s / 2) / 3600.0 % (7 * _DAY_H)
    of_day = hour % _DAY_H
    if not facts.round_s <= _SHORT_S:
        return 0
    if of_day <= 6.0:
        return 1
    return 2 if 10.0 <= of_day <= 16.0 and hour < 5 * _DAY_H else 0
