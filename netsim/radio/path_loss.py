r"""The path loss slot: laws in closed form, and those of 3GPP TR 38.901 V17.0.0, Tables 7.4.1-1 and
7.4.2-1.

Of the latter: distances in m, carrier f_c in GHz inside the formulas. The tables hold from d_2D =
10 m; nearer links take the loss at 10 m. NLOS is max(PL_LOS, PL'_NLOS). Beyond the largest
tabulated distance the formulas are extrapolated. Heights of UEs on the floors of buildings are
clipped to the tabulated range; the distance d_3D has the true height.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf, log10, pi
from typing import ClassVar, NamedTuple, Self

import numpy as np
from pydantic import Field

from netsim.columns import frozen
from netsim.compiled import compiled
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.notice import Built, Notices, notice
from netsim.part import Part
from netsim.ues import Indoors
from netsim.units import (
    SPEED_OF_LIGHT_M_S,
    BoolArray,
    FloatArray,
    FloatPair,
    FloatQuadruple,
    FloatTriple,
)

MIN_DISTANCE_M = 1.0
"""distance, nearer than which laws in closed form keep the loss"""


@frozen
class Pairs:
    """The geometry of all links: distance_2d_m, distance_3d_m (n, n_bs), ue_height_m, bs_height_m
    (n_bs,).

    ue_height_m is one height for all UEs, or (n, 1). los (n, n_bs) says which links are in line of
    sight; None while it is not yet computed. distance_out_m (n, n_bs) is d_2D-out, the horizontal
    distance up to the facade; None where all UEs are outdoors. environment_m (n, n_bs) is the
    effective environment height h_E; None: 1 m on all links. indoors : indoor state, one row a UE;
    None where all are outdoors. position_m (n, 2) : places of the UEs, for laws of place.
    offset_m (n, n_bs, 2) : east and north from the base station; None where no antenna asks.
    """

    distance_2d_m: FloatArray
    distance_3d_m: FloatArray
    ue_height_m: float | FloatArray
    bs_height_m: FloatArray
    los: BoolArray | None = None
    distance_out_m: FloatArray | None = None
    environment_m: FloatArray | None = None
    indoors: Indoors | None = None
    position_m: FloatArray | None = None
    offset_m: FloatArray | None = None

    @property
    def clamped_distance_m(self) -> FloatArray:
        """distance_3d_m, at least `MIN_DISTANCE_M` (n, n_bs)."""
        return np.maximum(self.distance_3d_m, MIN_DISTANCE_M)

    @property
    def outdoor_distance_m(self) -> FloatArray:
        """Horizontal distance out of doors (n, n_bs)."""
        if self.distance_out_m is None:
            return self.distance_2d_m
        return self.distance_out_m

    def select(self, rows: BoolArray) -> Self:
        """Some rows, as far as `is_far` needs them."""
        height_m = self.ue_height_m
        return replace(
            self,
            distance_2d_m=self.distance_2d_m[rows],
            distance_3d_m=self.distance_3d_m[rows],
            ue_height_m=height_m[rows] if isinstance(height_m, np.ndarray) else height_m,
            los=None if self.los is None else self.los[rows],
        )


LossLaw = Callable[[Pairs], FloatArray]
"""pairs -> loss in dB (n, n_bs)."""


class PathLoss(Part):
    """Mean loss as a function of distance. `needs_sight`: the loss differs with and without line of
    sight.
    """

    kind: str = ""
    needs_sight: ClassVar[bool] = False
    max_distance_m: ClassVar[float] = inf
    """distance up to which the published law is valid"""
    std_db: ClassVar[FloatPair | None] = None
    """published standard deviations of shadowing with and without line of sight; None if there are
    none"""
    far_std_db: ClassVar[float | None] = None
    """standard deviation in line of sight where `is_far`, for a law with another deviation there"""
    decorrelation_m: ClassVar[float] = 50.0
    """decorrelation distance of shadowing in line of sight, for a law with `std_db`"""
    nlos_decorrelation_m: ClassVar[float | None] = None
    """decorrelation distance of shadowing without line of sight; None: that in line of sight, one
    field for both"""
    indoor_shadowing: ClassVar[FloatPair | None] = None
    """standard deviation in dB and decorrelation distance in m of shadowing inside buildings; None
    if there are none"""
    has_high_loss_buildings: ClassVar[bool] = True
    """whether the law was published for buildings of high penetration loss too"""
    ue_heights_m: ClassVar[FloatPair] = (0.0, inf)
    """heights of UEs that the law was published for; those of UEs on floors are clipped to them"""
    environment_above_m: ClassVar[float] = inf
    """height of a UE above which the effective environment height is random"""
    indoor_depth_m: ClassVar[float] = 25.0
    """largest distance of a UE indoors from the facade, m, where none is given [TR 38.901, Section
    7.4.3.1]"""
    sight_decorrelation_m: ClassVar[float] = 50.0
    """decorrelation distance of the line-of-sight state, for a law that offers `probability of
    sight`"""
    has_obstacles: ClassVar[bool] = False
    """whether its losses are those of places behind the obstacles and walls of one city, known for
    its cells only"""
    has_antennas: ClassVar[bool] = False
    """whether the gains of the base stations' antennas are in it"""

    def build_law(
        self, cells: Sequence[str], area: Area, ue_height_m: float, carrier_hz: float
    ) -> LossLaw:
        """The loss to the base stations of these names; raises BadInput where none is known."""
        return lambda pairs: self.loss_db(pairs, carrier_hz)

    @abstractmethod
    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        """Loss in dB (n, n_bs), positive for attenuation."""

    def los_probability(self, pairs: Pairs) -> FloatArray:
        """Probability of line of sight (n, n_bs), for a law that offers `probability of sight`."""
        raise NotImplementedError(self.kind)

    def environment_m(
        self, distance_2d_m: FloatArray, ue_height_m: FloatArray, unit: FloatArray
    ) -> FloatArray:
        """Effective environment height (n, n_bs) of UEs of height (n, 1) above
        `environment_above_m`.

        unit (n, n_bs) : uniform numbers in (0, 1).
        """
        raise NotImplementedError(self.kind)

    def is_far(self, pairs: Pairs, carrier_hz: float) -> BoolArray:
        """Links (n, n_bs) to which `far_std_db` belongs, for a law that has one."""
        raise NotImplementedError(self.kind)

    def check(
        self, carrier_hz: float, ue_height_m: float, bs_heights_m: Mapping[str, float]
    ) -> None:
        """Raises BadInput outside the published range of validity; bs_heights_m : by the name of
        the base station.
        """

    def notices(self, built: Built) -> Notices:
        """Whether UEs are on floors above the heights that the law was published for."""
        max_m = self.ue_heights_m[1]
        if built.floor_m is not None and built.floor_m > max_m:
            yield notice(
                "path-loss-too-high", law=self.kind_name(), highest_m=max_m, floor_m=built.floor_m
            )


