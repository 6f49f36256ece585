"""Clipping of updates, which bounds their sensitivity."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.defenses.base import Defense
from fl.types import Bound, LastFigures, Local, RoundContext, Spend, State, Updates
from netsim.rng import Rng


class Clip(Defense):
    """Scales every update to L2 norm at most `norm`: u * min(1, norm / |u|), over all parameters together.

    A non-finite update becomes zero, so the bound always holds. The table `metrics` has `clipped_percent`, the share of
    updates with a larger norm.

    `relation` is the neighbouring relation for later noise: `replace` (a UE's data replaced by any other; sensitivity
    2 norm) or `add-remove` (a UE takes part or not; sensitivity norm).

    With `phase` only the updates of that phase of the learner are clipped; the others have no bound, so noise that
    needs a bound cannot follow.
    """

    kind: Literal["clip"] = "clip"
    norm: float = Field(default=1.0, ge=1e-12, le=1e12)
    """largest L2 norm of an update"""
    relation: Literal["replace", "add-remove"] = "replace"
    """neighbouring relation: a user's data replaced, or the user added or removed"""
    phase: str | None = Field(default=None, min_length=1, max_length=40)
    """only updates of this phase of the learner; none: all"""

    reference: ClassVar = "McMahan et al., Learning Differentially Private Recurrent Language Models, 2018"
    example: ClassVar = {"kind": "clip", "norm": 1.0}
    contracts: ClassVar = True

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        """A bound, where it covers all phases."""
        return frozenset({"bound"} if self.phase is None else ())

    @property
    def needs(self) -> dict[str, str]:  # type: ignore[override]
        """The phase that it names."""
        return {} if self.phase is None else {f"phase {self.phase}": "no learner here has a phase of that name"}

    def start(self, n_ue: int) -> LastFigures:
        return LastFigures()

    @property
    def bounded_phase(self) -> str | None:
        return self.phase

    def promise(self, state: State) -> float | None:
        return self.norm if self.phase is None else None

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: LastFigures, rng: Rng
    ) -> tuple[Updates, LastFigures, list[Spend]]:
        if self.phase not in (None, updates.phase):
            return updates, state, []
        size = updates.norm()
        # rounding of a sum of d squares, of its root and of the product must not exceed the bound
        limit = self.norm * (1 - (updates.n_parameters + 8) * np.finfo(np.float64).eps)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(np.isfinite(size), np.minimum(1.0, limit / size), 0.0)
        factor = np.where(size == 0, 1.0, factor)
        clipped = float(np.mean(100.0 * (factor < 1.0))) if len(factor) else 0.0
        bound = Bound(self.norm, "user", self.relation)
        return updates.scaled(factor, bound), LastFigures({"clipped_percent": clipped}), []
