"""The radio slots that are functions of position: path loss and shadowing."""

from abc import abstractmethod
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Protocol, Self

from netsim.geometry import Area
from netsim.indoors import Indoors
from netsim.part import Part
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

MIN_DISTANCE_M = 1.0
"""distance, nearer than which laws in closed form keep the loss"""


@dataclass(frozen=True, eq=False)
class Pairs:
    """The geometry of all links: distance_2d_m, distance_3d_m (n, n_bs), ue_height_m, bs_height_m (n_bs,).

    ue_height_m is one height for all UEs, or (n, 1).
    los (n, n_bs) says which links are in line of sight; None while it is not yet computed.
    distance_out_m (n, n_bs) is d_2D-out, the horizontal distance up to the facade; None where all UEs are outdoors.
    environment_m (n, n_bs) is the effective environment height h_E; None: 1 m on all links.
    indoors : indoor state, one row a UE; None where all are outdoors.
    """

    distance_2d_m: FloatArray
    distance_3d_m: FloatArray
    ue_height_m: float | FloatArray
    bs_height_m: FloatArray
    los: BoolArray | None = None
    distance_out_m: FloatArray | None = None
    environment_m: FloatArray | None = None
    indoors: Indoors | None = None

    @property
    def outdoor_m(self) -> FloatArray:
        """Horizontal distance out of doors (n, n_bs)."""
        return self.distance_2d_m if self.distance_out_m is None else self.distance_out_m


class PathLoss(Part):
    """Mean loss as a function of distance. `needs_sight`: the loss differs with and without line of sight."""

    kind: str
    needs_sight: ClassVar[bool] = False
    max_distance_m: ClassVar[float] = inf
    """distance up to which the published law is valid"""
    std_db: ClassVar[tuple[float, float] | None] = None
    """published standard deviations of shadowing with and without line of sight; None if there are none"""
    far_std_db: ClassVar[float | None] = None
    """standard deviation in line of sight where `is_far`, for a law with another deviation there"""
    decorrelation_m: ClassVar[float] = 50.0
    """decorrelation distance of shadowing in line of sight, for a law with `std_db`"""
    nlos_decorrelation_m: ClassVar[float | None] = None
    """decorrelation distance of shadowing without line of sight; None: that in line of sight, one field for both"""
    indoor_shadowing: ClassVar[tuple[float, float] | None] = None
    """standard deviation in dB and decorrelation distance in m of shadowing inside buildings; None if there are none"""
    has_high_loss_buildings: ClassVar[bool] = True
    """whether the law was published for buildings of high penetration loss too"""
    ue_heights_m: ClassVar[tuple[float, float]] = (0.0, inf)
    """heights of UEs that the law was published for; those of UEs on floors are clipped to them"""
    environment_above_m: ClassVar[float] = inf
    """height of a UE above which the effective environment height is random"""
    indoor_depth_m: ClassVar[float] = 25.0
    """largest distance of a UE indoors from the facade, m, where none is given [TR 38.901, Section 7.4.3.1]"""
    sight_decorrelation_m: ClassVar[float] = 50.0
    """decorrelation distance of the line-of-sight state, for a law that offers `probability of sight`"""

    @abstractmethod
    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        """Loss in dB (n, n_bs), positive for attenuation."""

    def los_probability(self, pairs: Pairs) -> FloatArray:
        """Probability of line of sight (n, n_bs), for a law that offers `probability of sight`."""
        raise NotImplementedError(self.kind)

    def environment_m(self, distance_2d_m: FloatArray, ue_height_m: FloatArray, unit: FloatArray) -> FloatArray:
        """Effective environment height (n, n_bs) of UEs of height (n, 1) above `environment_above_m`.

        unit (n, n_bs) : uniform numbers in (0, 1).
        """
        raise NotImplementedError(self.kind)

    def is_far(self, pairs: Pairs, carrier_hz: float) -> BoolArray:
        """Links (n, n_bs) to which `far_std_db` belongs, for a law that has one."""
        raise NotImplementedError(self.kind)

    def check(self, carrier_hz: float, ue_height_m: float, bs_height_m: FloatArray) -> None:
        """Raises BadInput outside the published range of validity."""
        return None


class ShadowField(Protocol):
    """Shadowing of every base station as a function of position, constant in time."""

    def __call__(self, position_m: FloatArray) -> FloatArray:
        """Shadowing in dB (n, n_bs) at positions (n, 2), NaN where the position is NaN."""
        ...


class IndoorField(Protocol):
    """Shadowing of every base station inside buildings, constant in time."""

    def __call__(self, position_m: FloatArray, indoors: Indoors) -> FloatArray:
        """Shadowing in dB (n, n_bs) of UEs at positions (n, 2), all of them inside."""
        ...


class Shadowing(Part):
    """Loss by obstacles around the mean path loss, in dB, with mean zero."""

    kind: str

    @property
    def nlos_factor(self) -> float:
        """Ratio of the standard deviations without and with line of sight."""
        return 1.0

    def under(self, law: PathLoss) -> Self:
        """A copy for a path loss law: deviations that are not set are those of the law."""
        return self

    def far_factor(self, law: PathLoss) -> float:
        """Ratio of the deviations in line of sight where the law's `is_far` and elsewhere, 1 if they are equal."""
        return 1.0

    def deviations(self, far_factor: float) -> list[str]:
        """Standard deviations in words, for the channel card; empty if there are none.

        far_factor: see the method `far_factor`.
        """
        return []

    @abstractmethod
    def field(self, area: Area, site: IntArray, rng: Rng) -> ShadowField:
        """The shadowing of one city, drawn once.

        site (n_bs,) is the index of the site of each base station: base stations of one site share their shadowing,
        which depends on that index only.
        """

    def nlos_field(self, area: Area, site: IntArray, rng: Rng) -> ShadowField | None:
        """A separate field for links without line of sight; None: `field` times `nlos_factor`."""
        return None

    def indoor_field(self, site: IntArray, rng: Rng) -> IndoorField | None:
        """A separate field for UEs inside buildings; None: as outside."""
        return None
