r"""Maps of single UEs from sums of updates, by least squares on who was in them.

Secure aggregation hides single updates, not who is in a sum, and company changes: by drawing groups
or cohorts, by availability, silence or lost uploads. With S_g(x) the scores of sum g at place x,
z_g in {0, 1}^n who is in it, and both less their means over all sums of the same quarter of the day
and model,

    Theta = (Z^T Z + ridge I)^-1 Z^T S

[Hoerl and Kennard 1970], where Lam et al. 2021 (gradient disaggregation) solve for the raw updates
of those who took part. Theta_u is the map of UE u. Kept are Z^T Z, Z^T S and means of classes,
which grow by every sum and hold all of the past. Of a UE that was always there nothing is known,
nor have members of an unchanging company maps of their own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fl.attacks.base import View
from fl.types import RoundContext
from netsim.columns import frozen, replace_values
from netsim.units import AnyFloats, FloatArray

_QUARTERS = 4  # of the day: finer ones cost a server without rounds too many of its few sums
_QUARTER_S = 6 * 3600.0


@frozen
class SumsSoFar:
    """What all sums add up to: of z (n,), who is in a sum by index, and S (G,), its scores.

    both (n, n): Z^T Z; scores (n, G): Z^T S; rows (c,), members (c, n), total (c, G): number, sum
    of z and sum of S in each class; change (n_model, d): the last step of each published model,
    empty before the first and where none is read.
    """

    both: FloatArray
    scores: FloatArray
    rows: FloatArray
    members: FloatArray
    total: FloatArray
    change: FloatArray

    @classmethod
    def empty(cls) -> SumsSoFar:
        """Before the first round."""
        none = np.zeros((0, 0))
        return cls(none, none, np.zeros(0), none, none, none)

    def plus(self, view: View, facts: RoundContext, z: FloatArray, score: AnyFloats) -> SumsSoFar:
        """With the usable sources of a view that hold z (n_source, n), and their maps (n_source,
        G).
        """
        is_usable = view.is_usable
        z = z[is_usable]
        score = score[is_usable]
        day_s = facts.week_s if np.isfinite(facts.week_s) else facts.time_s
        number = view.source_model[is_usable] * _QUARTERS + (int(day_s // _QUARTER_S) % _QUARTERS)
        of_class = np.eye(facts.public.n_model * _QUARTERS)[number]
        return SumsSoFar(
            _add_padded(self.both, z.T @ z),
            _add_padded(self.scores, z.T @ score),
            _add_padded(self.rows, of_class.sum(axis=0)),
            _add_padded(self.members, of_class.T @ z),
            _add_padded(self.total, of_class.T @ score),
            self.change,
        )

    def estimate_maps(self, ridge: float) -> AnyFloats:
        """Theta (n, G) of all UEs, of rows less the means of their classes; 0 of one that was
        always there.
        """
        mean = self.members / np.maximum(self.rows, 1)[:, None]
        both = self.both - mean.T @ self.members
        scores = np.where(both.diagonal()[:, None] > 0, self.scores - mean.T @ self.total, 0.0)
        return np.linalg.solve(both + ridge * np.eye(len(both)), scores)


def _add_padded(smaller: FloatArray, larger: FloatArray) -> FloatArray:
    """The sum of two arrays, the first of which is continued by zeros."""
    added = larger.copy()
    added[tuple(slice(length) for length in smaller.shape)] += smaller
    return added


def mark_members(view: View, n: int) -> FloatArray:
    """z (n_source, n or more), 0 or 1: which UEs each source holds."""
    ue, source = (view.ue, view.source) if view.party is None else view.party
    z = np.zeros((len(view.update), max(ue.max(initial=-1) + 1, n)))
    z[source, ue] = 1.0
    return z


def remove_momentum(view: View, facts: RoundContext, sums: SumsSoFar) -> tuple[View, SumsSoFar]:
    """Published steps less what the server's momentum repeats of the step before: D_t = Delta_t -
    beta Delta_t-1, of each model whenever it moved; a model at rest keeps velocity.
    """
    before = sums.change
    if not len(before):
        before = np.zeros_like(view.model_after.parameters)
    step = view.update - facts.public.server_momentum * before[view.source_model]
    is_usable = view.is_usable
    change = replace_values(before, view.source_model[is_usable], view.update[is_usable])
    return replace(view, update=step), replace(sums, change=change)
