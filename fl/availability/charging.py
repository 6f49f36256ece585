"""UEs that are plugged in at night."""

from math import floor
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.availability.base import Availability, Conditions
from fl.types import State
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray

_HOUR_S = 3600.0
_CUT = 3.0  # standard deviations at which draws are cut off


class Charging(Availability):
    r"""Each UE is plugged in once a night, at a time and for as long as drawn each night, and available while it is.

    In the night that begins on local day n, UE u is plugged in at S and out at S + L, on the wall clock::

        S = 24 h n + from_hour + from_spread_hours N_1,    L = max(0, hours + length_spread_hours N_2)

    N_1 and N_2 are independent standard normal draws for u and n, cut off at 3 deviations. The time before from_hour of
    the first day belongs to a night that began before the run.
    """

    kind: Literal["charging"] = "charging"
    from_hour: float = Field(default=22.0, ge=0, lt=24)
    """mean time of day at which UEs are plugged in, hours after midnight"""
    from_spread_hours: float = Field(default=1.0, ge=0, le=4)
    """standard deviation of that time, hours"""
    hours: float = Field(default=8.0, gt=0, le=24)
    """mean time for which UEs stay plugged in, hours"""
    length_spread_hours: float = Field(default=1.0, ge=0, le=8)
    """standard deviation of how long they stay plugged in, hours"""

    reference: ClassVar = (
        "Bonawitz et al., Towards Federated Learning at Scale: System Design, 2019, Section 3: devices that charge; "
        "the distributions of times are assumed"
    )

    @model_validator(mode="after")
    def _apart(self) -> Self:
        longest = self.hours + _CUT * self.length_spread_hours + 2 * _CUT * self.from_spread_hours
        if longest > 24:
            raise ValueError(
                f"hours + 3 length_spread_hours + 6 from_spread_hours is {longest:g} hours, at most 24 are possible: "
                "one night would reach into the next; lower one of them"
            )
        return self

    def available(self, now: Conditions, state: State, rng: Rng) -> tuple[BoolArray, State]:
        from_s, until_s = self._plugged_in(len(now.position_m), self._night(now.wall_s), rng)
        return (from_s <= now.wall_s) & (now.wall_s < until_s), state

    def plugged_in_s(self, n_ue: int, begin_s: float, end_s: float, rng: Rng) -> FloatArray:
        """Seconds that each UE (n_ue,) is plugged in between two times of the wall clock."""
        total_s = np.zeros(n_ue)
        for night in range(self._night(begin_s), self._night(end_s) + 1):
            from_s, until_s = self._plugged_in(n_ue, night, rng)
            total_s += np.maximum(np.minimum(until_s, end_s) - np.maximum(from_s, begin_s), 0.0)
        return total_s

    def _night(self, wall_s: float) -> int:
        """The one night in which a UE can be plugged in at this time, by the day on which it begins."""
        earliest_h = self.from_hour - _CUT * self.from_spread_hours
        return floor((wall_s / _HOUR_S - earliest_h) / 24.0)

    def _plugged_in(self, n_ue: int, night: int, rng: Rng) -> tuple[FloatArray, FloatArray]:
        """From when until when each UE (n_ue,) is plugged in, s of the wall clock."""
        pair = np.arange((n_ue + 1) // 2)  # two UEs share an owner: a draw costs the same for four numbers as for two
        drawn = rng.normal("night", pair, (2, 2), item=night).reshape(-1, 2)[:n_ue].clip(-_CUT, _CUT)
        from_h = 24.0 * night + self.from_hour + self.from_spread_hours * drawn[:, 0]
        length_h = np.maximum(self.hours + self.length_spread_hours * drawn[:, 1], 0.0)
        return _HOUR_S * from_h, _HOUR_S * (from_h + length_h)
