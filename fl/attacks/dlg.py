r"""Deep leakage from gradients: search for one sample whose gradient has the direction of the
update.
"""

from dataclasses import replace
from typing import Literal

import numpy as np
from pydantic import Field

from fl.attacks.base import Attack, Attacked, View
from fl.types import Estimates, RoundContext
from netsim.columns import ByKey, number_row
from netsim.geometry import Area
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

# standard deviation of starts around the mean or the last estimate, in standardised units
_START_NOISE = 0.5
_TOGETHER = 128  # updates that are searched at once: bounds the memory


class Dlg(Attack, kind="dlg"):
    r"""Iterative reconstruction of a batch's centroid from a whole update.

    Minimises over a position x'

        D = 1 - |cos( g(x'; w_before), u )|

    over all parameters, from several starts at once; the smallest D wins. g is linear in the
    residual of a guessed label, F(x') - y', so the cosine knows y' by its sign only; |cos| takes
    the better of the two signs, which is what searching for the label as well would give. Of
    rsrp-net no sample's gradient is ever formed (outer-product form, see `fl.networks.mlp`); of any
    other module gradients of guesses are, and slopes of D are differences (see
    `fl.attacks.gradient_matching.build_distance`). The position is searched also where a network
    reads an encoding of it. Several local steps, with momentum or not, are matched as one.

    `start_at` is the attacker's prior: `normal` draws starts from N(0, I) in standardised units,
    `grid` spreads them over the service area, `mean` draws them around the public mean position,
    `previous` around the last estimate of the same UE inside the area. With `previous` one start
    remains random, so that a wrong estimate cannot trap the search; a UE without an earlier
    estimate starts as with `normal`. Departs from the paper: the weights are w_before, to which the
    gradient belongs, and not w_after; BFGS in place of up to 400,000 steps of gradient descent.
    """

    starts: int = Field(8, ge=1, le=256)
    """number of starts per UE and round"""
    start_at: Literal["normal", "grid", "mean", "previous"] = "normal"
    """distribution of the starts: standard normal around the centre of the inputs, evenly over the
    area, near the centre, or near the previous estimate of the same UE"""
    iterations: int = Field(60, ge=1, le=100_000)
    """largest number of iterations of BFGS, each of which asks for one gradient at every start"""

    reference = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Algorithm 2"
    example = {"kind": "dlg", "starts": 2, "iterations": 3}
    needs = {
        "positions": "the network's inputs must be positions",
        "sample gradient": (
            "compares updates with the gradient of a guessed sample alone; take optimiser sgd or "
            "momentum, no weight_decay, sample_clip or frozen_layers, and a module without batch "
            "normalisation"
        ),
        "linear local steps": (
            "an update has the direction of a gradient under steps that are linear in gradients"
        ),
        "linear server step": (
            "published models must differ by a sum of gradients; take fedavgm, or "
            "threat.observes: updates or aggregate"
        ),
        "starting weights": "it compares gradients there; add weights to threat.knowledge",
    }

    def start(self) -> ByKey:
        return ByKey.empty(2)

    def run(self, view: View, facts: RoundContext, state: ByKey, rng: Rng) -> Attacked:
        centre, scale = view.get_standardisation()
        owner = view.source_model
        if view.vantage == "updates":
            owner = number_row(view.ue, view.model)
        start = rng.normal("start", owner, (self.starts, 2))
        if self.start_at == "grid":
            start = (_spread_starts(self.starts, facts.public.area) - centre[:, None]) / scale[
                :, None
            ]
        elif self.start_at == "mean":
            start *= _START_NOISE
        elif self.start_at == "previous":
            past = (state.look_up(owner) - centre) / scale
            near = past[:, None] + _START_NOISE * start[:, :-1]  # the last start stays random
            start[:, :-1] = np.where(np.isfinite(near), near, start[:, :-1])
        sources = np.arange(len(view.update))
        z = np.full((len(sources), 2), np.nan)
        loss = np.full(len(sources), np.nan)
        iterations = np.zeros_like(sources)
        for model, rows_of_model in view.group_usable_rows():
            for rows in np.array_split(rows_of_model, len(rows_of_model) // _TOGETHER + 1):
                z[rows], loss[rows], iterations[rows] = self._search(view, model, rows, start[rows])
        status = np.where(np.isfinite(loss), "ok", "no finite loss")
        is_usable = view.is_usable
        status = np.where(is_usable, status, "no gradient")
        place_m = centre + scale * z
        estimates = Estimates.from_places(
            sources, sources, "centroid", place_m, status=status.tolist()
        )
        estimates = replace(
            estimates, loss=loss, iterations=iterations, evaluations=iterations + is_usable
        )
        inside = facts.public.area.contains(place_m)
        return view.repeat_for_targets(sources, estimates), state.overwrite_values(
            owner[inside], place_m[inside]
        )

    def _search(
        self, view: View, model: int, rows: IntArray, start: FloatArray
    ) -> tuple[FloatArray, FloatArray, IntArray]:
        """From starts (n, starts, 2) for updates (n,) of a model: the best z (n, 2), its loss (n,),
        iterations (n,).
        """
        import torch

        from fl.attacks.gradient_matching import build_distance, minimise_distance

        distance = build_distance(view, model, view.update[rows])
        minimum = minimise_distance(distance, torch.from_numpy(start), self.iterations)
        loss, best = minimum.value.min(dim=1)
        z = minimum.z[torch.arange(len(rows)), best].numpy()
        z[~loss.isfinite().numpy()] = np.nan
        return z, loss.numpy(), minimum.iterations.numpy()


def _spread_starts(k: int, area: Area) -> FloatArray:
    """k points (k, 2) in rows, each in the middle of an equal share of the area."""
    width, height = area.side_m
    rows = min(k, max(1, round(float(np.sqrt(k * height / width)))))
    count = np.full(rows, k // rows) + (np.arange(rows) < k % rows)
    north = (np.cumsum(count) - count / 2) / k  # a row is as high as it holds points
    unit = []
    for n, y in zip(count.tolist(), north, strict=True):
        unit += [((i + 0.5) / n, y) for i in range(n)]
    return area.sample(np.array(unit))
