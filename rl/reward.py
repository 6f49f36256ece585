"""The slot `reward`: cost of a round for an online agent, whose negative is its reward.

Bounds on means over rounds are kept by multipliers: the dual is climbed while the primal is solved,

    L(policy, lambda) = mean f_0 + sum_i lambda_i (mean f_i - b_i),      lambda_i >= 0.

For given multipliers the best policy minimises L, which is a mean over rounds like any other cost. Each mean that
exceeds its bound raises its multiplier, each that stays below lowers it, down to 0. Steps are counted in spreads s of
figures: at the first multiplier s_0 / s_i, one spread of f_i costs as much as one of f_0.

For any multipliers the least L is no more than the least f_0 of all policies that keep the bounds (weak duality): the
bound of the oracle. [Boyd and Vandenberghe, Convex Optimization, Section 5.2]
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.columns import frozen, no_floats
from netsim.errors import BadInput
from netsim.part import OneOf, Part
from netsim.units import FloatArray

Figure = Literal["noise", "loss", "leakage", "lost", "leak", "named", "energy_j"]
FIGURES: tuple[str, ...] = ("noise", "loss", "leakage", "lost", "leak", "named", "energy_j")
DUAL_RATE = 0.1
"""eta of a dual step"""
RECORDED: tuple[str, ...] = ("noise", "lost", "leak", "energy_j")
"""those that are known in recorded rounds"""
_FEASIBLE_FIRST = 1e3  # cost of exceeding a bound by its size where policies are compared
_MIN = 0.01  # spread of a figure, of its bound; of the minimised cost, of its mean
Figures = Mapping[str, FloatArray]
"""Costs of rounds without any weight, (B,) each.

noise : logarithm of the bound's increment over that of the required noise; loss : dB or nats; leakage, lost, leak,
named : shares; energy_j : of all UEs."""


class Reward(Part):
    """Cost of a round for an online agent."""

    kind: str
    leakage_within_m: float = Field(50.0, gt=0, le=1e6)
    """distance within which an estimate counts as `leakage`, m"""
    leak_half_at: float = Field(1.0, gt=0, le=1e6)
    """h of `leak`, z / (h + z): the SINR z that noise leaves at the eavesdropper where an update is half read"""

    @property
    @abstractmethod
    def reads(self) -> Mapping[str, str]:
        """Figures that it depends on, each with the key that asks for it."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        for name in {**self.reads, **self.bounds()}:
            if name not in FIGURES:
                raise ValueError(f"no figure {name!r}; figures are {', '.join(FIGURES)}")
        return self

    @abstractmethod
    def cost(self, figures: Figures) -> FloatArray:
        """Cost of each round (B,), finite; figures (B,) are those of `reads`, others are refused (BadInput)."""

    def bounds(self) -> Mapping[str, float]:
        """Figures whose mean over rounds must not be larger, with their bounds; none by default."""
        return {}

    @property
    def beyond_radio(self) -> list[str]:
        """Keys of figures that are unknown in recorded rounds."""
        return [key for name, key in self.reads.items() if name not in RECORDED]


