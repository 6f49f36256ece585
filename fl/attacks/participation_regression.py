r"""Maps of single UEs from sums of updates, by least squares on who took part."""

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.attacks.base import View
from fl.attacks.place_maps import NamesPlaces, PlaceMaps
from fl.attacks.span import Span
from fl.attacks.threat import PARTICIPANTS
from fl.tracking.place_grid import PlaceGrid
from fl.types import Estimates, Public, RoundContext
from netsim.columns import frozen, replace_values
from netsim.rng import Rng
from netsim.units import AnyFloats, FloatArray, IntArray

_QUARTERS = 4  # of the day: finer ones cost a server without rounds too many of its few sums
_QUARTER_S = 6 * 3600.0
_LARGEST = 1e15  # of anything that adds up here


@frozen
class SumsSoFar:
    """What all sums add up to: of z (n,), who is in a sum by index, and S (G,), its scores.

    both (n, n): Z^T Z; scores (n, G): Z^T S; rows (c,), members (c, n), total (c, G): number, sum
    of z and sum of S in each class; change (n_model, d): the last step of each published model,
    empty before the first and where none is read.
    """

    bounds: ClassVar = {
        **dict.fromkeys(("both", "rows", "members"), (0, _LARGEST)),
        **dict.fromkeys(("scores", "total"), (-_LARGEST, _LARGEST)),
    }
    both: FloatArray
    scores: FloatArray
    rows: FloatArray
    members: FloatArray
    total: FloatArray
    change: FloatArray

    def plus_view(
        self, view: View, facts: RoundContext, z: FloatArray, score: AnyFloats
    ) -> "SumsSoFar":
        """With the usable sources of a view that hold z (n_source, n), and their maps (n_source,
        G).
        """
        is_usable = view.is_usable
        day_s = facts.week_s if np.isfinite(facts.week_s) else facts.time_s
        number = view.source_model[is_usable] * _QUARTERS + (int(day_s // _QUARTER_S) % _QUARTERS)
        of_class = np.eye(facts.public.n_model * _QUARTERS)[number]
        return self.plus(of_class, z[is_usable], score[is_usable])

    def plus(self, of_class: FloatArray, z: FloatArray, score: AnyFloats) -> "SumsSoFar":
        """With k sums: their classes (k, c) and members (k, n), 0 or 1, and maps (k, G)."""
        before = (self.both, self.scores, self.rows, self.members, self.total)
        increments = (
            z.T @ z,
            z.T @ score,
            of_class.sum(axis=0),
            of_class.T @ z,
            of_class.T @ score,
        )
        both, scores, rows, members, total = map(_add_padded, before, increments)
        return SumsSoFar(both, scores, rows, members, total, self.change)

    def estimate_maps(self, ue: IntArray, ridge: float) -> PlaceMaps:
        """Theta (k, G) = (Z^T Z + ridge I)^-1 Z^T S of UEs (k,), of rows less the means of their
        classes.
        """
        mean = self.members / np.maximum(self.rows, 1)[:, None]
        both = self.both - mean.T @ self.members
        scores = np.where(both.diagonal()[:, None] > 0, self.scores - mean.T @ self.total, 0.0)
        n = len(both)
        weight = np.linalg.solve(both + ridge * np.eye(n), np.eye(n)[:, ue])
        return PlaceMaps(ue, weight.T @ scores)


def _add_padded(smaller: FloatArray, larger: FloatArray) -> FloatArray:
    """The sum of two arrays, the first of which is continued by zeros."""
    added = larger.copy()
    added[tuple(slice(length) for length in smaller.shape)] += smaller
    return added


class ParticipationRegression(NamesPlaces):
    r"""Tells the members of sums apart by a ridge regression of score maps on who was in them.

    Secure aggregation hides single updates, not who is in a sum, and company changes: by drawing
    groups or cohorts, by availability, silence or lost uploads. With S_g(x) the scores of `span` of
    sum g less their mean over x, z_g in {0, 1}^n who is in it, and both less their means over all
    sums of the same quarter of the day and model,

        Theta = (Z^T Z + ridge I)^-1 Z^T S.

    Theta_u is the map of UE u; answers are its highest place, then the highest at least `apart_m`
    from those before. Kept are Z^T Z, Z^T S and class means, which grow by every sum and hold all
    of the past. A UE that was always there has no answer (status `no gradient`), nor have members
    of an unchanging company maps of their own.

    Published models are read as sums of the merged updates, where threat.knowledge has
    participants. Momentum at the server (beta, a public setting) repeats earlier rounds, so it is
    undone first: D_t = Delta_t - beta Delta_t-1, of each model whenever it moved; the server's
    learning rate is a factor, which no span depends on. Of `threat.n_targets` only sums that have a
    target in them are read.
    """

    kind: Literal["participation-regression"] = "participation-regression"
    layer: int = Field(2, ge=1, le=9)
    """layer whose update is read; 1 needs no weights, and tells places apart with a Fourier
    encoding only"""
    rank: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] = "auto"
    """number of singular vectors (see span); auto: as many as hold 97 % of what the layer reads of
    all places, of single updates 4"""
    ridge: float = Field(1.0, gt=0, le=1e9)
    """what is added to the diagonal of Z^T Z (lambda), in sums"""

    reference = (
        "Ridge regression of Hoerl and Kennard 1970, where Lam et al. 2021 (gradient "
        "disaggregation) solve for the raw updates of those who took part"
    )
    space = {"layer": (2, 1), "ridge": (1.0, 10.0)}

    @property
    def needs(self) -> dict[str, str]:  # type: ignore[override]
        """Needs of the span that it reads, and to know participants."""
        return {
            **self.span.needs,
            PARTICIPANTS: (
                "asks in which sums each UE was; of published models the threat must say so: add "
                "participants to threat.knowledge; under names that change no UE returns: take "
                "pseudonyms: {kind: permanent}"
            ),
            "linear server step": (
                "published models must differ by a sum of updates; take fedavg or fedavgm, or "
                "threat.observes: updates or aggregate"
            ),
        }

    @property
    def reads_sums(self) -> bool:
        return True

    @property
    def span(self) -> Span:
        """The span whose scores are the maps of sums."""
        return Span(layer=self.layer, rank=self.rank, cell_m=self.cell_m, add="scores")

    def start(self) -> SumsSoFar:
        none = np.zeros((0, 0))
        return SumsSoFar(none, none, np.zeros(0), none, none, none)

    def list_places(self, state: SumsSoFar, public: Public, count: int) -> FloatArray:
        return self.find_best_of_all(
            state.estimate_maps(np.flatnonzero(state.both.diagonal()), self.ridge),
            public.area,
            count,
        )

    def self_test(self, view: View, facts: RoundContext, rng: Rng) -> float | None:
        """Self-test of the span: one update is in no company."""
        return self.span.self_test(view, facts, rng)

    def run(
        self, view: View, facts: RoundContext, state: SumsSoFar, rng: Rng
    ) -> tuple[Estimates, SumsSoFar]:
        z = mark_members(view, len(state.both))
        grid = PlaceGrid.from_area(
            facts.public.area, self.cell_m, z.shape[1] + _QUARTERS, self.label
        )
        if view.vantage == "model":
            view, state = remove_momentum(view, facts, state)
        # what other members add cancels, and fewer directions miss one's own
        score = self.span.compute_scores(replace(view, party=None), grid, rng).astype(float)
        state = state.plus_view(view, facts, z, score - score.mean(axis=1, keepdims=True))
        return self.answer_targets(
            view, state.estimate_maps(np.unique(view.ue), self.ridge), grid
        ), state


def mark_members(view: View, n: int) -> FloatArray:
    """z (n_source, n or more), 0 or 1: which UEs each source holds."""
    ue, source = (view.ue, view.source) if view.party is None else view.party
    z = np.zeros((len(view.update), max(ue.max(initial=-1) + 1, n)))
    z[source, ue] = 1.0
    return z


def remove_momentum(view: View, facts: RoundContext, state: SumsSoFar) -> tuple[View, SumsSoFar]:
    """Published steps less what the server's momentum repeats of the step before; a model at rest
    keeps velocity.
    """
    before = state.change
    if not len(before):
        before = np.zeros_like(view.model_after.parameters)
    step = view.update - facts.public.server_momentum * before[view.source_model]
    is_usable = view.is_usable
    change = replace_values(before, view.source_model[is_usable], view.update[is_usable])
    return replace(view, update=step), replace(state, change=change)
