"""Stages and outcomes of a transmission."""

from enum import IntEnum

PREPARING, WAITING, SENDING, ENDED = range(4)
"""Stages of a transmission; preparing: request, downlink and training."""


class Fate(IntEnum):
    """Outcome of a transmission.

    undecoded: a block exhausted its retransmissions, or the UE cannot be received at all; late: not complete at the
    deadline; dropped: the UE left; exhausted: its energy was spent; no cell: no base station serves the UE; stopped:
    the server no longer needed it.
    """

    UNDER_WAY = 0
    ARRIVED = 1
    UNDECODED = 2
    LATE = 3
    DROPPED = 4
    EXHAUSTED = 5
    NO_CELL = 6
    STOPPED = 7

    @property
    def word(self) -> str:
        """The name as records have it: `no-cell`."""
        return self.name.lower().replace("_", "-")