class Weighted(Reward):
    """A weighted sum of the figures of a round.

    noise is the logarithm of the ratio of the round's increment of the bound to the increment by the required noise
    alone:

        A^(T-1-t) ln( sum_k G_k^2 (sigma_k^2 + sigma_ch,k^2) / sum_k G_k^2 sigma_required,k^2 )

    It is 0 if artificial and channel noise together equal the required noise. An update that is lost counts as one with
    the required noise and that of the worst link that would have come in time (see `rl.radio_records`).
    """

    kind: Literal["weighted"] = "weighted"
    noise: float = Field(1.0, ge=0, le=1e6)
    """weight of the bound's increment"""
    loss: float = Field(0.0, ge=0, le=1e6)
    """weight of the model's held-out loss after the round: cross-entropy in nats, or the map's error in dB"""
    leakage: float = Field(0.0, ge=0, le=1e6)
    """weight of the share of estimates that come within `leakage_within_m` of the truth, mean over attacks"""
    lost: float = Field(0.0, ge=0, le=1e6)
    """weight of the share of updates that do not arrive"""
    leak: float = Field(0.0, ge=0, le=1e6)
    """weight of the part of updates that noise leaves at the eavesdropper, or at the server without one: mean of z / (h
    + z) over updates, h `leak_half_at`, 1 / z = artificial noise over the numbers sent + 1 / SINR there; the shape of a
    closed-form attack's success without its variance"""
    named: float = Field(0.0, ge=0, le=1e6)
    """weight of the share of homes that attacks have named so far within `learning.leakage.hit_radius_m`, mean over
    attacks: `attack.NAME.home_located.percent` after the last round"""
    energy_per_j: float = Field(0.0, ge=0, le=1e9)
    """weight of the energy of all UEs, per joule"""

    reference = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 28-36"
    example = {"kind": "weighted"}

    @property
    def reads(self) -> Mapping[str, str]:
        keys = {name: "energy_per_j" if name == "energy_j" else name for name in FIGURES}
        return {name: key for name, key in keys.items() if getattr(self, key)}

    def cost(self, figures: Figures) -> FloatArray:
        return np.asarray(sum(getattr(self, key) * figures[name] for name, key in self.reads.items()))

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.reads:
            raise ValueError("reward: all weights are 0; nothing could be learned")
        return self


class Bounds(Part):
    """Bounds on means over rounds; a figure without one is free."""

    noise: float | None = Field(None, ge=-1e3, le=1e3)
    """of the logarithm of the bound's increment over that of the required noise"""
    loss: float | None = Field(None, gt=0, le=1e6)
    """of the model's held-out loss: dB of a map, nats of a classifier"""
    leakage: float | None = Field(None, ge=0, lt=1)
    """of the share of estimates that come within `leakage_within_m`"""
    lost: float | None = Field(None, ge=0, lt=1)
    """of the share of updates that do not arrive"""
    leak: float | None = Field(None, ge=0, lt=1)
    """of the part of updates that noise leaves at the eavesdropper, or at the server without one"""
    energy_j: float | None = Field(None, gt=0, le=1e9)
    """of the energy of all UEs in a round, J"""

    def given(self) -> dict[str, float]:
        """The bounds that are set."""
        return {name: bound for name in FIGURES if (bound := getattr(self, name, None)) is not None}


class Constrained(Reward):
    r"""One figure is minimised while the means of others over rounds keep bounds, by a Lagrangian.

        minimise  mean f_0   subject to  mean f_i <= b_i:     cost = f_0 + sum_i lambda_i (f_i - b_i),
        lambda_i <- max(0, lambda_i + eta s_0 / s_i clip((mean f_i - b_i) / s_i, -1, 1))

    with the means of the present policy, and the spreads s of the figures over actions where training begins. A
    multiplier is in units of f_0 for a unit of f_i.
    """

    kind: Literal["constrained"] = "constrained"
    minimise: Figure
    """the figure that is minimised"""
    at_most: Bounds
    """bounds on the means of other figures"""

    reference = (
        "Tessler et al., Reward Constrained Policy Optimization, 2019; Boyd and Vandenberghe, Convex Optimization, 5.2"
    )
    example = {"kind": "constrained", "minimise": "leak", "at_most": {"lost": 0.02}}

    @property
    def reads(self) -> Mapping[str, str]:
        return {self.minimise: "minimise"} | {name: f"at_most.{name}" for name in self.at_most.given()}

    def cost(self, figures: Figures) -> FloatArray:
        return figures[self.minimise]

    def bounds(self) -> Mapping[str, float]:
        return self.at_most.given()

    @model_validator(mode="after")
    def _apart(self) -> Self:
        bounds = self.at_most.given()
        if not bounds:
            raise ValueError(f"at_most: bounds nothing; bound one of {', '.join(FIGURES)}, or take kind: weighted")
        if self.minimise in bounds:
            raise ValueError(
                f"at_most.{self.minimise}: {self.minimise} is minimised already, and cannot be bounded as well; leave "
                "the bound out, or minimise another figure"
            )
        return self