_GAINS_DB = 5.0  # of the antennas of base station and UE together


def compute_free_space_db(distance_m: FloatArray, carrier_hz: float) -> FloatArray:
    """20 log10(4 pi f d / c) [Friis 1946]."""
    return 20.0 * np.log10(4.0 * pi * carrier_hz * distance_m / SPEED_OF_LIGHT_M_S)


class FreeSpace(PathLoss, kind="free-space"):
    """Free-space loss 20 log10(4 pi f d / c) with isotropic antennas; d is the 3D distance."""

    reference = "Friis, 'A note on a simple transmission formula', Proc. IRE 34(5), 1946"

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        return compute_free_space_db(pairs.clamped_distance_m, carrier_hz)


class PowerLaw(PathLoss, kind="power-law"):
    """Free-space gain with another exponent: gain = G (c / (4 pi f d))^P, linear.

    P = 2 is free space. The antenna gain G = 5 dB is part of the law, as in its source.
    """

    reference = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eq. 39"

    exponent: float = Field(3.76, gt=0, le=20)
    """exponent P"""

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        return (
            self.exponent / 2.0 * compute_free_space_db(pairs.clamped_distance_m, carrier_hz)
            - _GAINS_DB
        )


class LosNlos(PathLoss, kind="los-nlos"):
    """Gain in dB: -22 log10(d) - 28 in line of sight, -36 log10(d) - 22 without; d is the 3D
    distance in m.
    """

    reference = (
        "Geometry-Aligned Differential Privacy for Federated Radio Map Construction, Section V"
    )
    needs_sight = True

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        decades = np.log10(pairs.clamped_distance_m)
        los_db = -22.0 * decades - 28.0
        if pairs.los is None:
            return -los_db
        return -np.where(pairs.los, los_db, -36.0 * decades - 22.0)


