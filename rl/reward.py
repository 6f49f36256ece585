"""The slot `reward`: cost of a round for an online agent, whose negative is its reward."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.errors import BadInput
from netsim.part import OneOf, Part, Positive
from netsim.units import FloatArray

FIGURES = ("noise", "loss", "leakage", "lost", "leak", "named", "energy_j")
RECORDED = ("noise", "lost", "leak", "energy_j")
"""those that are known in recorded rounds"""
Figures = Mapping[str, FloatArray]
"""Costs of rounds without any weight, (B,) each.

noise : logarithm of the bound's increment over that of the required noise; loss : dB or nats;
leakage, lost, leak, named : shares; energy_j : of all UEs."""


class Reward(Part):
    """Cost of a round for an online agent."""

    kind: str = ""
    leakage_within_m: Positive = 50.0
    """distance within which an estimate counts as `leakage`, m"""
    leak_half_at: Positive = 1.0
    """h of `leak`: SINR that noise leaves at the eavesdropper at which an update counts as half
    read: z / (h + z)"""

    @property
    @abstractmethod
    def reads(self) -> Mapping[str, str]:
        """Figures that it depends on, each with the key that asks for it."""

    @property
    def unrecorded(self) -> str:
        """The key of a figure that recorded rounds do not tell; empty where they tell all."""
        return next((key for name, key in self.reads.items() if name not in RECORDED), "")

    @model_validator(mode="after")
    def _check_reads(self) -> Self:
        for name in self.reads:
            if name not in FIGURES:
                raise ValueError(f"no figure {name!r}; figures are {', '.join(FIGURES)}")
        return self

    @abstractmethod
    def cost(self, figures: Figures) -> FloatArray:
        """Cost of each round (B,), finite; figures (B,) are those of `reads`, others are refused
        (BadInput).
        """


Weight = Annotated[float, Field(ge=0, le=1e6)]
"""of a figure in the cost of a round"""


class Weighted(Reward, kind="weighted"):
    """A weighted sum of the figures of a round.

    noise is the logarithm of the ratio of the round's increment of the bound to the increment by
    the required noise alone:

        A^(T-1-t) ln( sum_k G_k^2 (sigma_k^2 + sigma_ch,k^2) / sum_k G_k^2 sigma_required,k^2 )

    It is 0 if artificial and channel noise together equal the required noise. An update that is
    lost counts as one with the required noise and that of the worst link that would have come in
    time (see `rl.radio_records`).
    """

    noise: Weight = 1.0
    """weight of the bound's increment"""
    loss: Weight = 0.0
    """weight of the model's held-out loss after the round: cross-entropy in nats, or the map's
    error in dB"""
    leakage: Weight = 0.0
    """weight of the share of estimates that come within `leakage_within_m` of the truth, mean over
    attacks"""
    lost: Weight = 0.0
    """weight of the share of updates that do not arrive"""
    leak: Weight = 0.0
    """weight of the part of updates that noise leaves at the eavesdropper, or at the server without
    one: mean of z / (h + z) over updates, h `leak_half_at`, 1 / z = artificial noise over the
    numbers sent + 1 / SINR there; the shape of a closed-form attack's success without its
    variance"""
    named: Weight = 0.0
    """weight of the share of homes that attacks have named so far within
    `learning.leakage.hit_radius_m`, mean over attacks: `attack.NAME.home_located.percent` after the
    last round"""
    energy_per_j: float = Field(0.0, ge=0, le=1e9)
    """weight of the energy of all UEs, per joule"""

    reference = (
        "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 28-36"
    )

    @property
    def reads(self) -> Mapping[str, str]:
        keys = {name: "energy_per_j" if name == "energy_j" else name for name in FIGURES}
        return {name: key for name, key in keys.items() if getattr(self, key)}

    def cost(self, figures: Figures) -> FloatArray:
        return np.asarray(
            sum(getattr(self, key) * figures[name] for name, key in self.reads.items())
        )


REWARDS = OneOf("reward", Weighted, default="weighted")
"""The reward slot: cost of a round for an online agent."""


def compute_reward_cost(reward: Reward, figures: Figures, finite: bool = True) -> FloatArray:
    """Cost of rounds (B,) of a reward, which gets only the figures that it reads.

    Raises BadInput: it takes another figure, or a cost is not finite (if `finite`).
    """
    name = f"train.task.reward: {type(reward).__name__}.cost"
    inputs = {name: figures[name] for name in reward.reads if name in figures}
    try:
        cost = np.asarray(reward.cost(inputs))
    except KeyError as error:
        if error.args[0] not in FIGURES:
            raise
        raise BadInput(
            f"{name} takes the figure {error}, and its `reads` does not name it; add it there"
        ) from None
    bad = np.flatnonzero(~np.isfinite(cost))
    if finite and len(bad):
        figures_text = ", ".join(f"{name} {values[bad[0]]:g}" for name, values in inputs.items())
        raise BadInput(f"{name} gives {cost[bad[0]]:g} where {figures_text}; give finite numbers")
    return cost
