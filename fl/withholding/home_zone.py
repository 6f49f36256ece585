"""A zone around the home of every UE."""

from typing import Any, ClassVar, Literal

import numpy as np

from fl.availability.base import HOMES
from fl.types import Local
from fl.withholding.base import Asked
from fl.withholding.zones import Zones
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray


class HomeZone(Zones):
    """Samples measured near the UE's own home are never learnt from; see `drops` for whole updates.

    The centre of the zone is the home (`exact`), or a place drawn once for each UE, uniform on the circle of radius_m
    around the home (`shifted`): the home is still within, and anywhere in it. A UE without a home has no zone. Homes
    are those of the mobility model; for a replayed trace they are the places where UEs were at night.

    What the silence gives away: an exact zone is a hole with the home in its middle, which whoever collects the places
    around it can find; a shifted one leaves a side open on which places close to home are learnt from. Updates that
    lack the night, and UEs that send nothing at night (`drops: update`), say that the UE is at home then.
    """

    kind: Literal["home-zone"] = "home-zone"
    centre: Literal["exact", "shifted"] = "shifted"
    """centre of the zone: the home, or a random place from which the home is within the zone"""

    reference: ClassVar[str] = (
        "Hassan et al., Analysis of Privacy Protections in Fitness Tracking Social Networks, USENIX Security 2018: "
        "privacy zones around an endpoint, and their shift"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "home-zone", "radius_m": 200}
    needs: ClassVar[dict[str, str]] = {**Zones.needs, HOMES: "without them no UE would have a zone"}
    gives_away: ClassVar[str] = (
        "a hole in the places that a UE learns from lies around its home, in the middle if the centre is exact; who is "
        "silent at night is at home"
    )

    def inside(self, samples: Local, asked: Asked, rng: Rng) -> BoolArray:
        away_m = samples.x - self.centre_m(asked.home_m, rng)[np.repeat(samples.ue, samples.count)]
        return np.asarray(np.hypot(*away_m.T) <= self.radius_m)

    def centre_m(self, home_m: FloatArray, rng: Rng) -> FloatArray:
        """Centres (n_ue, 2) of the zones; NaN for a UE without a home."""
        if self.centre == "exact":
            return home_m
        u = rng.uniform("shift", np.arange(len(home_m)), (2,))
        r_m, angle = self.radius_m * np.sqrt(u[:, 0]), 2 * np.pi * u[:, 1]
        return np.asarray(home_m + r_m[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))