class LogDistance(PathLoss, kind="log-distance"):
    r"""Log-distance path loss: the loss grows by 10 n dB per decade of distance::

        PL(d) = PL(d_ref) + 10 n log10(max(d, 1 m) / d_ref)

    where d is the 3D distance in m and n the exponent. The carrier enters through
    `reference_loss_db` only, so `carrier_hz` is not used.
    """

    reference = "Rappaport, 'Wireless Communications', 2nd ed., 2002, Eq. 4.68"

    exponent: float = Field(3.5, gt=0, le=20)
    """path loss exponent n: 2 in free space, 3 to 4 in cities"""
    reference_m: float = Field(10.0, ge=1e-3, le=1e6)
    """distance of the reference loss, m"""
    reference_loss_db: float = Field(50.0, ge=-300, le=500)
    """loss at the reference distance, dB"""

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        """Loss in dB, shape (n_ue, n_bs)."""
        decades = np.log10(pairs.clamped_distance_m / self.reference_m)
        return self.reference_loss_db + 10.0 * self.exponent * decades


_LIGHT_M_S = 3.0e8  # [TR 38.901, Table 7.4.1-1, Note 1] c as the breakpoints have it
FLAT_M = 1.0  # [TR 38.901, Table 7.4.1-1, Note 1] the usual effective environment height h_E
_STREET_WIDTH_M = 20.0  # [TR 38.901, Table 7.4.1-1] W of RMa where none is given
MIN_2D_M = 10.0  # [TR 38.901, Table 7.4.1-1] where the formulas begin


class _Tr38901Scenario(PathLoss):
    """Common base of the three scenarios: line-of-sight states, smallest distance, ranges of
    validity.
    """

    needs_sight = True
    offers = frozenset({"probability of sight"})
    carrier_ghz: ClassVar = (0.5, 100.0)
    ue_heights_m = (1.5, 22.5)
    bs_heights_m: ClassVar = (0.0, 0.0)
    max_distance_m = 5000.0
    indoor_shadowing = (7.0, 7.0)  # [Table 7.5-6] O2I

    def check(
        self, carrier_hz: float, ue_height_m: float, bs_heights_m: Mapping[str, float]
    ) -> None:
        remedy = "set height_m, or take another law"
        checks = [
            ("carriers of", self.carrier_ghz, " GHz", carrier_hz / 1e9, " GHz; set carrier_hz"),
            ("UE heights of", self.ue_heights_m, " m", ue_height_m, " m; set ues.height_m"),
        ]
        for station, height_m in bs_heights_m.items():
            rest = f" m of {station}; {remedy}"
            checks.append(("base stations", self.bs_heights_m, " m high", height_m, rest))
        for what, (low, high), unit, value, rest in checks:
            if not low <= value <= high:
                raise BadInput(
                    f"radio.path_loss: {self.kind_name()} holds for {what} {low:g} to {high:g}"
                    f"{unit}, got {value:g}{rest}"
                )

    @staticmethod
    def _compute_min_distance_m(pairs: Pairs) -> FloatArray:
        """The distance in space (1 or n, n_bs) of a link at MIN_2D_M."""
        rise = pairs.bs_height_m - pairs.ue_height_m
        return np.atleast_2d(np.sqrt(MIN_2D_M**2 + rise * rise))

    def _clip_height_m(self, pairs: Pairs) -> float | FloatArray:
        """Heights of the UEs within the range of the table, one or (n, 1)."""
        return np.clip(pairs.ue_height_m, *self.ue_heights_m)


