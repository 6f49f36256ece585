"""A plan: powers, the round of the switch and the receiver's noise, found on a reference run before the real one.

The reference is the study itself with its own power and receiver, with artificial noise in every round and no
attacker: the trajectory for which the convergence bound is a law of power (`fl.power.bound`), frozen, as in the source.
What the plan finds is written into the study, which then runs as any other; `plan.json` in the run folder says what was
found. The run's own budgets may ask for more noise than the reference did: `enough_percent` of the switch says so.
"""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from fl.power.bound import Convergence, Criterion
from fl.power.search import Limits
from netsim.part import Part
from netsim.radio.uplink import Uplink


class Plan(Part):
    """How powers are found, on the bound of a reference run."""

    power: Literal["average", "full", "plateaus", "evolution"] = "plateaus"
    """equal split of the middle or the most of the allowed total, SLSQP on each plateau, differential evolution"""
    limits: Limits = Limits()
    """what powers may be"""
    criterion: Criterion = "per-device"
    """when the channel's noise is enough: for each device, their sum, or (top-up) filled up by artificial noise"""
    bound: Convergence = Convergence()
    """constants of the bound"""
    switch_share: float | None = Field(default=None, gt=0, lt=1)
    """sets the receiver's noise so that, at the study's own power, it is enough after this share of the reference"""

    reference: ClassVar = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 23-28"

    @model_validator(mode="after")
    def _has_plateaus(self) -> Self:
        if self.criterion == "top-up" and (self.power == "plateaus" or self.switch_share is not None):
            raise ValueError(
                "criterion: top-up has no switch, so no plateaus and no switch_share; take power: evolution, or "
                "criterion: per-device"
            )
        return self

    @staticmethod
    def check(uplink: Uplink) -> None:
        """Raise ValueError for an uplink whose noise does not fall with each UE's own power alone.

        Without interference what the model suffers and what may count as privacy are the same noise, so one trajectory
        serves both parts of the bound.
        """
        if not (uplink.adds_noise and uplink.isolates_ues):
            raise ValueError(
                "world.radio.uplink: the bound takes noise that falls with each UE's own power; set kind: noma with "
                "interference: none and decoding: noisy"
            )
