"""The server slot: when the server merges what has come, and what an update is worth that comes late."""

from typing import ClassVar

from netsim.part import Part


class Server(Part):
    """A policy by which the server asks for updates and merges them.

    In rounds : every UE that is asked gets the same model, and the next model is made of their updates. Without rounds
    the server asks UEs whenever it has room for more, and merges updates that began from different models.
    """

    kind: str
    in_rounds: ClassVar[bool] = True
    """whether all UEs are asked at once, and all updates of a round are merged together"""

    @property
    def waits_for(self) -> int | None:
        """Number of UEs whose updates are merged at a time; None for all that come."""
        return None
