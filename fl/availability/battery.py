"""UEs with batteries, which training and sending empty and chargers fill."""

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.availability.base import Availability, Conditions
from fl.availability.charging import Charging
from netsim.columns import frozen
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray


@frozen
class Charge:
    """Remaining charge of UEs: charge_j (n_ue,) at time_s of the simulation."""

    charge_j: FloatArray
    time_s: float


class Battery(Availability):
    """A UE is available while its battery holds at least a share of its capacity.

    Chargers fill the battery up to its capacity, training and sending take from it, and nothing else does: capacity_j
    is what learning may use of a battery. An update may spend whatever charge there is at the request. With
    `world.radio.dynamic_uplink` one that needs more is lost when the charge is gone; without, it is sent and leaves
    nothing. Charging is brought up to date whenever the server looks for UEs. Where the wall clock has changed since
    its last look, all that time counts by the later one.
    """

    kind: Literal["battery"] = "battery"
    capacity_j: float = Field(gt=0, le=1e9)
    """energy of a full battery, J"""
    start_share: float = Field(default=1.0, ge=0, le=1)
    """share of the capacity that UEs begin with"""
    min_charge_share: float = Field(default=0.2, ge=0, le=1)
    """share of the capacity below which a UE is not asked"""
    charge_w: float = Field(default=5.0, ge=0, le=1e6)
    """power of a charger, W"""
    charging: Charging | None = Charging()
    """when UEs are plugged in; none: all the time"""

    renamed: ClassVar = {"least_share": "min_charge_share"}
    reference: ClassVar = "an energy store with a constant charger; its parameters are assumed"
    example: ClassVar = {"kind": "battery", "capacity_j": 50.0}

    def start(self, n_ue: int) -> Charge:
        return Charge(np.full(n_ue, self.start_share * self.capacity_j), 0.0)

    def available(self, now: Conditions, state: Charge, rng: Rng) -> tuple[BoolArray, Charge]:
        charged_j = self.charge_w * self._plugged_in_s(now, state, rng)
        charge_j = np.minimum(state.charge_j + charged_j, self.capacity_j)
        enough = (charge_j >= self.min_charge_share * self.capacity_j) & (charge_j > 0)
        return enough, Charge(charge_j, now.time_s)

    def energy_j(self, state: Charge) -> FloatArray:
        return state.charge_j

    def spent(self, ue: IntArray, energy_j: FloatArray, state: Charge) -> Charge:
        spent_j = np.bincount(ue, weights=energy_j, minlength=len(state.charge_j))
        return replace(state, charge_j=np.maximum(state.charge_j - spent_j, 0.0))

    def _plugged_in_s(self, now: Conditions, state: Charge, rng: Rng) -> FloatArray:
        """Seconds that each UE (n_ue,) has been plugged in since the last look."""
        n_ue, elapsed_s = len(state.charge_j), now.time_s - state.time_s
        if self.charging is None:
            return np.full(n_ue, elapsed_s)
        return self.charging.plugged_in_s(n_ue, now.wall_s - elapsed_s, now.wall_s, rng)