REWARDS = OneOf("reward", Weighted, Constrained, default="weighted")
"""The reward slot: cost of a round for an online agent."""


class _Declared(dict[str, FloatArray]):
    """Figures that a reward reads; BadInput where it takes another."""

    def __init__(self, reward: Reward, figures: Figures) -> None:
        super().__init__((name, figures[name]) for name in reward.reads if name in figures)
        self.reward = reward

    def __missing__(self, name: str) -> FloatArray:
        raise BadInput(
            f"train.task.reward: {type(self.reward).__name__}.cost takes the figure {name!r}, and its `reads` does not "
            "name it; add it there"
        )


def cost_of(reward: Reward, figures: Figures, finite: bool = True) -> FloatArray:
    """Cost of rounds (B,) of a reward, which gets only the figures that it reads.

    Raises BadInput: it takes another figure, or does not give one number a round, which is finite (if `finite`).
    """
    given = _Declared(reward, figures)
    cost = np.asarray(reward.cost(given))
    of = f"train.task.reward: {type(reward).__name__}.cost"
    wanted = np.shape(next(iter(figures.values())))
    if cost.dtype.kind not in "fiu" or cost.shape != wanted:
        raise BadInput(
            f"{of} gives {cost.dtype} of shape {cost.shape} for figures of shape {wanted}; give one number a round"
        )
    bad = np.flatnonzero(~np.isfinite(cost))
    if finite and len(bad):
        at = ", ".join(f"{name} {values[bad[0]]:g}" for name, values in given.items())
        raise BadInput(f"{of} gives {cost[bad[0]]:g} where {at}; give finite numbers")
    return cost


def priced(reward: Reward, figures: Figures, multipliers: FloatArray | None) -> FloatArray:
    """Cost of rounds (B,) with multipliers (m,), in the order of the bounds; None: without the bounds."""
    cost = cost_of(reward, figures)
    if multipliers is None:
        return cost
    for (name, bound), multiplier in zip(reward.bounds().items(), multipliers.tolist(), strict=True):
        if multiplier:  # a figure without a price may be unknown
            cost = cost + multiplier * (figures[name] - bound)
    return cost


def over(reward: Reward, figures: Figures) -> FloatArray:
    """Excess of means over rounds over their bounds (m,); below 0 where there is room."""
    return np.array([figures[name].mean() - bound for name, bound in reward.bounds().items()])


def penalty(reward: Reward, figures: Figures) -> float:
    """0 where all bounds are kept; else any policy that keeps them better is the better one."""
    sizes = np.array([abs(bound) or 1.0 for bound in reward.bounds().values()])
    return float(_FEASIBLE_FIRST * (np.maximum(over(reward, figures), 0.0) / sizes).sum())


@frozen
class Prices:
    """Multipliers (m,), in units of the minimised cost for a unit of each bounded figure; one spread (m,) of each
    figure, and how far one step at a rate of 1 moves its multiplier (m,). Without rows for a reward without bounds.
    """

    multipliers: FloatArray = field(default_factory=no_floats)
    spread: FloatArray = field(default_factory=no_floats)
    step: FloatArray = field(default_factory=no_floats)

    def raised(self, over: FloatArray, rate: float) -> Self:
        """After a dual step: over (m,) is the excess of means over their bounds."""
        moved = self.multipliers + rate * self.step * np.clip(over / self.spread, -1.0, 1.0)
        return replace(self, multipliers=np.maximum(moved, 0.0))


def first_prices(reward: Reward, figures: Figures, situations: int) -> Prices:
    """The first multipliers. figures : of as many actions in each situation, situation by situation."""

    def spread(values: FloatArray) -> float:
        return float(values.reshape(situations, -1).std(axis=1).mean())

    bounds = reward.bounds()
    cost = cost_of(reward, figures)
    own = np.array([max(spread(figures[name]), _MIN * abs(bound), 1e-9) for name, bound in bounds.items()])
    step = max(spread(cost), _MIN * abs(cost.mean())) / own
    return Prices(step, own, step)