class _Urban(_Tr38901Scenario):
    """Common base of the scenarios in cities, whose formulas differ in numbers only."""

    slopes_db: ClassVar[FloatTriple]
    """of PL1: its first and its slope; factor of the logarithm of breakpoint and heights in PL2
    [Table 7.4.1-1]"""
    hidden_db: ClassVar[FloatQuadruple]
    """of PL'_NLOS: first, slope, factor of log10 of the carrier, fall a metre of UE height [Table
    7.4.1-1]"""

    def build_law(
        self, cells: Sequence[str], area: Area, ue_height_m: float, carrier_hz: float
    ) -> LossLaw:
        kept: list[_Slopes] = []

        def compute_loss_db(pairs: Pairs) -> FloatArray:
            if isinstance(pairs.ue_height_m, np.ndarray):
                return self.loss_db(pairs, carrier_hz)
            if not kept:  # all UEs at one height: the same in every tick
                kept.append(self._compute_slopes(pairs, carrier_hz))
            return _compute_sloped_db(pairs, kept[0])

        return compute_loss_db

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        """PL1 = first + near log10 d + 20 log10 f up to the breakpoint, PL2 with slope 40 beyond
        it, or PL'_NLOS.

        d'_BP = 4 h'_BS h'_UT f / c with effective heights h' = h - h_E. The larger of PL1 and PL2
        is PL2 exactly beyond the breakpoint, where they meet.
        """
        return _compute_sloped_db(pairs, self._compute_slopes(pairs, carrier_hz))

    def _compute_slopes(self, pairs: Pairs, carrier_hz: float) -> "_Slopes":
        height_m = self._clip_height_m(pairs)
        carrier = log10(carrier_hz / 1e9)
        first, near, last = self.slopes_db
        hidden_first, hidden, by_carrier, by_height = self.hidden_db
        environment_m = FLAT_M if pairs.environment_m is None else pairs.environment_m
        effective_m2 = (pairs.bs_height_m - environment_m) * (height_m - environment_m)
        breakpoint_m = 4.0 * effective_m2 * carrier_hz / _LIGHT_M_S
        rise_m = pairs.bs_height_m - height_m
        beyond_db = np.atleast_2d(last * np.log10(breakpoint_m**2 + rise_m**2))
        fixed_db = hidden_first + by_carrier * carrier - by_height * (height_m - 1.5)
        return _Slopes(
            self._compute_min_distance_m(pairs),
            first + 20.0 * carrier,
            near,
            beyond_db,
            fixed_db + np.zeros_like(beyond_db),
            hidden,
        )


class _Slopes(NamedTuple):
    """A loss of `_Urban` in numbers: first_db + max(near_db log10 d, 40 log10 d - beyond_db) in
    sight, else at least hidden_first_db + hidden_db log10 d; min_m, beyond_db, hidden_first_db (1
    or n, n_bs).
    """

    min_m: FloatArray
    first_db: float
    near_db: float
    beyond_db: FloatArray
    hidden_first_db: FloatArray
    hidden_db: float


def _compute_sloped_db(pairs: Pairs, slopes: _Slopes) -> FloatArray:
    loss_db = np.maximum(pairs.distance_3d_m, slopes.min_m)
    np.log10(loss_db, out=loss_db)
    los = np.zeros(loss_db.shape, bool) if pairs.los is None else pairs.los
    _join_slopes(loss_db, los, *slopes[1:])
    return loss_db


@compiled
def _join_slopes(
    decades: FloatArray,
    los: BoolArray,
    first_db: float,
    near_db: float,
    beyond_db: FloatArray,
    hidden_first_db: FloatArray,
    hidden_db: float,
) -> None:
    """Put the loss (n, n_bs) in place of log10 d; the rest as in `_Slopes`."""
    for i in range(len(decades)):
        row = min(i, len(beyond_db) - 1)
        for b in range(decades.shape[1]):
            d = decades[i, b]
            seen = first_db + max(near_db * d, 40.0 * d - beyond_db[row, b])
            hidden = hidden_db * d + hidden_first_db[row, b]
            decades[i, b] = seen if los[i, b] else max(seen, hidden)


def compute_urban_sight(distance_m: FloatArray, decay_m: float) -> FloatArray:
    """18 / d + exp(-d / decay) (1 - 18 / d), and 1 up to 18 m: probability of sight of UMa and
    UMi.
    """
    probability = np.ascontiguousarray(distance_m / -decay_m)
    np.exp(probability, out=probability)  # in place: new arrays are what a tick spends time on
    _raise_near(distance_m.reshape(-1), probability.reshape(-1))
    return probability


