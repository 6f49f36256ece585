r"""Linking of rounds: the estimates of a UE in successive rounds are merged."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
from pydantic import Field, model_validator

from fl.attacks import ATTACKS
from fl.attacks.base import Attack, View, latest, recall
from fl.attacks.closed_form import ClosedForm
from fl.learners.base import FirstLayerLearner
from fl.types import Estimates, Facts, State
from netsim.part import Part
from netsim.rng import Rng
from netsim.row_id import row_id
from netsim.units import BoolArray, FloatArray, IntArray

_MEMORY_ROUNDS = 5.0
LINKED = ATTACKS.only("closed-form", "dlg")
"""Attacks on one round, whose estimates can be linked."""


@dataclass(frozen=True, eq=False)
class Linked:
    """Estimates of earlier rounds, ordered by track: track (k,), position_m (k, 2), mass (k,) what each counts."""

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"mass": (0.0, math.inf)}
    track: IntArray
    position_m: FloatArray
    mass: FloatArray


@dataclass(frozen=True)
class LinkState:
    """of: the state of the attack whose estimates are linked; past: its earlier estimates."""

    of: State
    past: Linked


class _Needs:
    """What the linked attack needs; of the class itself: what its default does."""

    def __get__(self, part: "LinkRounds | None", owner: type[Part]) -> dict[str, str]:
        if part is None:
            return ClosedForm.needs
        own = {"biased first layer": "weighs rounds by the first layer's biases"} if part.weight == "gradient" else {}
        return {**own, **part.of.needs}


class LinkRounds(Attack):
    r"""Merges the centroids that another attack estimates in successive rounds, per UE and model.

    With estimates x_t inside the area and weights w_t::

        average   x = sum_t w_t x_t / sum_t w_t
        median    x = the (weighted) median of the x_t, per axis
        smooth    the average with w_t * (1 - 1 / memory_rounds)^(estimates since t): old rounds fade

    w_t is 1 (`equal`), or (`gradient`) the RMS of the first layer's bias update, since the error of an estimate grows
    as 1 / |gbar|. A round that gives a device no estimate inside the area keeps its last value (status `kept`).
    Other estimates of the linked attack (places) are not changed.
    """

    kind: Literal["link-rounds"] = "link-rounds"
    of: Annotated[Attack, LINKED] = ClosedForm(cloud=False)
    """the attack whose estimates are linked"""
    how: Literal["average", "median", "smooth"] = "average"
    """method of merging"""
    weight: Literal["equal", "gradient"] = "equal"
    """weight of a round: equal, or the RMS of the first layer's bias update (gradient)"""
    memory_rounds: float | None = Field(default=None, gt=1, le=1e6)
    """time constant of `smooth` in rounds; none: 5"""

    reference: ClassVar[str] = "Averaging repeated estimates, against Bakopoulou et al., Theorem 1 (one round)"
    example: ClassVar[dict[str, Any]] = {"kind": "link-rounds"}
    needs: ClassVar[dict[str, str]] = cast(dict[str, str], _Needs())

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        if self.of.name is not None:
            raise ValueError(f"the linked attack is in no record: give the name {self.of.name!r} to link-rounds itself")
        return self

    @model_validator(mode="after")
    def _forgets(self) -> Self:
        if self.memory_rounds is not None and self.how != "smooth":
            raise ValueError(f"memory_rounds: {self.how} forgets nothing; leave it out, or take how: smooth")
        return self

    @property
    def _fade(self) -> float:
        """What a round still counts one estimate later."""
        memory = _MEMORY_ROUNDS if self.memory_rounds is None else self.memory_rounds
        return 1.0 - 1.0 / memory if self.how == "smooth" else 1.0

    def start(self) -> LinkState:
        return LinkState(self.of.start(), Linked(np.zeros(0, dtype=np.int64), np.zeros((0, 2)), np.zeros(0)))

    def run(self, view: View, facts: Facts, state: LinkState, rng: Rng) -> tuple[Estimates, LinkState]:
        estimates, inner = self.of.run(view, facts, state.of, rng)
        centroid = np.array([what == "centroid" for what in estimates.what], dtype=bool)
        track, said = row_id(estimates.ue[centroid], estimates.model[centroid]), estimates.position_m[centroid]
        weight = self._weight(view, track)
        use = facts.public.area.contains(said) & np.isfinite(weight) & (weight > 0)
        link = _median if self.how == "median" else self._fading
        memory, linked = link(state.past, track, said, weight, use)
        position, status = estimates.position_m.copy(), np.array(estimates.status, dtype=object)
        known = np.asarray(np.isfinite(linked).all(axis=1))  # who never had an estimate inside keeps what was said
        position[centroid] = np.where(known[:, None], linked, said)
        status[centroid] = np.where(use, "ok", np.where(known, "kept", status[centroid]))
        return replace(estimates, position_m=position, status=status.tolist()), LinkState(inner, memory)

    def _weight(self, view: View, track: IntArray) -> FloatArray:
        """What this round counts for each track (n,)."""
        if self.weight == "equal":
            return np.ones(len(track))
        _, db = cast(FirstLayerLearner, view.learner).first_layer(view.update)
        with np.errstate(all="ignore"):
            largest = np.abs(db).max(axis=1, initial=0.0)  # so that squares of wild updates do not overflow
            rms = largest * np.sqrt(np.mean((db / largest[:, None]) ** 2, axis=1))
        target = row_id(view.ue, view.model)
        order = np.argsort(target)
        return recall(target[order], rms[view.source[order]], track)

    def _fading(
        self, past: Linked, track: IntArray, said: FloatArray, weight: FloatArray, use: BoolArray
    ) -> tuple[Linked, FloatArray]:
        """Memory and value (n, 2) of a running average: position_m (k, 2) and mass (k,) of each track."""
        new = track[use]
        old = recall(past.track, past.position_m, new)
        with np.errstate(over="ignore"):  # a mass beyond all numbers moves no more
            mass = self._fade * np.nan_to_num(recall(past.track, past.mass, new)) + weight[use]
        moved = np.where(np.isfinite(old), old + (weight[use] / mass)[:, None] * (said[use] - old), said[use])
        every, newest = latest(new, past.track)
        memory = Linked(
            every, np.concatenate([moved, past.position_m])[newest], np.concatenate([mass, past.mass])[newest]
        )
        return memory, recall(every, memory.position_m, track)


def _median(
    past: Linked, track: IntArray, said: FloatArray, weight: FloatArray, use: BoolArray
) -> tuple[Linked, FloatArray]:
    """Memory and value (n, 2): every estimate so far (k,), ordered by track."""
    tracks = np.concatenate([past.track, track[use]])
    order = np.argsort(tracks, kind="stable")
    memory = Linked(
        tracks[order],
        np.concatenate([past.position_m, said[use]])[order],
        np.concatenate([past.mass, weight[use]])[order],
    )
    low, high = (np.searchsorted(memory.track, track, side) for side in ("left", "right"))
    value = np.full((len(track), 2), np.nan)
    for i, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        if b > a:
            value[i] = [weighted_median(x, memory.mass[a:b]) for x in memory.position_m[a:b].T]
    return memory, value


def weighted_median(x: FloatArray, weight: FloatArray) -> float:
    """Where half of the weight lies on either side; between two values that halve it, their mean."""
    order = np.argsort(x)
    share = np.cumsum(weight[order] / weight.max())
    half = share[-1] / 2
    low, high = (int(np.searchsorted(share, half, side)) for side in ("left", "right"))
    return float((x[order[low]] + x[order[high]]) / 2)
