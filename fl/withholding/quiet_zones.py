"""Zones around given places or base stations, the same for all UEs."""

from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.types import Local, Public
from fl.withholding.base import RequestedData
from fl.withholding.zones import Zones
from netsim.errors import BadInput
from netsim.geometry import check_zones
from netsim.part import Coordinates
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray


class QuietZones(Zones):
    """Samples measured near any of the given places, or of the base stations, are never learnt from.

    The places are public. As mix zones, they are where no UE sends while pseudonyms change.

    What the silence gives away: with `drops: update`, that a silent UE may be in one of few known places, which is the
    more, the smaller they are and the more surely a UE speaks elsewhere. With `drops: samples` a UE that stays within
    one all round is silent just the same. Nothing is learnt about the zones themselves: the map has holes there.
    """

    kind: Literal["quiet-zones"] = "quiet-zones"
    centres_m: tuple[Coordinates, ...] = Field(default=(), max_length=10_000)
    """centres of zones, metres east and north"""
    base_stations: bool = False
    """whether there is also a zone around every base station"""

    reference: ClassVar = (
        "Beresford and Stajano, Location Privacy in Pervasive Computing, IEEE Pervasive Computing 2003: mix zones; "
        "circles are assumed"
    )
    example: ClassVar = {"kind": "quiet-zones", "radius_m": 100, "centres_m": [[0, 0]]}
    gives_away: ClassVar = "a UE that is silent may be in one of few known places"

    @model_validator(mode="after")
    def _some_zone(self) -> Self:
        if not self.centres_m and not self.base_stations:
            raise ValueError("quiet-zones: there is no zone; give centres_m, or base_stations: true")
        if len(set(self.centres_m)) < len(self.centres_m):
            raise ValueError("centres_m: a centre stands twice; name each once")
        return self

    def check(self, public: Public) -> None:
        if self.base_stations and public.antennas is None:
            raise BadInput(
                "learning.withholding: quiet-zones around base stations need to know where these are, and a trace with "
                "measurements of its own does not say it; give centres_m instead"
            )
        check_zones(public.area, self.centres_m, self.radius_m, "learning.withholding", self.label)

    def inside(self, samples: Local, asked: RequestedData, rng: Rng) -> BoolArray:
        from scipy.spatial import cKDTree

        if not len(samples.x):
            return np.zeros(0, dtype=np.bool_)
        near = cKDTree(self._centres_m(asked.facts.public)).query_ball_point(
            samples.x, self.radius_m, return_length=True
        )
        return np.asarray(near) > 0

    def _centres_m(self, public: Public) -> FloatArray:
        """Centres (k, 2) of all zones."""
        given = np.array(self.centres_m, dtype=np.float64).reshape(-1, 2)
        if not self.base_stations or public.antennas is None:
            return given
        return np.concatenate([given, np.unique(public.antennas.at_m[:, :2], axis=0)])
