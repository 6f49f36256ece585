"""Stages of a transmission, and what may become of it."""

from enum import IntEnum

PREPARING, WAITING, SENDING, ENDED = range(4)
"""Where a transmission is in its life; preparing: request, downlink and training."""


class Fate(IntEnum):
    """What became of a transmission.

    undecoded: a block failed more often than it may be sent again, or the UE cannot be heard at all; late: not
    complete at the deadline; dropped: the UE left; exhausted: its energy was spent; no cell: nobody serves it;
    stopped: the server needed it no more.
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
