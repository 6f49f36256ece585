r"""Deep leakage from gradients: search for one sample whose gradient has the direction of the update."""

from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from pydantic import Field, model_validator

from fl.attacks.base import Attack, View, latest, recall
from fl.learners.rsrp_net import RsrpNet
from fl.types import Estimates, RoundContext
from netsim.columns import frozen, no_ints, no_places
from netsim.geometry import Area
from netsim.rng import Rng
from netsim.row_id import row_id
from netsim.units import FloatArray, IntArray

_START_NOISE = 0.5
_TOGETHER = 128  # updates that are searched at once: bounds the memory


@frozen
class LastPlaces:
    """The last estimates inside the area: owner (k,) ascending, position_m (k, 2)."""

    equal_rows: ClassVar = True
    owner: IntArray
    position_m: FloatArray


class Dlg(Attack):
    r"""Iterative reconstruction of a batch's centroid from a whole update.

    Minimises over a position x' (and with `guess_label: free` a label y')

        D = 1 - cos( g(x', y'; w_before), -u )

    over all parameters, from several starts at once; the smallest D wins. g is linear in the residual
    F(x') - y', so the cosine knows the label by its sign only: `frozen` takes the better of the two signs,
    D = 1 - |cos|, which is what freezing y' on either side of the prediction and keeping the smaller loss gives.
    No sample's gradient is ever formed (outer-product form, see `fl.networks.mlp`). The position is searched also
    where a network reads an encoding of it. Several local steps, with momentum or not, are matched as one.

    `start_at` is the attacker's prior: `normal` draws starts from N(0, I) in standardised units, `grid` spreads them
    over the service area, `mean` draws them around the public mean position, `previous` around the last estimate of the
    same UE inside the area. With `previous` one start remains random, so that a wrong estimate cannot trap the search;
    a UE without an earlier estimate starts as with `normal`.
    Departs from the paper: the weights are w_before, to which the gradient belongs, and not w_after; L-BFGS in
    place of up to 400,000 steps of gradient descent.
    """

    kind: Literal["dlg"] = "dlg"
    starts: int = Field(default=8, ge=1, le=256)
    """number of starts per UE and round"""
    start_at: Literal["normal", "grid", "mean", "previous"] = "normal"
    """distribution of the starts: standard normal around the centre of the inputs, evenly over the area, near the
    centre, or near the previous estimate of the same UE"""
    start_noise: float | None = Field(default=None, gt=0, le=10)
    """standard deviation of starts around the mean or the previous estimate, in standardised units; none: 0.5"""
    optimiser: Literal["lbfgs", "adam"] = "lbfgs"
    """L-BFGS, or Adam with learning rate 0.1, halved every 150 iterations"""
    iterations: int = Field(default=60, ge=1, le=100_000)
    """largest number of iterations of the optimiser"""
    guess_label: Literal["frozen", "free"] = "frozen"
    """free: the label is optimised too; frozen: only its sign relative to the prediction is chosen"""

    reference: ClassVar = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Algorithm 2"
    example: ClassVar = {"kind": "dlg", "starts": 2, "iterations": 3}
    needs: ClassVar = {
        "positions": "the network's inputs must be positions",
        "sample gradient": "compares updates with the gradient of a guessed sample",
        "linear local steps": "an update has the direction of a gradient under steps that are linear in gradients",
        "linear server step": "published models must differ by a sum of gradients; take fedavgm, or see rows or sums",
        "starting weights": "it compares gradients there; add weights to threat.knowledge",
    }

    @model_validator(mode="after")
    def _one_stays_random(self) -> Self:
        if self.start_at == "previous" and self.starts < 2:
            raise ValueError("start_at: previous needs starts of 2 or more: one of them is always drawn at random")
        if self.start_noise is not None and self.start_at in ("normal", "grid"):
            raise ValueError(f"start_noise: starts at {self.start_at!r} take none; leave it out, or start near a place")
        return self

    def start(self) -> LastPlaces:
        return LastPlaces(no_ints(), no_places())

    def run(self, view: View, facts: RoundContext, state: LastPlaces, rng: Rng) -> tuple[Estimates, LastPlaces]:
        learner, area = cast(RsrpNet, view.learner), facts.public.area
        centre, scale = learner.standardisation(view.model_before)
        centre, scale = centre[view.source_model], scale[view.source_model]
        owner = row_id(view.ue, view.model) if view.vantage == "updates" else view.source_model
        start = self._starts(owner, centre, scale, area, state, rng)
        if self.guess_label == "free":
            label = np.broadcast_to(self._label(view, learner)[:, None, None], (*start.shape[:2], 1))
            start = np.concatenate([start, label], axis=2)
        z, loss, iterations, evaluations, status = self._search(view, learner, start)
        where = centre + scale * z
        estimates = view.spread(
            "centroid", np.arange(len(where)), where,
            loss=loss, iterations=iterations, evaluations=evaluations, status=status,
        )  # fmt: skip
        return estimates, self._remember(state, owner, where, area) if self.start_at == "previous" else state

    def _search(self, view: View, learner: RsrpNet, start: FloatArray) -> tuple[Any, Any, Any, Any, list[str]]:
        """From starts (n, starts, 2 or 3): best z (n, 2), its loss (n,), effort (n,), (n,) and status words."""
        import torch

        from fl.attacks.gradient_matching import Waves, cosine_objective
        from fl.attacks.minimise import adam, lbfgs

        constants = view.model_before.constants
        vectors, scale = (torch.from_numpy(constants[name]) for name in ("wave_vectors", "scale_m"))
        waves = Waves.of(vectors[0], scale) if vectors.shape[1] else None
        n = len(view.update)
        usable = np.isfinite(view.update).all(axis=1) & (np.abs(view.update).max(axis=1, initial=0) > 0)
        z = np.full((n, 2), np.nan)
        loss, iterations, evaluations = np.full(n, np.nan), np.zeros(n, np.int64), np.zeros(n, np.int64)
        every = np.flatnonzero(usable)
        for rows in (every[i : i + _TOGETHER] for i in range(0, len(every), _TOGETHER)):
            objective = cosine_objective(
                learner.net,
                torch.from_numpy(view.model_before.parameters),
                torch.from_numpy(view.update[rows]),
                torch.from_numpy(view.source_model[rows]),
                waves,
            )
            begin = torch.from_numpy(start[rows])
            if self.optimiser == "lbfgs":
                minimum = lbfgs(objective, begin, self.iterations)
            else:
                minimum = adam(objective, begin, self.iterations, rate=0.1, halve_every=150)
            best = minimum.value.argmin(dim=1)
            pick = torch.arange(len(rows))
            loss[rows] = minimum.value[pick, best].numpy()
            z[rows] = np.where(np.isfinite(loss[rows])[:, None], minimum.x[pick, best, :2].numpy(), np.nan)
            iterations[rows], evaluations[rows] = minimum.iterations.numpy(), minimum.evaluations.numpy()
        status = [
            "no gradient" if not u else "ok" if np.isfinite(d) else "no finite loss"
            for u, d in zip(usable, loss, strict=True)
        ]
        return z, loss, iterations, evaluations, status

    def _starts(
        self, owner: IntArray, centre: FloatArray, scale: FloatArray, area: Area, state: LastPlaces, rng: Rng
    ) -> FloatArray:
        """Standardised positions (n, starts, 2) of n owners whose models have centre, scale (n, 2)."""
        if self.start_at == "grid":
            return (_grid(self.starts, area) - centre[:, None]) / scale[:, None]
        z = rng.normal("start", owner, (self.starts, 2))
        noise = _START_NOISE if self.start_noise is None else self.start_noise
        if self.start_at == "mean":
            return noise * z
        if self.start_at == "previous" and len(state.owner):
            past = (recall(state.owner, state.position_m, owner) - centre) / scale
            near = past[:, None] + noise * z[:, :-1]  # the last start stays random
            z[:, :-1] = np.where(np.isfinite(near), near, z[:, :-1])
        return z

    def _label(self, view: View, learner: RsrpNet) -> FloatArray:
        """The public mean label of each source (n,), as the network sees it."""
        if learner.labels == "standardised":
            return np.zeros(len(view.source_model))
        return view.model_before.constants["rsrp_mean_dbm"][view.source_model]

    def _remember(self, past: LastPlaces, owner: IntArray, where: FloatArray, area: Area) -> LastPlaces:
        """With the estimates of a round (n, 2)."""
        inside = area.contains(where)
        every, newest = latest(owner[inside], past.owner)
        return LastPlaces(every, np.concatenate([where[inside], past.position_m])[newest])


def _grid(k: int, area: Area) -> FloatArray:
    """k points (k, 2) in rows, each in the middle of an equal share of the area."""
    width, height = area.side_m
    rows = min(k, max(1, round(float(np.sqrt(k * height / width)))))
    count = np.full(rows, k // rows) + (np.arange(rows) < k % rows)
    north = (np.cumsum(count) - count / 2) / k  # a row is as high as it holds points
    unit = [((i + 0.5) / c, y) for c, y in zip(count, north, strict=True) for i in range(c)]
    return area.sample(np.array(unit))
