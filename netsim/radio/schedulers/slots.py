"""Slots of time: they begin at multiples of their length."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from netsim.multiples import first_multiple, last_multiple, slack_s
from netsim.units import IntArray


@dataclass(frozen=True)
class Slot:
    """until_s: end of the slot in which a scheduler was asked last; waits: whether a UE waited after it."""

    until_s: float = -inf
    waits: bool = False

    def over(self, time_s: float, slot_s: float) -> bool:
        """Whether a new slot begins at time_s.

        While no UE waits the scheduler is not asked, and UEs that send hold slot after slot.
        """
        if self.waits:
            return time_s >= self.until_s - slack_s(slot_s, time_s)
        return first_multiple(time_s, slot_s) == last_multiple(time_s, slot_s)

    @staticmethod
    def after(time_s: float, slot_s: float, resource: IntArray) -> Slot:
        """The slot of time_s, with the resource blocks (n,) given, -1 for a UE that waits."""
        return Slot((last_multiple(time_s, slot_s) + 1) * slot_s, bool(np.any(resource < 0)))


def last_start_s(time_s: float, slot_s: float) -> float:
    """The latest start of a slot before time_s."""
    return (first_multiple(time_s, slot_s) - 1) * slot_s
