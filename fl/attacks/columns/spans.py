"""Columns of span scores: places whose activations lie in the span of updates and of sums, by whom
they hold.
"""

import numpy as np

from fl.attacks.base import View, look_up_or_nan
from fl.attacks.columns.base import Column, Scene, Tally, look_up_ues, standardise_maps
from fl.attacks.participation_regression import (
    QUARTER_S,
    QUARTERS,
    SumsSoFar,
    mark_members,
    remove_momentum,
)
from fl.attacks.place_maps import PlaceMaps, pair_owners_with_sources
from fl.attacks.span import Span
from fl.learners import LayeredLearner
from fl.types import RoundContext
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_SPANS = tuple(Span(layer=layer, rank=rank, add="scores") for layer in (1, 2) for rank in (20, 64))
_RIDGE = 1.0  # sums
_MOST_MEMBERS = 500  # their products and maps take 100 MB
_WORKDAYS_S = 5 * 86400.0
_CLASSES = QUARTERS + 1


class SpanMaps(Column):
    """Scores of `span`, of layers 1 and 2 and 20 and 64 directions, standardised: summed over all
    rounds in which UE u was in the update or sum; over those that learn from the nights and from
    the hours of 6 to 18 of workdays, where windows are 6 h or shorter; and their ridge regression
    on who was in (see `participation-regression`), 0 for who is always in, of the first 500 UEs.
    """

    names = tuple(
        f"layer {span.layer} rank {span.rank} {which}"
        for which in ("always", "at night", "at work", "by company")
        for span in _SPANS
    )
    grant = "updates or sums, and who is in them"

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        if not isinstance(view.learner, LayeredLearner) or view.learner.layers == 1:
            return tally
        sums = SumsSoFar(**tally["sums"]) if tally else SumsSoFar.empty()
        maps = PlaceMaps(**tally["maps"]) if tally else PlaceMaps.empty()
        if view.vantage == "model":
            view, sums = remove_momentum(view, facts, sums)
        scores = [span.compute_scores(view, scene.grid, rng)[:, scene.place] for span in _SPANS]
        # where all directions are inside, what is left is rounding, and no map
        score = np.concatenate(scores, axis=1).round(2)
        z = mark_members(view, len(sums.both))[:, :_MOST_MEMBERS]
        owner, source = pair_owners_with_sources(view)
        return {
            "sums": vars(sums.plus_view(view, facts, z, score)),
            "maps": vars(maps.plus(owner * _CLASSES + _classify_window(facts), score[source])),
        }

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        if not tally:
            return self.build_zeros(ue, scene)
        key = ue[:, None] * _CLASSES + np.arange(_CLASSES)
        maps = look_up_or_nan(tally["maps"]["owner"], tally["maps"]["score"], key.ravel())
        by_class = np.nan_to_num(maps).reshape(len(ue), _CLASSES, maps.shape[1])
        sums = SumsSoFar(**tally["sums"])
        company = sums.estimate_maps(np.arange(len(sums.both)), _RIDGE).score
        score = [
            by_class.sum(axis=1),
            by_class[:, 1],
            by_class[:, 2] + by_class[:, 3],
            look_up_ues(company, ue),
        ]
        shape = (len(ue), len(self.names), len(scene.place))
        return standardise_maps(np.concatenate(score, axis=1).reshape(shape).transpose(1, 0, 2))


def _classify_window(facts: RoundContext) -> int:
    """1 + the quarter of a workday that has the middle of a window of 6 h or less; 0 of any
    other.
    """
    middle_s = facts.week_s - facts.round_s / 2
    if facts.round_s <= QUARTER_S and middle_s < _WORKDAYS_S:
        return 1 + int(middle_s // QUARTER_S) % QUARTERS
    return 0
