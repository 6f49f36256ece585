"""A zone around the home of every UE."""

from typing import ClassVar, Literal

import numpy as np

from fl.availability.base import HOMES
from fl.types import Local
from fl.withholding.base import RequestedData, of_ues
from fl.withholding.zones import Zones
from netsim.columns import frozen, no_ints, row_id
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray


@frozen
class ZoneCells:
    """link (k,) ascending: the pairs of UE and cell (see `row_id`) that have been seen within the UE's zone."""

    link: IntArray


class HomeZone(Zones):
    """Samples measured near the UE's own home are never learnt from; see `drops` for whole updates.

    The centre of the zone is the home (`exact`), or a place drawn once for each UE, uniform on the circle of radius_m
    around the home (`shifted`): the home is still within, and anywhere in it. A UE without a home has no zone. Homes
    are those of the mobility model; for a replayed trace they are the places where UEs were at night.

    An update leaves through the cell that serves the UE, also near home, and so tells roughly where that is (see the
    attack `home-cells`). With `defer_upload` a UE notes which cells serve it within its zone, at each request of the
    server, and answers only outside of the zone and through another cell. What it measured meanwhile is learnt from
    later, among the earlier records that devices keep.

    What the silence gives away: an exact zone is a hole with the home in its middle, which an attacker that collects
    the places around it can find; a shifted one leaves a side open on which places close to home are learnt from.
    Updates that lack the night, and UEs that send nothing at night (`drops: update`, `defer_upload`), say that the UE
    is at home then; cells through which a UE never sends may be those of its home.
    """

    kind: Literal["home-zone"] = "home-zone"
    centre: Literal["exact", "shifted"] = "shifted"
    """centre of the zone: the home, or a random place from which the home is within the zone"""

    defer_upload: bool = False
    """whether a UE sends only outside of its zone, and while it is served by a cell that has not served it within"""

    reference: ClassVar = (
        "Hassan et al., Analysis of Privacy Protections in Fitness Tracking Social Networks, USENIX Security 2018: "
        "privacy zones around an endpoint, and their shift"
    )
    example: ClassVar = {"kind": "home-zone", "radius_m": 200}
    needs: ClassVar = {**Zones.needs, HOMES: "without them no UE would have a zone"}
    gives_away: ClassVar = (
        "a hole in the places that a UE learns from lies around its home, in the middle if the centre is exact; who is "
        "silent at night is at home"
    )

    @property
    def waits_for_a_cell(self) -> bool:
        return self.defer_upload

    def start(self, n_ue: int) -> ZoneCells:
        return ZoneCells(no_ints())

    def looked(self, asked: RequestedData, state: ZoneCells, rng: Rng) -> ZoneCells:
        seen = np.flatnonzero(self._within(asked, rng) & (asked.serving >= 0))
        return ZoneCells(np.union1d(state.link, row_id(seen, asked.serving[seen])))

    def keep(self, asked: RequestedData, state: ZoneCells, rng: Rng) -> BoolArray:
        outside = super().keep(asked, state, rng)
        if not self.defer_upload:
            return outside
        through = row_id(np.arange(len(asked.serving)), asked.serving)
        return outside & of_ues(~self._within(asked, rng) & ~np.isin(through, state.link), asked.local)

    def _within(self, asked: RequestedData, rng: Rng) -> BoolArray:
        """Whether UEs (n_ue,) are in their zones now."""
        return np.asarray(np.hypot(*(asked.position_m - self.centre_m(asked.home_m, rng)).T) <= self.radius_m)

    def inside(self, samples: Local, asked: RequestedData, rng: Rng) -> BoolArray:
        away_m = samples.x - self.centre_m(asked.home_m, rng)[np.repeat(samples.ue, samples.count)]
        return np.asarray(np.hypot(*away_m.T) <= self.radius_m)

    def centre_m(self, home_m: FloatArray, rng: Rng) -> FloatArray:
        """Centres (n_ue, 2) of the zones; NaN for a UE without a home."""
        if self.centre == "exact":
            return home_m
        u = rng.uniform("shift", np.arange(len(home_m)), (2,))
        r_m, angle = self.radius_m * np.sqrt(u[:, 0]), 2 * np.pi * u[:, 1]
        return np.asarray(home_m + r_m[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))
