"""Random terms of the links of UEs inside buildings: shadowing indoors, and effective environment
heights.

Both are numbers of a (site, UE) pair that are computed where they are needed: a city has more rooms
than memory.
"""

from abc import abstractmethod
from collections.abc import Callable
from math import log10, sqrt
from typing import Literal

import numpy as np

from netsim.columns import MAX_STATIONS, frozen
from netsim.part import Fraction, Part
from netsim.radio.path_loss import Pairs, PathLoss
from netsim.rng import Rng, ndtri
from netsim.ues import Indoors
from netsim.units import FloatArray, FloatTriple, IntArray

_WORDS = 4  # random numbers of one block of the generator: as many sites share it
_GROUPS = MAX_STATIONS // _WORDS
_NODES = 1 << 20  # of a lattice along one axis, around the origin
_FLOORS = 1 << 12
LATTICE_CORRELATION = 0.9027
"""distance over spacing at which two random points have correlation 1/e in `IndoorShadow`"""
# [TR 38.901, Table 7.4.1-1] h_BS - h_E at h_BS = 25 m and the highest h_E, 21 m
_MIN_EFFECTIVE_M = 4.0


def _draw_for_sites(
    rng: Rng, label: str, owner: IntArray, item: IntArray, site: IntArray
) -> FloatArray:
    """Uniform numbers (n, n_bs): that of site s depends on (seed, owner, item, s) only."""
    groups, column = np.unique(site // _WORDS, return_inverse=True)
    owners = (owner[:, None] * _GROUPS + groups).reshape(-1)
    items = np.repeat(item, len(groups))
    unit = rng.uniform(label, owners, (_WORDS,), item=items).reshape(len(owner), -1)
    return unit.take(column * _WORDS + site % _WORDS, axis=1)


@frozen
class IndoorShadow:
    """Shadowing of UEs inside buildings: one field for each (site, building, floor).

    Buildings and floors are independent, and so are sites but for `site_correlation`.

    Standard normal numbers at the nodes of a square lattice, interpolated bilinearly and divided by
    the standard deviation of the interpolated value, so that every position has exactly `std_db`.
    The spacing is chosen such that two random points at distance `decorrelation_m` have correlation
    1/e; beyond two spacings they are independent.
    """

    std_db: float
    decorrelation_m: float
    site: IntArray
    rng: Rng
    site_correlation: float

    def __call__(self, position_m: FloatArray, indoors: Indoors) -> FloatArray:
        """Shadowing in dB (n, n_bs) of UEs at positions (n, 2), all of them inside."""
        sites, column = np.unique(self.site, return_inverse=True)
        lattice_place = position_m * (LATTICE_CORRELATION / self.decorrelation_m)
        cell = np.floor(np.where(np.isfinite(lattice_place), lattice_place, 0.0)).astype(np.int64)
        x, y = (lattice_place - cell).T
        weight = np.stack([(1 - x) * (1 - y), x * (1 - y), (1 - x) * y, x * y])  # (4, n)
        weight /= np.sqrt((weight**2).sum(axis=0))
        owner = indoors.building * _FLOORS + indoors.floor % _FLOORS
        total = np.zeros((len(lattice_place), len(sites)))
        for k, corner in enumerate(((0, 0), (1, 0), (0, 1), (1, 1))):
            node = (cell + corner + _NODES // 2) % _NODES
            item = node[:, 0] * _NODES + node[:, 1]
            value = ndtri(_draw_for_sites(self.rng, "indoors", owner, item, sites))
            if self.site_correlation:
                value *= sqrt(1.0 - self.site_correlation)
                common = self.rng.normal("indoors.common", owner, item=item)
                value += sqrt(self.site_correlation) * common[:, None]
            total += weight[k, :, None] * value
        return self.std_db * total.take(column, axis=1)


@frozen
class Environment:
    """Effective environment heights h_E of the links of UEs indoors above
    `PathLoss.environment_above_m`.

    Drawn for each (UE, stay, site); 1 m for UEs below and for UEs outdoors.

    Departs from the source for base stations below 25 m: h_E is at most 4 m below the antenna,
    which is what the table gives at its own 25 m. Else the breakpoint distance would fall to 0.
    """

    path_loss: PathLoss
    site: IntArray
    rng: Rng

    def __call__(self, pairs: Pairs, indoors: Indoors) -> FloatArray | None:
        """h_E (n, n_bs) in m; None where it is 1 m on all links."""
        height_m = pairs.ue_height_m
        if not isinstance(height_m, np.ndarray):
            return None
        is_high = height_m[:, 0] > self.path_loss.environment_above_m
        rows = np.flatnonzero(indoors.inside & is_high)
        if not rows.size:
            return None
        stay = indoors.stay[rows]
        unit = _draw_for_sites(self.rng, "environment", indoors.ue[rows], stay, self.site)
        environment_m = np.ones(pairs.distance_2d_m.shape)
        drawn_m = self.path_loss.environment_m(pairs.distance_2d_m[rows], height_m[rows], unit)
        environment_m[rows] = np.minimum(
            drawn_m, np.maximum(pairs.bs_height_m - _MIN_EFFECTIVE_M, 1.0)
        )
        return environment_m


PenetrationLaw = Callable[[Indoors], FloatArray]
"""indoors -> loss in dB (n,), 0 for a UE out of doors."""

_INSIDE_DB_M = 0.5  # [TR 38.901, Section 7.4.3.1] PL_in = 0.5 d_2D-in
_HIGH_SHARE = 0.5  # [TR 38.901, Table 7.8-1]
_LOW_STD_DB = 4.4  # [TR 38.901, Table 7.4.3-2] sigma_P
_HIGH_STD_DB = 6.5  # [TR 38.901, Table 7.4.3-2] sigma_P
_VEHICLE_DB = {"standard": 9.0, "metallised": 20.0}  # [TR 38.901, Section 7.4.3.2]
_VEHICLE_STD_DB = 5.0


def compute_wall_loss_db(carrier_hz: float, high: bool) -> float:
    r"""PL_tw in dB [TR 38.901, Table 7.4.3-2]::

    low   5 - 10 log10(0.3 10^(-L_glass / 10) + 0.7 10^(-L_concrete / 10))
    high  5 - 10 log10(0.7 10^(-L_IRR / 10) + 0.3 10^(-L_concrete / 10))
    """
    f = carrier_hz / 1e9
    concrete_db = 5.0 + 4.0 * f
    glass_db = 23.0 + 0.3 * f if high else 2.0 + 0.2 * f
    share = 0.7 if high else 0.3
    through = share * 10 ** (-glass_db / 10) + (1.0 - share) * 10 ** (-concrete_db / 10)
    return 5.0 - 10.0 * log10(through)


class Penetration(Part):
    """Loss through walls and car bodies, the same for all base stations."""

    kind: str = ""

    @abstractmethod
    def build_law(self, path_loss: PathLoss, carrier_hz: float, rng: Rng) -> PenetrationLaw:
        """The loss of UEs in the buildings and vehicles of one world."""

    def list_walls(
        self, path_loss: PathLoss, carrier_hz: float, depth_m: float
    ) -> list[FloatTriple]:
        """Kinds of buildings: share, mean loss and its standard deviation in dB so far from the
        facade.
        """
        return [(1.0, 0.0, 0.0)]


class NoPenetration(Penetration, kind="none"):
    """No penetration loss: a UE inside is received as one in front of the facade, at the height of
    its floor.
    """

    reference = "netsim: path loss alone"

    def build_law(self, path_loss: PathLoss, carrier_hz: float, rng: Rng) -> PenetrationLaw:
        return lambda indoors: np.zeros(len(indoors))


class Tr38901Penetration(Penetration, kind="tr38901"):
    r"""Outdoor-to-indoor and outdoor-to-car loss of 3GPP, constant during a stay::

        building   PL_tw + 0.5 d_2D-in + N(0, sigma_P^2),   sigma_P = 4.4 dB (low loss) or 6.5 dB
        (high loss)
        vehicle    N(9 dB, (5 dB)^2), metallised windows N(20 dB, (5 dB)^2)

    PL_tw is `compute_wall_loss_db`; low or high loss belongs to the building. The normal term is
    drawn for each (UE, stay). The loss of vehicles was published for 0.6 to 60 GHz.
    """

    high_loss_share: Fraction | None = None
    """share of buildings with high loss (metallised glass); none: 0.5, and 0 for rma, which was
    published without"""
    vehicle: Literal["standard", "metallised"] = "standard"
    """windows of vehicles"""
    reference = "3GPP TR 38.901 V17.0.0, Sections 7.4.3.1 and 7.4.3.2"

    def list_walls(
        self, path_loss: PathLoss, carrier_hz: float, depth_m: float
    ) -> list[FloatTriple]:
        share = self._get_high_loss_share(path_loss)
        inside_db = _INSIDE_DB_M * depth_m
        kinds = ((1.0 - share, False, _LOW_STD_DB), (share, True, _HIGH_STD_DB))
        return [
            (part, compute_wall_loss_db(carrier_hz, high) + inside_db, std_db)
            for part, high, std_db in kinds
        ]

    def _get_high_loss_share(self, path_loss: PathLoss) -> float:
        usual = _HIGH_SHARE if path_loss.has_high_loss_buildings else 0.0
        if self.high_loss_share is None:
            return usual
        return self.high_loss_share

    def build_law(self, path_loss: PathLoss, carrier_hz: float, rng: Rng) -> PenetrationLaw:
        share = self._get_high_loss_share(path_loss)
        low_db, high_db = (compute_wall_loss_db(carrier_hz, high) for high in (False, True))

        def draw_loss_db(indoors: Indoors) -> FloatArray:
            loss_db = np.zeros(len(indoors))
            rows = np.flatnonzero(indoors.inside)
            if rows.size:
                inside = indoors.select(rows)
                high = rng.uniform("wall", inside.building) < share
                std_db = np.where(high, _HIGH_STD_DB, _LOW_STD_DB)
                spread_db = std_db * rng.normal("building", inside.ue, item=inside.stay)
                wall_db = np.where(high, high_db, low_db)
                loss_db[rows] = wall_db + _INSIDE_DB_M * inside.depth_m + spread_db
            rows = np.flatnonzero(indoors.in_vehicle & ~indoors.inside)
            if rows.size:
                riders = indoors.select(rows)
                spread_db = _VEHICLE_STD_DB * rng.normal("vehicle", riders.ue, item=riders.stay)
                loss_db[rows] = _VEHICLE_DB[self.vehicle] + spread_db
            return loss_db

        return draw_loss_db
