"""Names that change where no UE sends."""

from dataclasses import replace
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.pseudonyms.base import Pseudonyms, SeenSamples
from fl.types import Public, State
from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.geometry import check_zones
from netsim.part import Coordinates
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray


@frozen
class ZonePasses:
    """Windows in which each UE (n_ue,) was in a zone, and when it was last seen in one (-inf: never)."""

    times: IntArray
    last_s: FloatArray


class MixZones(Pseudonyms):
    """A new name whenever a UE comes out of a zone: a circle in which it sends nothing.

    A UE that leaves may be any that was inside. It is in a zone if it is there when the server asks; it has passed one
    also if it took a measurement there since the server asked last. What it measured there is not left out.
    """

    kind: Literal["mix-zones"] = "mix-zones"
    looks: ClassVar = True
    radius_m: float = Field(gt=0, le=1e6)
    """radius of every zone, m"""
    centres_m: tuple[Coordinates, ...] | None = Field(default=None, min_length=1, max_length=10_000)
    """centres of the zones, metres east and north; none: the base stations"""

    reference: ClassVar = "Beresford and Stajano, Location Privacy in Pervasive Computing, 2003"
    example: ClassVar = {"kind": "mix-zones", "radius_m": 50}

    @model_validator(mode="after")
    def _once(self) -> Self:
        if self.centres_m is not None and len(set(self.centres_m)) < len(self.centres_m):
            raise ValueError("centres_m: a centre stands twice; name each once")
        return self

    def check(self, public: Public) -> None:
        if self.centres_m is None and public.antennas is None:
            raise BadInput(
                "learning.threat.pseudonyms: mix-zones around base stations need their places, which are not known "
                "here (a trace brings cells without places); give centres_m"
            )
        check_zones(public.area, self.centres_m or (), self.radius_m, "learning.threat.pseudonyms", self.kind)

    def start(self, n_ue: int) -> ZonePasses:
        return ZonePasses(np.zeros(n_ue, dtype=np.int64), np.full(n_ue, -np.inf))

    def silent(self, position_m: FloatArray, public: Public) -> BoolArray:
        inside = np.zeros(len(position_m), dtype=np.bool_)
        for centre_m in self._centres_m(public):  # NaN is nowhere inside
            inside |= ((position_m - centre_m) ** 2).sum(axis=1) <= self.radius_m**2
        return inside

    def looked(self, seen: SeenSamples, public: Public, state: ZonePasses) -> ZonePasses:
        inside = self.silent(seen.place_m, public)
        ue = seen.ue[inside]
        last_s, times = state.last_s.copy(), state.times.copy()
        np.maximum.at(last_s, ue, seen.time_s[inside])
        times[np.unique(ue)] += 1
        return replace(state, times=times, last_s=last_s)

    def period(self, ue: IntArray, asked_s: FloatArray, round_: int, state: State, rng: Rng) -> IntArray:
        # an update that was asked for before the zone, and merged after it, still has the name from before
        return np.asarray(state.times[ue] - (asked_s < state.last_s[ue]))

    def _centres_m(self, public: Public) -> FloatArray:
        """Centres of the zones (k, 2); base stations at one place make one zone."""
        if self.centres_m is not None:
            return np.array(self.centres_m, dtype=np.float64)
        if public.antennas is None:
            raise TypeError("mix-zones: no base stations are known")
        return np.unique(public.antennas.at_m[:, :2], axis=0)
