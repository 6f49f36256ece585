r"""Deep leakage from gradients: look for one sample whose gradient points where the update points."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, cast

import numpy as np
from pydantic import Field

from fl.attacks.base import Attack, View
from fl.learners.rsrp_net import RsrpNet
from fl.types import Estimates, Facts, State
from netsim.rng import Rng
from netsim.units import FloatArray


class Dlg(Attack):
    r"""Iterative reconstruction of a batch's centroid from a whole update.

    Minimises over a position x' (and with `guess_label: free` a label y')

        D = 1 - cos( g(x', y'; w_before), -u )

    over all parameters, from several starts at once; the smallest D wins. g is linear in the residual
    F(x') - y', so the cosine knows the label by its sign only: `frozen` takes the better of the two signs,
    D = 1 - |cos|, which is what freezing y' on either side of the prediction and keeping the smaller loss gives.
    No sample's gradient is ever formed (outer-product form, see `fl.mlp`).
    Departs from the paper: the weights are w_before, to which the gradient belongs, and not w_after; L-BFGS in
    place of up to 400,000 steps of gradient descent.
    """

    kind: Literal["dlg"] = "dlg"
    starts: int = Field(default=8, ge=1, le=256)
    """random starts per device and round"""
    optimiser: Literal["lbfgs", "adam"] = "lbfgs"
    """L-BFGS, or Adam at 0.1 halved every 150 iterations"""
    iterations: int = Field(default=60, ge=1, le=100_000)
    """at the most"""
    guess_label: Literal["frozen", "free"] = "frozen"
    """whether the label is searched for as well"""

    reference: ClassVar[str] = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Algorithm 2"
    example: ClassVar[dict[str, Any]] = {"kind": "dlg", "starts": 2, "iterations": 3}
    needs: ClassVar[dict[str, str]] = {
        "sample gradient": "compares updates with the gradient of a guessed sample",
        "positions": "the network's inputs must be positions",
    }

    def run(self, view: View, facts: Facts, state: State, rng: Rng) -> tuple[Estimates, State]:
        learner = cast(RsrpNet, view.learner)
        centre, scale = learner.standardisation(view.model_before)
        z, loss, iterations, evaluations, status = self._search(view, learner, rng)
        where = centre[view.source_model] + scale[view.source_model] * z
        sources = np.arange(len(where))
        found = view.spread(
            "centroid", sources, where,
            loss=loss, iterations=iterations, evaluations=evaluations, status=status,
        )  # fmt: skip
        return found, state

    def _search(self, view: View, learner: RsrpNet, rng: Rng) -> tuple[Any, Any, Any, Any, list[str]]:
        """Best z (n, 2), its loss (n,), effort (n,), (n,) and status words."""
        import torch

        from fl.matching import cosine_objective
        from fl.minimise import adam, lbfgs

        n = len(view.update)
        usable = np.isfinite(view.update).all(axis=1) & (np.abs(view.update).max(axis=1, initial=0) > 0)
        rows = np.flatnonzero(usable)
        z = np.full((n, 2), np.nan)
        loss, iterations, evaluations = np.full(n, np.nan), np.zeros(n, np.int64), np.zeros(n, np.int64)
        status = ["ok" if u else "no gradient" for u in usable]
        if len(rows):
            start = torch.from_numpy(self._starts(view, rows, learner, rng))
            objective = cosine_objective(
                learner.net,
                torch.from_numpy(view.model_before.parameters[view.source_model[rows]]),
                torch.from_numpy(view.update[rows]),
            )
            if self.optimiser == "lbfgs":
                found = lbfgs(objective, start, self.iterations)
            else:
                found = adam(objective, start, self.iterations, rate=0.1, halve_every=150)
            best = found.value.argmin(dim=1)
            pick = torch.arange(len(rows))
            loss[rows] = found.value[pick, best].numpy()
            z[rows] = np.where(np.isfinite(loss[rows])[:, None], found.x[pick, best, :2].numpy(), np.nan)
            iterations[rows], evaluations[rows] = found.iterations.numpy(), found.evaluations.numpy()
        status = ["no finite loss" if s == "ok" and not np.isfinite(d) else s
                  for s, d in zip(status, loss, strict=True)]  # fmt: skip
        return z, loss, iterations, evaluations, status

    def _starts(self, view: View, rows: Any, learner: RsrpNet, rng: Rng) -> FloatArray:
        """Standard normal positions (k, starts, 2), with the public mean label as a third number when free."""
        if view.vantage == "rows":
            owner = view.ue[rows] * 4096 + view.model[rows]
        else:
            owner = view.source_model[rows]
        z = rng.normal("start", owner, (self.starts, 2))
        if self.guess_label == "frozen":
            return z
        c = view.model_before.constants
        label = np.zeros(len(rows)) if learner.labels == "standardised" else c["rsrp_mean_dbm"][
            view.source_model[rows]]  # fmt: skip
        return np.concatenate([z, np.broadcast_to(label[:, None, None], (*z.shape[:2], 1))], axis=2)
