"""The city slot: the simulated area, its buildings and its streets."""

from abc import abstractmethod
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, Strict

from netsim.city.buildings import Buildings
from netsim.geometry import Area
from netsim.part import Part, Positive
from netsim.rng import Streams
from netsim.streets.graph import StreetGraph
from netsim.streets.sumo import NetLocation
from netsim.units import ArrayPair, FloatArray, FloatPair, LatLon


def _check_rising(span: FloatPair) -> FloatPair:
    low, high = span
    if not 0 <= low <= high:
        raise ValueError(f"{low:g}, {high:g}: give the lowest then the highest value, none below 0")
    return span


def _check_positive(span: FloatPair) -> FloatPair:
    if not span[0] > 0:
        raise ValueError(f"{span[0]:g}, {span[1]:g}: give values above 0")
    return span


Pair = Annotated[FloatPair, Strict(False)]  # YAML knows lists only; the two numbers stay strict
PauseSpan = Annotated[Pair, AfterValidator(_check_rising)]
"""Lowest and highest value, from 0 on."""
Span = Annotated[Pair, AfterValidator(_check_rising), AfterValidator(_check_positive)]
"""Lowest and highest value, above 0."""


Latitude = Annotated[float, Field(ge=-90, le=90)]
Longitude = Annotated[float, Field(ge=-180, le=180)]
OriginDeg = Annotated[tuple[Latitude, Longitude], Strict(False)]
"""Latitude and longitude of (0, 0)."""


class City(Part):
    """The simulated area on a local plane (x east, y north, metres).

    A city without buildings offers `open-ground`, one with buildings `buildings`, one with parallel
    streets that cross at right angles `street grid`, and one with a street graph `streets`.
    """

    kind: str = ""

    offers = frozenset({"open-ground"})
    is_made_up: ClassVar = True
    """whether it is no place on the globe, and may be put where a trace is"""

    has_size: ClassVar = True
    """whether the city defines its own area; otherwise the area is that of a replayed trace"""

    @abstractmethod
    def area(self, trace_area: Area | None) -> Area:
        """The public area of interest; for a city without its own size, that of the replayed
        trace.
        """

    def buildings(self, area: Area, streams: Streams) -> Buildings:
        """The buildings in the area."""
        return Buildings.none()

    def street_graph(self, area: Area, streams: Streams) -> StreetGraph | None:
        """The street graph, for a city that offers `streets`; None for others."""
        return None

    def origin(self) -> LatLon | None:
        """Latitude and longitude of (0, 0); None for a plane that is nowhere on the globe."""
        return None

    def network(self) -> NetLocation | None:
        """Where a network of SUMO lies that the city has; None: it has none."""
        return None

    def scenery(self, area: Area, streams: Streams) -> tuple[tuple[str, FloatArray], ...]:
        """Shapes that maps draw below streets and buildings: (water or green, outline (k, 2) in
        m).
        """
        return ()

    def street_grid(self) -> ArrayPair | None:
        """Centre lines of the streets: x (a,) of north-south, y (b,) of east-west streets; None
        without streets.
        """
        return None


class SizedCity(City):
    """A city of a stated size, whose south-west corner is (0, 0)."""

    width_m: Positive
    """east-west side of the area, m"""
    height_m: Positive
    """north-south side of the area, m"""

    def area(self, trace_area: Area | None) -> Area:
        return Area(0.0, 0.0, self.width_m, self.height_m)


def map_to_span(span: FloatPair, unit: FloatArray) -> FloatArray:
    """Uniform numbers (n,) of (0, 1) mapped onto a span."""
    return span[0] + (span[1] - span[0]) * unit
