"""Columns of span scores: places whose activations lie in the span of updates and of sums, by whom
they hold.
"""

import numpy as np

from fl.attacks.base import View
from fl.attacks.columns.base import (
    PlaceColumn,
    Scene,
    Tally,
    classify_week_hours,
    find_middle_hour,
    look_up_ues,
    standardise_maps,
)
from fl.attacks.columns.company import SumsSoFar, mark_members, remove_momentum
from fl.attacks.place_maps import PlaceMaps, pair_owners_with_sources
from fl.attacks.span import Span
from fl.types import RoundContext
from netsim.columns import look_up_or_nan
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_SPANS = tuple(Span(layer=layer, rank=rank, add="scores") for layer in (1, 2) for rank in (20, 64))
_NEEDED = {"hidden activations", "layer 2"}
_RIDGE = 1.0  # sums
_MOST_MEMBERS = 500  # their products and maps take 100 MB
_LONGEST_S = 6 * 3600.0  # of a window that has an hour
_WORK = (6.0, 18.0)
_CLASSES = 3  # of windows


class SpanMaps(PlaceColumn):
    """Scores of `span`, of layers 1 and 2 and of 20 and 64 directions, standardised: summed over
    all rounds in which UE u was in the update or sum; over those whose window, of 6 h or less, is
    of a workday's night, or of its hours of 6 to 18; and their ridge regression on who was in (see
    `fl.attacks.columns.company`), 0 for who is always in, of the first 500 UEs.
    """

    names = tuple(
        f"layer {span.layer} rank {span.rank} {which}"
        for which in ("always", "at night", "at work", "by company")
        for span in _SPANS
    )

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        if not view.learner.offers >= _NEEDED:
            return tally
        sums = SumsSoFar(**tally["sums"]) if tally else SumsSoFar.empty()
        maps = PlaceMaps(**tally["maps"]) if tally else PlaceMaps.empty()
        if view.vantage == "model":
            view, sums = remove_momentum(view, facts, sums)
        score = np.concatenate(
            [span.compute_scores(view, scene.grid, rng)[:, scene.place] for span in _SPANS], axis=1
        ).round(2)  # where a layer has no more directions, all score alike but for the rounding
        z = mark_members(view, len(sums.both))[:, :_MOST_MEMBERS]
        owner, source = pair_owners_with_sources(view)
        return {
            "sums": vars(sums.plus(view, facts, z, score)),
            "maps": vars(maps.plus(owner * _CLASSES + _classify_window(facts), score[source])),
        }

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        if not tally:
            return self.build_zeros(ue, scene)
        key = ue[:, None] * _CLASSES + np.arange(_CLASSES)
        found = look_up_or_nan(tally["maps"]["owner"], tally["maps"]["score"], key.ravel())
        maps = np.nan_to_num(found).reshape(len(ue), _CLASSES, found.shape[1])
        maps[:, 0] = maps.sum(axis=1)
        company = SumsSoFar(**tally["sums"]).estimate_maps(_RIDGE)
        score = np.concatenate([maps, look_up_ues(company, ue)[:, None]], axis=1)
        by_name = score.reshape(len(ue), len(self.names), len(scene.place))
        return standardise_maps(by_name.transpose(1, 0, 2))


def _classify_window(facts: RoundContext) -> int:
    """1 of a short window whose middle lies in a workday's night, 2 of one in its hours of 6 to 18,
    0 of any other.
    """
    is_night, is_work, is_weekend = classify_week_hours(find_middle_hour(facts), _WORK)
    if facts.round_s > _LONGEST_S or is_weekend:
        return 0
    if is_night:
        return 1
    return 2 if is_work else 0