@compiled
def _raise_near(distance_m: FloatArray, probability: FloatArray) -> None:
    """Put the probability of sight (n,) in place of its fall exp(-d / decay)."""
    for k in range(len(distance_m)):
        share = 18.0 / max(distance_m[k], 18.0)
        probability[k] = probability[k] * (1.0 - share) + share


class UrbanMacro(_Urban, kind="uma"):
    """3GPP TR 38.901 UMa: base stations above the roofs, 25 m."""

    reference = "3GPP TR 38.901 V17.0.0, Tables 7.4.1-1 and 7.4.2-1 (UMa)"
    bs_heights_m = (20.0, 30.0)
    slopes_db = (28.0, 22.0, 9.0)
    hidden_db = (13.54, 39.08, 20.0, 0.6)
    std_db = (4.0, 6.0)  # [Table 7.4.1-1]
    decorrelation_m = 37.0  # [Table 7.5-6]
    nlos_decorrelation_m = 50.0  # [Table 7.5-6]
    environment_above_m = 13.0

    def los_probability(self, pairs: Pairs) -> FloatArray:
        d = pairs.outdoor_distance_m
        height_m = pairs.ue_height_m
        probability = compute_urban_sight(d, 63.0)
        if isinstance(height_m, np.ndarray):
            rows = np.flatnonzero(height_m[:, 0] > 13.0)
            above = (np.minimum(height_m[rows], 23.0) - 13.0) / 10.0
            probability[rows] = self._compute_high_ue_probability(
                probability[rows], d[rows], above**1.5
            )
        elif height_m > 13.0:
            rise = (min(height_m, 23.0) - 13.0) / 10.0
            probability = self._compute_high_ue_probability(probability, d, rise**1.5)
        return probability

    @staticmethod
    def _compute_high_ue_probability(
        probability: FloatArray, d: FloatArray, c: float | FloatArray
    ) -> FloatArray:
        """The probability of sight of UEs above 13 m, from that of UEs below; c is C' of the
        table.
        """
        distance_factor = (d / 100.0) ** 3
        high = 1.0 + c * 1.25 * distance_factor * np.exp(-d / 150.0)
        return np.where(d <= 18.0, 1.0, np.minimum(probability * high, 1.0))

    def environment_m(
        self, distance_2d_m: FloatArray, ue_height_m: FloatArray, unit: FloatArray
    ) -> FloatArray:
        """h_E: 1 m with probability 1 / (1 + C), else uniform on {12, 15, ..., h_UT - 1.5} [Table
        7.4.1-1, Note 1].
        """
        height_m = np.clip(ue_height_m, *self.ue_heights_m)
        d = distance_2d_m
        above = np.maximum(height_m - 13.0, 0.0) / 10.0
        c = above**1.5 * 1.25 * (d / 100.0) ** 3 * np.exp(-d / 150.0)
        flat = 1.0 / (1.0 + np.where(d <= 18.0, 0.0, c))
        rest = (unit - flat) / np.maximum(1.0 - flat, 1e-12)
        rest = np.clip(rest, 0.0, 1.0)  # uniform where h_E is not 1 m
        steps = np.maximum(np.floor((height_m - 1.5 - 12.0) / 3.0) + 1.0, 1.0)
        step = np.minimum(np.floor(rest * steps), steps - 1.0)
        return np.where(unit < flat, FLAT_M, 12.0 + 3.0 * step)


class UrbanMicro(_Urban, kind="umi"):
    """3GPP TR 38.901 UMi street canyon: base stations below the roofs, 10 m."""

    reference = "3GPP TR 38.901 V17.0.0, Tables 7.4.1-1 and 7.4.2-1 (UMi - Street Canyon)"
    bs_heights_m = (5.0, 20.0)
    slopes_db = (32.4, 21.0, 9.5)
    hidden_db = (22.4, 35.3, 21.3, 0.3)
    std_db = (4.0, 7.82)  # [Table 7.4.1-1]
    decorrelation_m = 10.0  # [Table 7.5-6]
    nlos_decorrelation_m = 13.0  # [Table 7.5-6]

    def los_probability(self, pairs: Pairs) -> FloatArray:
        return compute_urban_sight(pairs.outdoor_distance_m, 36.0)


