"""The radio slots that are laws of place: path loss and shadowing."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Protocol, Self

from netsim.geometry import Area
from netsim.part import Part
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Pairs:
    """The geometry of all links: distance_2d_m, distance_3d_m (n, n_bs), ue_height_m, bs_height_m (n_bs,).

    los (n, n_bs) says which links are in line of sight; None before anybody has looked.
    """

    distance_2d_m: FloatArray
    distance_3d_m: FloatArray
    ue_height_m: float
    bs_height_m: FloatArray
    los: BoolArray | None = None


class PathLoss(Part):
    """Mean loss over distance. `needs_sight`: the law differs with and without line of sight."""

    kind: str
    needs_sight: ClassVar[bool] = False
    longest_m: ClassVar[float] = inf
    """distance up to which the law was published"""
    std_db: ClassVar[tuple[float, float] | None] = None
    """standard deviation of shadowing in line of sight and without that the law was published with"""
    far_std_db: ClassVar[float | None] = None
    """in line of sight where `is_far`, for a law with another deviation there"""
    decorrelation_m: ClassVar[float] = 50.0
    """of shadowing in line of sight, for a law with `std_db`"""
    sight_decorrelation_m: ClassVar[float] = 50.0
    """over which the state of sight persists, for a law that offers `probability of sight`"""

    @abstractmethod
    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        """Loss in dB (n, n_bs), positive for a loss."""

    def los_probability(self, pairs: Pairs) -> FloatArray:
        """Probability of line of sight (n, n_bs), for a law that offers `probability of sight`."""
        raise NotImplementedError(self.kind)

    def is_far(self, pairs: Pairs, carrier_hz: float) -> BoolArray:
        """Links (n, n_bs) to which `far_std_db` belongs, for a law that has one."""
        raise NotImplementedError(self.kind)

    def check(self, carrier_hz: float, ue_height_m: float, bs_height_m: FloatArray) -> None:
        """Raise BadInput with one line outside the range for which the law was published."""
        return None


class ShadowField(Protocol):
    """A law of place: the shadowing of every base station at every position, the same on every day."""

    def __call__(self, position_m: FloatArray) -> FloatArray:
        """Shadowing in dB (n, n_bs) at positions (n, 2), NaN where the position is NaN."""
        ...


class Shadowing(Part):
    """Loss by obstacles, around the mean that path loss gives: zero on average, added in dB."""

    kind: str

    @property
    def nlos_factor(self) -> float:
        """Standard deviation without line of sight over that with it."""
        return 1.0

    def under(self, law: PathLoss) -> Self:
        """The same beside a path loss law: deviations that are not stated are those of the law."""
        return self

    def far_factor(self, law: PathLoss) -> float:
        """Deviation in line of sight where the law's `is_far` over that elsewhere, 1 where it is the same."""
        return 1.0

    def deviations(self, far_factor: float) -> list[str]:
        """Standard deviations in words, for the channel card; empty for a law without any.

        far_factor: of the deviation far away over that elsewhere, see `far_factor`.
        """
        return []

    @abstractmethod
    def field(self, area: Area, site: IntArray, rng: Rng) -> ShadowField:
        """The law of one city, drawn once.

        site (n_bs,) numbers the places of the base stations: those at one place have one shadowing, which depends on
        that number only.
        """
