"""Columns of single updates under noise: matched filters for what a place would make of them."""

from __future__ import annotations

from typing import cast

import numpy as np

from fl.attacks.base import View
from fl.attacks.columns.base import (
    PlaceColumn,
    Scene,
    Tally,
    add_by_ue,
    classify_week_hours,
    find_middle_hour,
    look_up_ues,
)
from fl.attacks.place_maps import normalise_rows
from fl.learners import PLACE_GRADIENTS, LayeredLearner
from fl.types import RoundContext
from netsim.columns import split_blocks
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_NUMBERS = 2_000_000  # of gradients that are formed at once


class RowFilters(PlaceColumn):
    r"""What single updates of a UE hold of what a place x would make of them, beyond noise.

    With a(x) what the first layer reads of x, and 1; D_r = [dW; db] of that layer, with n units, in
    the update u_r of round r; sigma_r the root mean square of u_r, which noise makes up; and R
    rounds:

        q = sum_r (|D_r^T a|^2 / (|a|^2 sigma_r^2) - n) / sqrt(2 n R),
        c = log(1 + mean_r b_r^2),    b_r = <u_r, grad F(x; w_r)> / (|grad F| sigma_r).

    In noise alone q and b_r have mean 0 and variance 1. The columns are arsinh(q / 2) and c, each
    less its mean over all UEs: what many updates hold tells no UEs apart.

    They are of all rounds; of those off work; and of those at work (see `classify_window`).
    """

    names = (
        "filter by layer",
        "filter by gradient",
        "filter by layer off work",
        "filter by gradient off work",
        "filter by layer at work",
        "filter by gradient at work",
    )

    def observe(
        self, view: View, facts: RoundContext, scene: Scene, tally: Tally, rng: Rng
    ) -> Tally:
        if view.vantage != "updates" or PLACE_GRADIENTS not in view.learner.offers:
            return tally
        # rounds count among all, and those of their window: (windows, 1)
        among = np.isin(range(3), [0, classify_window(facts)])[:, None]
        rounds = (among * view.is_usable[view.source, None, None]).astype(float)
        total = among[:, None] * measure_rows(view, scene.place_m)[view.source, None]
        return {
            "rounds": add_by_ue(tally.get("rounds"), view.ue, rounds),
            "total": add_by_ue(tally.get("total"), view.ue, total),
        }

    def compute(self, tally: Tally, scene: Scene, ue: IntArray) -> FloatArray:
        if not tally:
            return self.build_zeros(ue, scene)
        rounds = tally["rounds"]  # (N, windows, 1)
        n = np.maximum(rounds, 1.0)
        energy, square = np.moveaxis(tally["total"], 2, 0)
        maps = np.stack([np.arcsinh(energy / np.sqrt(4.0 * n)), np.log1p(square / n)], axis=2)
        is_seen = rounds[:, :, None] > 0
        mean = maps.sum(axis=0) / np.maximum(is_seen.sum(axis=0), 1)
        columns = look_up_ues(maps - is_seen * mean, ue)
        # (n, windows, 2, G) to one number a name
        return columns.reshape(len(ue), 6, len(scene.place)).transpose(1, 0, 2)


def classify_window(facts: RoundContext) -> int:
    """1 of a window of data off work, with its middle at the weekend, or at night if it is no
    longer than 6 h; 2 of one at work, a longer one on a workday, or without a clock, or a short one
    about noon; 0 of others.
    """
    is_night, is_work, is_weekend = classify_week_hours(find_middle_hour(facts))
    is_long = facts.round_s > 21600.0  # night and day are one window
    if is_weekend or (is_night and not is_long):
        return 1
    return 2 if is_long or is_work else 0


def measure_rows(view: View, place_m: FloatArray) -> FloatArray:
    """Terms of q sqrt(R), and b^2, of updates at places (G, 2): (n_source, 2, G); 0 of one that is
    not usable, and where a network has diverged or is not known.
    """
    measured = np.zeros((len(view.update), 2, len(place_m)))
    for m, rows in view.group_usable_rows():
        update = view.update[rows]
        dense = view.learner.get_dense_network(view.model_before, m)
        if dense is None:
            measured[rows] = _filter_by_gradients(view, m, place_m, update)
        else:
            from fl.attacks.gradient_matching import PlaceGradients

            centre, scale = view.get_standardisation()
            gradients = PlaceGradients(*dense, (place_m - centre[rows[0]]) / scale[rows[0]])
            measured[rows] = [gradients.measure_update(u) for u in update]
    measured[:, 1] = view.update.shape[1] * measured[:, 1] ** 2
    return measured


def _filter_by_gradients(
    view: View, model: int, place_m: FloatArray, update: FloatArray
) -> FloatArray:
    """(|D^T a|^2 d / |a|^2 - n) / sqrt(2 n) of the first layer, 0 without one, and cosines with
    gradients that are formed, of updates (k, d) scaled to length 1: (k, 2, G).
    """
    learner = cast(LayeredLearner, view.learner)  # where it has a layer
    d = update.shape[1]
    scaled = normalise_rows(update)
    filtered = np.zeros((len(update), 2, len(place_m)))
    for block in split_blocks(len(place_m), max(1, _NUMBERS // d)):
        gradients = learner.form_place_gradients(view.model_before, model, place_m[block])
        with np.errstate(all="ignore"):  # a network that has diverged
            length = np.sqrt(np.einsum("gd,gd->g", gradients, gradients))
            filtered[:, 1, block] = np.nan_to_num(scaled @ gradients.T / length)
    if "layer 1" in learner.offers:
        layer = learner.select_layer(scaled, 1)
        a = normalise_rows(learner.compute_layer_input(view.model_before, model, place_m, 1))
        n = layer.shape[2]
        energy = np.stack([((a @ columns) ** 2).sum(axis=1) for columns in layer])
        filtered[:, 0] = (d * energy - n) / np.sqrt(2 * n)
    return filtered
