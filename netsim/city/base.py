"""The city slot: the area and what stands in it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar

from pydantic import Strict

from netsim.city.buildings import Buildings
from netsim.geometry import Area
from netsim.part import Part
from netsim.rng import Streams
from netsim.units import FloatArray

Span = Annotated[tuple[float, float], Strict(False)]  # YAML knows lists only; the two numbers stay strict


class City(Part):
    """A place on a local plane (x east, y north, metres).

    It offers `open-ground` if it has no buildings, `buildings` if it has, and `streets` to walk on.
    """

    kind: str

    offers: ClassVar[frozenset[str]] = frozenset({"open-ground"})

    @property
    def has_size(self) -> bool:
        """Whether it knows its own area; otherwise a replayed trace must bring one."""
        return True

    @abstractmethod
    def area(self, trace_area: Area | None) -> Area:
        """The public area of interest; a city without a size of its own takes that of the replayed trace."""

    def buildings(self, area: Area, streams: Streams) -> Buildings:
        """What stands in the area."""
        return Buildings.none()

    def notes(self) -> tuple[str, ...]:
        """What a person should know of how it was read."""
        return ()

    def streets(self) -> tuple[FloatArray, FloatArray] | None:
        """Centre lines of the streets: x (a,) of those that run north, y (b,) of those that run east."""
        return None


def in_order(span: Span, lowest: float, what: str) -> Span:
    """The span itself. Raises ValueError unless lowest < low <= high."""
    low, high = span
    if not lowest < low <= high:
        raise ValueError(f"{low:g}, {high:g}: give lowest then highest {what} in m, both above {lowest:g}")
    return span
