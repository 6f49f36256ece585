"""Columns of single updates under noise: matched filters for what a place would make of them, and
votes of units.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from fl.attacks.base import View
from fl.attacks.columns.base import (
    Column,
    Scene,
    Tally,
    add_by_ue,
    find_hour,
    look_up_ues,
    standardise_maps,
)
from fl.attacks.place_filter import build_place_gradients
from fl.attacks.place_maps import NeuronVotes, PlaceMaps, pair_owners_with_sources, smooth_maps
from fl.learners import FirstLayerLearner
from fl.learners.rsrp_net import RsrpNet
from fl.types import RoundContext
from netsim.checkpoint import to_tree
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_FILTERS = ("layer", "gradient")
_WINDOWS = ("", " off work", " at work")
_DAY_H = 24.0
_SHORT_H = 6.0  # a window that is no longer tells night from day, and a day's from another day
_NIGHT_H = 6.0  # end
_WORK_H = (10.0, 16.0)
_WORKDAYS = 5  # first ones of a week
_LINEAR = 2.0  # deviations of noise: what stands out further counts by its logarithm
_WIDTH_M = 40.0
_EVEN = 0.1  # votes that are spread evenly, as a share of those cast


class RowFilters(Column):
    r"""What single updates of a UE hold of what a place x would make of them, beyond noise.

    With a(x) what the first layer reads of x, and 1; D_r [dW; db] of that layer, with n units, in
    the update of round r; sigma_r the root mean square of the update, which noise makes up; and R
    rounds:

        q = sum_r (|D_r^T a|^2 / (|a|^2 sigma_r^2) - n) / sqrt(2 n R),
        c = log(1 + mean_r b_r^2),    b_r = <u_r, grad F(x; w_r)> / (|grad F| sigma_r).

    In noise alone q and b_r have mean 0 and variance 1. The columns are 2 arsinh(q / 2) and c, each
    less its mean over all UEs: what many updates hold tells no UEs apart.

    They are of all rounds; of those off work, windows about the night, and of longer ones than 6 h
    of days at the weekend; and of those at work, windows about noon of workdays, or workdays.
    """

    names = tuple(f"filter by {name}{window}" for window in _WINDOWS for name in _FILTERS)
    grant = "single updates"

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        row = np.flatnonzero(view.is_usable[view.source])
        if view.vantage != "updates" or not isinstance(view.learner, RsrpNet) or not len(row):
            return tally
        window = classify_window(facts)
        rounds = np.zeros((len(row), len(_WINDOWS)))
        rounds[:, window] = 1.0
        total = np.zeros((len(row), len(_WINDOWS), len(_FILTERS), len(scene.place)))
        total[:, window] = measure_rows(view, view.source[row], scene.place_m)
        ue = view.ue[row]
        return {
            "rounds": add_by_ue(tally.get("rounds"), ue, rounds),
            "total": add_by_ue(tally.get("total"), ue, total),
        }

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        if not tally:
            return self.build_zeros(ue, scene)
        maps = np.zeros((len(tally["rounds"]), len(self.names), len(scene.place)))
        for k in range(len(_WINDOWS)):
            among = slice(None) if k == 0 else [k]
            n = tally["rounds"][:, among].sum(axis=1)
            seen = np.flatnonzero(n)
            if not len(seen):
                continue
            total = tally["total"][seen][:, among].sum(axis=1)
            n = n[seen, None]
            q = total[:, 0] / np.sqrt(n)
            squashed = _LINEAR * np.arcsinh(q / _LINEAR)
            both = np.stack([squashed, np.log1p(total[:, 1] / n)], axis=1)
            maps[seen, 2 * k : 2 * k + 2] = both - both.mean(axis=0)
        return look_up_ues(maps, ue).transpose(1, 0, 2)


def classify_window(facts: RoundContext) -> int:
    """1 of a window off work, 2 of one at work, 0 of others, and where no clock is known."""
    middle_s = np.array([facts.time_s - facts.round_s / 2])
    hour = float(find_hour(middle_s, facts)[0]) % (7 * _DAY_H)
    window_h = facts.round_s / 3600.0
    if not np.isfinite(hour) or window_h > _DAY_H:
        return 0
    is_workday = hour < _WORKDAYS * _DAY_H
    if window_h > _SHORT_H:
        return 2 if is_workday else 1
    of_day = hour % _DAY_H
    if of_day <= _NIGHT_H:
        return 1
    return 2 if is_workday and _WORK_H[0] <= of_day <= _WORK_H[1] else 0


def measure_rows(view: View, source: IntArray, place_m: FloatArray) -> FloatArray:
    """Terms of q sqrt(R), and b^2, of usable updates (n,) at places (G, 2): (n, 2, G); 0 where a
    network has diverged or is not known.
    """
    net = cast(RsrpNet, view.learner).net
    n_units = net.sizes[1]
    measured = np.zeros((len(source), len(_FILTERS), len(place_m)))
    model = view.source_model[source]
    for m in np.unique(model).tolist():
        gradients = build_place_gradients(view, view.model_before.parameters[m], m, place_m)
        for row in np.flatnonzero(model == m).tolist():
            update = view.update[source[row]]
            even = update / np.abs(update).max()  # so that squares neither overflow nor vanish
            energy, product = gradients.measure_update(even / np.sqrt((even**2).mean()))
            measured[row, 0] = (energy - n_units) / np.sqrt(2 * n_units)
            measured[row, 1] = product**2
    return measured


class UnitVotes(Column):
    """log(V(x) / sum V + 0.1 / G), with V the votes of units of the first layer about a UE (see
    `neuron-votes`), also of sums that it is in, smoothed by a Gaussian.
    """

    names = ("votes of units",)
    grant = "updates or sums"

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        if not isinstance(view.learner, FirstLayerLearner):
            return tally
        maps = PlaceMaps(**tally) if tally else PlaceMaps.empty()
        owner, source = pair_owners_with_sources(view)
        votes = NeuronVotes().compute_scores(view, scene.grid, rng)
        return cast(Tally, to_tree(maps.plus(owner, votes[source])))

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        columns = self.build_zeros(ue, scene)
        if not tally:
            return columns
        is_known = np.isin(ue, tally["owner"])
        maps = PlaceMaps(**tally).look_up(ue[is_known])
        votes = smooth_maps(maps, scene.grid, _WIDTH_M)[:, scene.place].astype(float)
        total = votes.sum(axis=1, keepdims=True)
        share = votes / np.where(total > 0, total, 1.0)
        columns[0, is_known] = standardise_maps(np.log(share + _EVEN / len(scene.place)))
        return columns