class RuralMacro(_Tr38901Scenario, kind="rma"):
    """3GPP TR 38.901 RMa: high masts over villages and fields."""

    building_height_m: float = Field(5.0, ge=5, le=50)
    """average height of buildings (h of the table)"""

    reference = "3GPP TR 38.901 V17.0.0, Tables 7.4.1-1 and 7.4.2-1 (RMa)"
    carrier_ghz = (0.5, 30.0)
    ue_heights_m = (1.0, 10.0)
    bs_heights_m = (10.0, 150.0)
    std_db = (4.0, 8.0)  # [Table 7.4.1-1]
    far_std_db = 6.0  # [Table 7.4.1-1] beyond the breakpoint
    decorrelation_m = 37.0  # [Table 7.5-6]
    nlos_decorrelation_m = 120.0  # [Table 7.5-6]
    indoor_shadowing = (8.0, 120.0)  # [Table 7.5-6] O2I
    has_high_loss_buildings = False  # [Section 7.4.3.1]
    indoor_depth_m = 10.0  # [Section 7.4.3.1]
    sight_decorrelation_m = 60.0  # [Table 7.6.3.1-2]

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        distance = np.maximum(pairs.distance_3d_m, self._compute_min_distance_m(pairs))
        decades = np.log10(distance)
        breakpoint_m = self._compute_breakpoint_m(pairs, carrier_hz)
        edge = np.maximum(breakpoint_m, MIN_2D_M)
        edge_decades = np.log10(edge)
        edge_db = self._compute_near_db(edge, edge_decades, carrier_hz / 1e9)
        far = edge_db + 40.0 * (decades - edge_decades)
        near = self._compute_near_db(distance, decades, carrier_hz / 1e9)
        los = np.where(pairs.distance_2d_m <= breakpoint_m, near, far)
        if pairs.los is not None and pairs.los.all():
            return los
        both = np.maximum(los, self._compute_nlos_db(decades, pairs, carrier_hz / 1e9))
        if pairs.los is None:
            return both
        return np.where(pairs.los, los, both)

    def is_far(self, pairs: Pairs, carrier_hz: float) -> BoolArray:
        return pairs.distance_2d_m > self._compute_breakpoint_m(pairs, carrier_hz)

    def _compute_breakpoint_m(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        """d_BP = 2 pi h_BS h_UT f / c, (n_bs,) or (n, n_bs)."""
        return 2.0 * pi * pairs.bs_height_m * self._clip_height_m(pairs) * carrier_hz / _LIGHT_M_S

    def _compute_near_db(
        self, distance: FloatArray, decades: FloatArray, carrier_ghz: float
    ) -> FloatArray:
        h = self.building_height_m
        free_db = 20.0 * np.log10(40.0 * pi * carrier_ghz / 3.0)
        slope = 20.0 + min(0.03 * h**1.72, 10.0)
        fall_db = min(0.044 * h**1.72, 14.77)
        return free_db + slope * decades - fall_db + 0.002 * np.log10(h) * distance

    def _compute_nlos_db(self, decades: FloatArray, pairs: Pairs, carrier_ghz: float) -> FloatArray:
        h = self.building_height_m
        mast = np.log10(pairs.bs_height_m)
        street_db = 161.04 - 7.1 * np.log10(_STREET_WIDTH_M) + 7.5 * np.log10(h)
        mast_db = (24.37 - 3.7 * (h / pairs.bs_height_m) ** 2) * mast
        slope = 43.42 - 3.1 * mast
        ue_db = 3.2 * np.log10(11.75 * self._clip_height_m(pairs)) ** 2 - 4.97
        carrier_db = 20.0 * np.log10(carrier_ghz)
        return street_db - mast_db + slope * (decades - 3.0) + carrier_db - ue_db

    def los_probability(self, pairs: Pairs) -> FloatArray:
        return np.exp(-np.maximum(pairs.outdoor_distance_m - 10.0, 0.0) / 1000.0)
