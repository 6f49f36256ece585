"""Base stations at random places."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.base_stations import BaseStation, Layout, Origin, Site
from netsim.city.buildings import Buildings
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.row_id import MAX_STATIONS

_DRAWS = 1000  # of a place above the roofs


class Scattered(Layout):
    """Base stations at independent uniform places of the area, all at one height, as aerial base stations are.

    A place with a roof at or above the antenna is drawn again. Station k depends on (seed, k) and the city only.
    """

    kind: Literal["uniform"] = "uniform"
    count: int = Field(ge=1, le=MAX_STATIONS)
    """number of base stations"""
    height_m: float = Field(default=50.0, ge=0, le=1000)
    """antenna height above ground"""
    power_dbm: float = Field(default=15.0, ge=-30, le=70)
    """reference-signal power per resource element"""

    reference: ClassVar = "Geometry-Aligned Differential Privacy for Federated Radio Map Construction, Section V"
    example: ClassVar = {"kind": "uniform", "count": 4}

    def stations(self, area: Area, origin: Origin | None, site: Site | None = None) -> tuple[BaseStation, ...]:
        site = site or Site(Buildings.none(), Streams(0).at("stations"))
        which, at_m = np.arange(self.count), np.full((self.count, 2), np.nan)
        left = which
        for draw in range(_DRAWS):
            at_m[left] = area.sample(site.rng.uniform("place", left, (2,), item=draw))
            left = left[site.buildings.height_at(at_m[left]) >= self.height_m]
            if not left.size:
                break
        else:
            raise BadInput(
                f"world.base_stations.height_m: {self.height_m:g} m is below the roof at {_DRAWS} random places in a "
                "row; fly higher, or leave room between the buildings"
            )
        return tuple(
            BaseStation(
                name=f"air{k}", position_m=(float(x), float(y)), height_m=self.height_m, power_dbm=self.power_dbm
            )
            for k, (x, y) in enumerate(at_m)
        )
