"""A zone around the home of every UE, in which nothing is learnt."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.availability import HOMES
from fl.types import Local
from fl.withholding import RequestedData, Withholding, of_ues
from netsim.columns import frozen, no_ints, row_id
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray


@frozen
class ZoneCells:
    """link (k,) ascending: the pairs of UE and cell (see `row_id`) that have been seen within the UE's zone."""

    link: IntArray


class HomeZone(Withholding):
    """Samples measured near the UE's own home are never learnt from, also not in a later round from what devices keep.

    With `drops: update` a UE moreover sends nothing of a round in which it measured anything within its zone, held-out
    measurements included. What it measured elsewhere in that round stays on the device; where devices keep records
    (data `memory`), a later round learns from it.

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
    radius_m: float = Field(gt=0, le=1e6)
    """radius of the zone, m"""
    drops: Literal["samples", "update"] = "samples"
    """what is held back: the samples measured in the zone, or the whole update of a round with any of them"""
    centre: Literal["exact", "shifted"] = "shifted"
    """centre of the zone: the home, or a random place from which the home is within the zone"""

    defer_upload: bool = False
    """whether a UE sends only outside of its zone, and while it is served by a cell that has not served it within"""

    reference: ClassVar = (
        "Hassan et al., Analysis of Privacy Protections in Fitness Tracking Social Networks, USENIX Security 2018: "
        "privacy zones around an endpoint, and their shift"
    )
    example: ClassVar = {"kind": "home-zone", "radius_m": 200}
    by_place: ClassVar = True
    needs: ClassVar = {
        "positions": "it holds back by place; these data have none",
        HOMES: "without them no UE would have a zone",
    }
    gives_away: ClassVar = (
        "a hole in the places that a UE learns from lies around its home, in the middle if the centre is exact; who is "
        "silent at night is at home"
    )

    @property
    def records_alone(self) -> bool:
        return self.drops == "samples"

    @property
    def waits_for_a_cell(self) -> bool:
        return self.defer_upload

    def start(self, n_ue: int) -> ZoneCells:
        return ZoneCells(no_ints())

    def looked(self, asked: RequestedData, state: ZoneCells, rng: Rng) -> ZoneCells:
        seen = np.flatnonzero(self._within(asked, rng) & (asked.serving >= 0))
        return ZoneCells(np.union1d(state.link, row_id(seen, asked.serving[seen])))

    def keep(self, asked: RequestedData, state: ZoneCells, rng: Rng) -> BoolArray:
        kept = ~self.inside(asked.local, asked, rng)
        if self.drops == "update":
            speaks, now = np.ones(len(asked.home_m), dtype=np.bool_), asked.measured
            speaks[np.repeat(now.ue, now.count)[self.inside(now, asked, rng)]] = False
            kept &= of_ues(speaks, asked.local)
        if self.defer_upload:
            through = row_id(np.arange(len(asked.serving)), asked.serving)
            kept &= of_ues(~self._within(asked, rng) & ~np.isin(through, state.link), asked.local)
        return kept

    def _within(self, asked: RequestedData, rng: Rng) -> BoolArray:
        """Whether UEs (n_ue,) are in their zones now."""
        return np.asarray(np.hypot(*(asked.position_m - self.centre_m(asked.home_m, rng)).T) <= self.radius_m)

    def inside(self, samples: Local, asked: RequestedData, rng: Rng) -> BoolArray:
        """Which samples (N,) were measured in the zone of their UE; the same whenever it is asked."""
        away_m = samples.x - self.centre_m(asked.home_m, rng)[np.repeat(samples.ue, samples.count)]
        return np.asarray(np.hypot(*away_m.T) <= self.radius_m)

    def centre_m(self, home_m: FloatArray, rng: Rng) -> FloatArray:
        """Centres (n_ue, 2) of the zones; NaN for a UE without a home."""
        if self.centre == "exact":
            return home_m
        u = rng.uniform("shift", np.arange(len(home_m)), (2,))
        r_m, angle = self.radius_m * np.sqrt(u[:, 0]), 2 * np.pi * u[:, 1]
        return np.asarray(home_m + r_m[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))
