"""The city slot: the area, and later what stands in it."""

from __future__ import annotations

from abc import abstractmethod

from netsim.geometry import Area
from netsim.part import Part


class City(Part):
    """A place on a local plane (x east, y north, metres)."""

    kind: str

    @property
    def has_size(self) -> bool:
        """Whether it knows its own area; otherwise a replayed trace must bring one."""
        return True

    @abstractmethod
    def area(self, trace_area: Area | None) -> Area:
        """The public area of interest; a city without a size of its own takes that of the replayed trace."""
