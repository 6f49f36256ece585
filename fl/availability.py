"""The availability slot: which UEs may be asked for an update now, and how much energy they may
spend on it.
"""

from abc import abstractmethod
from dataclasses import replace
from math import floor
from typing import ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from fl.types import State
from netsim.columns import frozen
from netsim.geometry import measure_lengths
from netsim.part import Amount, Fraction, OneOf, Part, Positive
from netsim.rng import Rng
from netsim.units import ArrayPair, BoolArray, FloatArray, IntArray

HOMES = "homes"
"""what a rule needs that asks where UEs live"""


@frozen
class Conditions:
    """State of all UEs (n_ue,) when the server selects UEs.

    time_s : of the simulation; wall_s : what the wall clock shows, seconds from the first midnight,
    so that `wall_s % 86400` is the time of day; position_m, home_m (n_ue, 2) : NaN for a UE that is
    absent, or has no home.

    rsrp_dbm, sinr (linear), rate_bps, lost (n_ue,) : of the last upload that has ended, by the
    serving cell as it was at the request, and whether it was lost (1, else 0); NaN for a UE that
    has sent none. A rule that reads them depends on where a UE was and on what it has sent, so it
    sets `by_place` and `by_history`: it ties the coins of a UE in different rounds together.
    """

    time_s: float
    wall_s: float
    position_m: FloatArray
    home_m: FloatArray
    rsrp_dbm: FloatArray
    sinr: FloatArray
    rate_bps: FloatArray
    lost: FloatArray


class Availability(Part):
    """A rule by which UEs are available for learning. It must not depend on their data."""

    kind: str = ""
    by_place: ClassVar = False
    """whether it depends on where a UE is"""
    by_history: ClassVar = False
    """whether it depends on what a UE has sent before"""

    def start(self, n_ue: int) -> State:
        """The first state; None for a rule without memory."""
        return None

    @abstractmethod
    def find_available(
        self, conditions: Conditions, state: State, rng: Rng
    ) -> tuple[BoolArray, State]:
        """Which of all UEs (n_ue,) may be asked now. The server asks in order of time.

        rng : one stream for the whole run, the same at every call, so that a draw for a UE and a
        night (or any other `item`) is the same whenever, and however often, the server asks.
        """

    def get_max_energy_j(self, state: State) -> FloatArray | None:
        """Energy (n_ue,) that each UE may spend on its next update, training included; None:
        without a limit.
        """
        return None

    def spend_energy(self, ue: IntArray, energy_j: FloatArray, state: State) -> State:
        """The next state after UEs (n,) have spent energy_j (n,) on an update that has ended."""
        return state


class Always(Availability, kind="always"):
    """Every UE is available at any time, with energy without end."""

    reference = "netsim: the usual assumption of federated learning papers"

    def find_available(
        self, conditions: Conditions, state: State, rng: Rng
    ) -> tuple[BoolArray, State]:
        return np.ones(len(conditions.position_m), bool), state


class AtHome(Availability, kind="at-home"):
    """A UE is available while it is within `radius_m` of its home, where it has Wi-Fi and power.

    A UE without a home, or that is absent, is not available. Homes are those of the mobility model;
    for a replayed trace they are the places where UEs were at night.
    """

    radius_m: Positive = 100.0
    """distance from home up to which a UE is available, m"""

    reference = (
        "Bonawitz et al., Towards Federated Learning at Scale: System Design, 2019, "
        "Section 3: idle, charging, and on "
        "an unmetered network; that this is so at home, and only there, is assumed"
    )
    by_place = True
    needs = {HOMES: "without them no UE would ever be available"}

    def find_available(
        self, conditions: Conditions, state: State, rng: Rng
    ) -> tuple[BoolArray, State]:
        return measure_lengths(conditions.position_m - conditions.home_m) <= self.radius_m, state


_HOUR_S = 3600.0
_CUT = 3.0  # standard deviations at which draws are cut off


