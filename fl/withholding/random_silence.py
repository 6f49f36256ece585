"""Silence by a coin."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.types import State
from fl.withholding.base import RequestedData, Withholding, of_ues
from netsim.rng import Rng
from netsim.units import BoolArray


class RandomSilence(Withholding):
    """A UE that is asked sends nothing with a given probability, by a coin of its own for each round.

    What the silence gives away: nothing about places or times. It also hides: with other rules beside it, an attacker
    that is silent need not be so for their reasons. It costs as many updates as a smaller `participation`, which the
    server decides; here the device does.
    """

    kind: Literal["random-silence"] = "random-silence"
    probability: float = Field(gt=0, lt=1)
    """probability with which a UE that is asked sends nothing"""

    reference: ClassVar = (
        "Huang et al., Enhancing Wireless Location Privacy Using Silent Period, IEEE WCNC 2005: silence at random; a "
        "coin a round is assumed"
    )
    example: ClassVar = {"kind": "random-silence", "probability": 0.5}
    gives_away: ClassVar = "its silence tells nothing but that a coin fell so"

    def keep(self, asked: RequestedData, state: State, rng: Rng) -> BoolArray:
        coin = rng.uniform("silence", np.arange(len(asked.home_m)), item=asked.facts.round)
        return of_ues(coin >= self.probability, asked.local)
