"""Zones in which nothing is learnt: the common base of `home-zone` and `quiet-zones`."""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.types import Local, State
from fl.withholding.base import RequestedData, Withholding, of_ues
from netsim.rng import Rng
from netsim.units import BoolArray


class Zones(Withholding):
    """Samples measured within a circle are never learnt from, also not in a later round from what devices keep.

    With `drops: update` a UE moreover sends nothing of a round in which it measured anything within one, held-out
    measurements included. What it measured elsewhere in that round stays on the device; where devices keep records
    (data `memory`), a later round learns from it.
    """

    radius_m: float = Field(gt=0, le=1e6)
    """radius of a zone, m"""
    drops: Literal["samples", "update"] = "samples"
    """what is held back: the samples measured in a zone, or the whole update of a round with any of them"""

    needs: ClassVar = {"positions": "it holds back by place; these data have none"}
    by_place: ClassVar = True

    @property
    def records_alone(self) -> bool:
        return self.drops == "samples"

    @abstractmethod
    def inside(self, samples: Local, asked: RequestedData, rng: Rng) -> BoolArray:
        """Which samples (N,) were measured in a zone of their UE; the same whenever it is asked."""

    def keep(self, asked: RequestedData, state: State, rng: Rng) -> BoolArray:
        outside = ~self.inside(asked.local, asked, rng)
        if self.drops == "samples":
            return outside
        speaks, now = np.ones(len(asked.home_m), dtype=np.bool_), asked.measured
        speaks[np.repeat(now.ue, now.count)[self.inside(now, asked, rng)]] = False
        return outside & of_ues(speaks, asked.local)