class Charging(Availability, kind="charging"):
    r"""Each UE is plugged in once a night, at a time and for as long as drawn each night, and
    available while it is.

    In the night that begins on local day n, UE u is plugged in at S and out at S + L, on the wall
    clock::

        S = 24 h n + from_hour + from_spread_hours N_1,    L = max(0, hours + length_spread_hours
        N_2)

    N_1 and N_2 are independent standard normal draws for u and n, cut off at 3 deviations. The time
    before from_hour of the first day belongs to a night that began before the run.
    """

    from_hour: float = Field(22.0, ge=0, lt=24)
    """mean time of day at which UEs are plugged in, hours after midnight"""
    from_spread_hours: float = Field(1.0, ge=0, le=4)
    """standard deviation of that time, hours"""
    hours: float = Field(8.0, gt=0, le=24)
    """mean time for which UEs stay plugged in, hours"""
    length_spread_hours: float = Field(1.0, ge=0, le=8)
    """standard deviation of how long they stay plugged in, hours"""

    reference = (
        "Bonawitz et al., Towards Federated Learning at Scale: System Design, 2019, Section 3: "
        "devices that charge; the distributions of times are assumed"
    )

    @model_validator(mode="after")
    def _check_nights(self) -> Self:
        longest = self.hours + _CUT * self.length_spread_hours + 2 * _CUT * self.from_spread_hours
        if longest > 24:
            raise ValueError(
                f"hours + 3 length_spread_hours + 6 from_spread_hours is {longest:g} hours, at "
                "most 24 are possible: one night would reach into the next; lower one of them"
            )
        return self

    def find_available(
        self, conditions: Conditions, state: State, rng: Rng
    ) -> tuple[BoolArray, State]:
        wall_s = conditions.wall_s
        night = self._find_night(wall_s)
        from_s, until_s = self._draw_charging_s(len(conditions.position_m), night, rng)
        return (from_s <= wall_s) & (wall_s < until_s), state

    def measure_charging_s(self, n_ue: int, begin_s: float, end_s: float, rng: Rng) -> FloatArray:
        """Seconds that each UE (n_ue,) is plugged in between two times of the wall clock."""
        total_s = np.zeros(n_ue)
        for night in range(self._find_night(begin_s), self._find_night(end_s) + 1):
            from_s, until_s = self._draw_charging_s(n_ue, night, rng)
            total_s += np.maximum(np.minimum(until_s, end_s) - np.maximum(from_s, begin_s), 0.0)
        return total_s

    def _find_night(self, wall_s: float) -> int:
        """The one night in which a UE can be plugged in at this time, by the day on which it
        begins.
        """
        return floor((wall_s / _HOUR_S - (self.from_hour - _CUT * self.from_spread_hours)) / 24.0)

    def _draw_charging_s(self, n_ue: int, night: int, rng: Rng) -> ArrayPair:
        """From when until when each UE (n_ue,) is plugged in, s of the wall clock."""
        # two UEs share an owner: a draw costs the same for four numbers as for two
        pair = np.arange((n_ue + 1) // 2)
        drawn = rng.normal("night", pair, (2, 2), item=night).reshape(-1, 2)
        begin, length = drawn[:n_ue].clip(-_CUT, _CUT).T
        from_h = 24.0 * night + self.from_hour + self.from_spread_hours * begin
        length_h = np.maximum(self.hours + self.length_spread_hours * length, 0.0)
        return _HOUR_S * from_h, _HOUR_S * (from_h + length_h)


@frozen
class Charge:
    """Remaining charge of UEs: charge_j (n_ue,) at time_s of the simulation."""

    charge_j: FloatArray
    time_s: float


class Battery(Availability, kind="battery"):
    """A UE is available while its battery holds at least a share of its capacity.

    Chargers fill the battery up to its capacity, training and sending take from it, and nothing
    else does: capacity_j is what learning may use of a battery. An update may spend whatever charge
    there is at the request. With `world.radio.dynamic_uplink` one that needs more is lost when the
    charge is gone; without, it is sent and leaves nothing. Charging is brought up to date whenever
    the server looks for UEs. Where the wall clock has changed since its last look, all that time
    counts by the later one.
    """

    capacity_j: Amount
    """energy of a full battery, J"""
    start_share: Fraction = 1.0
    """share of the capacity that UEs begin with"""
    min_charge_share: Fraction = 0.2
    """share of the capacity below which a UE is not asked"""
    charge_w: float = Field(5.0, ge=0, le=1e6)
    """power of a charger, W"""
    charging: Charging | None = Charging()
    """when UEs are plugged in; none: all the time"""

    reference = "netsim: an energy store with a constant charger; its parameters are assumed"
    example = {"kind": "battery", "capacity_j": 50.0}
    by_history = True

    def start(self, n_ue: int) -> Charge:
        return Charge(np.full(n_ue, self.start_share * self.capacity_j), 0.0)

    def find_available(
        self, conditions: Conditions, state: Charge, rng: Rng
    ) -> tuple[BoolArray, Charge]:
        wall_s = conditions.wall_s
        elapsed_s = conditions.time_s - state.time_s  # since the last look
        charging_s = np.full(len(state.charge_j), elapsed_s)
        if self.charging is not None:
            charging_s = self.charging.measure_charging_s(
                len(charging_s), wall_s - elapsed_s, wall_s, rng
            )
        charge_j = np.minimum(state.charge_j + self.charge_w * charging_s, self.capacity_j)
        enough = (charge_j >= self.min_charge_share * self.capacity_j) & (charge_j > 0)
        return enough, Charge(charge_j, conditions.time_s)

    def get_max_energy_j(self, state: Charge) -> FloatArray:
        return state.charge_j

    def spend_energy(self, ue: IntArray, energy_j: FloatArray, state: Charge) -> Charge:
        spent_j = np.bincount(ue, weights=energy_j, minlength=len(state.charge_j))
        return replace(state, charge_j=np.maximum(state.charge_j - spent_j, 0.0))


AVAILABILITIES = OneOf("availability", Always, AtHome, Charging, Battery)
