"""Settings of the world: the section `world:` of a scenario."""

from datetime import date
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from netsim.base_stations import LAYOUTS, BaseStation, Layout
from netsim.city import CITIES
from netsim.city.base import City
from netsim.city.town import Town
from netsim.compute_heterogeneity import COMPUTE_SPREADS, ComputeSpread
from netsim.indoor_share import IndoorShare
from netsim.mobility import MOBILITIES
from netsim.mobility.base import Mobility
from netsim.part import Part
from netsim.radio import FADINGS, PATH_LOSSES, PENETRATIONS, SHADOWINGS, SIGHTS, UPLINKS
from netsim.radio.air_interface import AirInterface
from netsim.radio.base import PathLoss, Shadowing
from netsim.radio.downlink import Downlink
from netsim.radio.fading import Fading, NoFading
from netsim.radio.handover import Handover
from netsim.radio.line_of_sight import AlwaysInSight, Sight
from netsim.radio.log_distance import LogDistance
from netsim.radio.penetration import NoPenetration, Penetration, Tr38901Penetration
from netsim.radio.shadowing import Correlated, NoShadowing
from netsim.radio.uplink import Ideal, Uplink
from netsim.row_id import MAX_STATIONS


class Ues(Part):
    """Settings of the UEs."""

    count: int = Field(default=1, ge=1, le=1_000_000)
    """number of UEs; for a replayed trace the number of its users"""
    mobility: Annotated[Mobility, MOBILITIES]
    """mobility model"""
    measurement_period_s: float | None = Field(default=None, ge=1e-3, le=1e10)
    """time between measurements, s; none: given by the mobility model (a diary, a trace)"""
    height_m: float = Field(default=1.5, ge=0, le=500)
    """antenna height above ground, m"""
    max_power_dbm: float = Field(default=23.0, ge=-60, le=60)
    """largest transmit power, dBm"""
    measure: Literal["serving", "all"] = "serving"
    """cells in a measurement: the serving cell, or all cells"""
    training_s_per_sample: float = Field(default=0.0, ge=0, le=1e3)
    """time of one training pass over one sample, s"""
    compute_heterogeneity: Annotated[ComputeSpread, COMPUTE_SPREADS] | None = None
    """factor of that time, drawn once for each UE; none: 1. It leaves the energy as it is: the work is the same"""
    compute_j_per_sample: float = Field(default=0.0, ge=0, le=1e3)
    """energy of one training pass over one sample, J"""
    indoor: IndoorShare | None = None
    """UEs inside buildings by a draw, in open ground; none: as the mobility model says"""

    renamed: ClassVar = {
        "measure_every_s": "measurement_period_s",
        "compute_s_per_sample": "training_s_per_sample",
        "compute_spread": "compute_heterogeneity",
    }

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        own = self.mobility.has_own_fixes
        if not own and self.measurement_period_s is None:
            raise ValueError(
                f"mobility {self.mobility.kind_name()!r} has no measurement times: give measurement_period_s"
            )
        if own and self.measurement_period_s is not None:
            raise ValueError(
                f"mobility {self.mobility.kind_name()!r} has its own measurement times: leave out measurement_period_s"
            )
        if self.compute_heterogeneity is not None and self.training_s_per_sample == 0:
            raise ValueError(
                "compute_heterogeneity: it multiplies training_s_per_sample, which is 0; give that, or leave it out"
            )
        return self


def _usual_sight(given: dict[str, Any]) -> Sight:
    """The law's own probability of sight where it has one: that is how such a law was published."""
    law = given.get("path_loss")
    if isinstance(law, PathLoss) and "probability of sight" in law.offers:
        from netsim.radio.sight_laws import ByProbability  # here, so that most scenarios do not import it

        return ByProbability(decorrelation_m=law.sight_decorrelation_m)
    return AlwaysInSight()


def _usual_shadowing(given: dict[str, Any]) -> Shadowing:
    """Shadowing with the deviations of the law where it was published with some."""
    law = given.get("path_loss")
    if isinstance(law, PathLoss) and law.std_db is not None:
        return Correlated(
            decorrelation_m=law.decorrelation_m,
            nlos_decorrelation_m=law.nlos_decorrelation_m,
            indoor_decorrelation_m=law.indoor_shadowing[1] if law.indoor_shadowing else None,
        )
    return NoShadowing()


def _usual_penetration(given: dict[str, Any]) -> Penetration:
    """Loss of walls and car bodies beside the laws that were published with it."""
    law = given.get("path_loss")
    return Tr38901Penetration() if isinstance(law, PathLoss) and law.indoor_shadowing else NoPenetration()


class Radio(Part):
    """Settings of the radio."""

    carrier_hz: float = Field(default=2.6e9, ge=1e8, le=1e11)
    """carrier frequency, Hz"""
    path_loss: Annotated[PathLoss, PATH_LOSSES] = LogDistance()
    """path loss model"""
    line_of_sight: Annotated[Sight, SIGHTS] = Field(default_factory=_usual_sight)
    """line-of-sight model; default: the probability of the path loss model (uma, umi, rma), always for others"""
    shadowing: Annotated[Shadowing, SHADOWINGS] = Field(default_factory=_usual_shadowing)
    """shadowing model; default: that of the path loss model (uma, umi, rma), none for others"""
    penetration: Annotated[Penetration, PENETRATIONS] = Field(default_factory=_usual_penetration)
    """penetration loss of UEs in buildings and vehicles; default: tr38901 beside uma, umi and rma, none for others"""
    fading: Annotated[Fading, FADINGS] = NoFading()
    """small-scale fading and antennas of the uplink"""
    measurement_noise_db: float = Field(default=0.0, ge=0, le=30)
    """standard deviation of the error of an RSRP measurement, dB"""
    rsrp_report: Literal["exact", "quantised", "quantised-nr"] = "exact"
    """exact, or whole dB as UEs report: quantised, -140 to -44 dBm, of LTE (3GPP TS 36.133, Table 9.1.4-1), or
    quantised-nr, -156 to -31 dBm, of NR (TS 38.133, Table 10.1.6.1-1)"""
    handover: Handover | None = None
    """handover model; none: the serving cell is always the strongest"""
    downlink: Downlink = Downlink()
    """the downlink: receiver noise, and the rate that an SINR gives"""
    uplink: Annotated[Uplink, UPLINKS] = Ideal()
    """uplink model"""
    dynamic_uplink: AirInterface | None = None
    """transmissions as events that take their time while UEs move; none: planned at the request, with links as then"""

    renamed: ClassVar = {"air": "dynamic_uplink"}

    @property
    def report_dbm(self) -> tuple[float, float] | None:
        """Range of reports in whole dB; None for exact ones."""
        return {"quantised": (-140.0, -44.0), "quantised-nr": (-156.0, -31.0)}.get(self.rsrp_report)

    @model_validator(mode="after")
    def _one_scheduler(self) -> Self:
        if self.dynamic_uplink is not None and self.uplink.groups_ues:
            raise ValueError(
                "dynamic_uplink: with transmissions as events a scheduler makes the groups; leave out group_size of "
                "the uplink, and set dynamic_uplink.scheduler: {kind: groups, size: ...}"
            )
        return self


class WorldSetting(Part):
    """City, base stations, UEs, radio and time."""

    first_day: str = "2026-01-05"
    """calendar date of time 0 (local midnight); for a replayed trace that of the trace"""
    duration_s: float | None = Field(default=None, gt=0, le=1e10)
    """simulated time, s; none: to the end of the replayed trace"""
    tick_s: float = Field(default=60.0, ge=1e-3, le=86_400)
    """time step of mobility, s: all UEs move together once a tick"""
    city: Annotated[City, CITIES] = Town()
    """the city: area, buildings and streets; default: a generated town of 2 km x 2 km"""
    base_stations: tuple[BaseStation, ...] | Annotated[Layout, LAYOUTS] = ()
    """base stations: a list or a layout; empty for a replayed trace with measurements"""
    ues: Ues
    """the UEs"""
    radio: Radio = Field(default_factory=Radio)
    """the radio"""

    @property
    def layout(self) -> Layout | None:
        """The layout that places the base stations; None where they are written out."""
        return None if isinstance(self.base_stations, tuple) else self.base_stations

    @property
    def listed_stations(self) -> tuple[BaseStation, ...]:
        """The base stations that the scenario writes out; empty for a layout."""
        return self.base_stations if isinstance(self.base_stations, tuple) else ()

    @field_validator("first_day")
    @classmethod
    def _date(cls, text: str) -> str:
        try:
            date.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a date like 2026-01-05") from None
        return text

    def _needs_of_the_city(self, place: str, part: Part) -> None:
        for need, reason in part.needs.items():
            if need not in self.city.offers:
                kinds = part.kind_name(), self.city.kind_name()
                raise ValueError(f"{place}: {kinds[0]} needs {need}, which city {kinds[1]} lacks: {reason}")

    def _open_ground(self) -> None:
        """Refuse settings for open ground in a city with buildings."""
        if "open-ground" in self.city.offers:
            return
        city = self.city.kind_name()
        if self.ues.indoor is not None:
            raise ValueError(f"ues.indoor: city {city} has buildings; leave it out, or take city open-field")
        if self.layout is not None and self.layout.shifts_m is not None:
            raise ValueError(
                f"base_stations.wrap_around: the buildings of city {city} do not repeat; take city open-field"
            )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        replayed = self.ues.mobility.kind_name() == "replay"
        if self.duration_s is None and not replayed:
            raise ValueError("give duration_s (only a replayed trace has an end)")
        if not self.base_stations and not replayed:
            raise ValueError("base_stations: give at least one (only a trace that brings RSRP needs none)")
        if replayed and "city" not in self.model_fields_set:
            raise ValueError(
                "city: a replayed trace needs the city in which it was recorded; take open-field or footprints"
            )
        if not replayed and not self.city.has_size:
            raise ValueError("city: give it a size (only a replayed trace brings an area)")
        self._needs_of_the_city("ues.mobility", self.ues.mobility)
        self._needs_of_the_city("radio.line_of_sight", self.radio.line_of_sight)
        law, sight = self.radio.path_loss, self.radio.line_of_sight
        self.radio.penetration.check(law)
        self._open_ground()
        if "probability of sight" in sight.needs_of_law and "probability of sight" not in law.offers:
            raise ValueError(
                f"radio.line_of_sight: {sight.kind_name()} needs a law with a probability of sight (uma, umi, rma), "
                f"and path loss {law.kind_name()} has none; take geometry, always or never"
            )
        if self.base_stations:  # those of a layout are checked when the world is built
            heights_m = np.array([b.height_m for b in self.listed_stations])
            law.check(self.radio.carrier_hz, self.ues.height_m, heights_m)
        names = [b.name for b in self.listed_stations]
        if len(names) > MAX_STATIONS:
            raise ValueError(f"base_stations: {len(names)} are listed, at most {MAX_STATIONS} are possible")
        if twice := {n for n in names if names.count(n) > 1}:
            raise ValueError(f"base_stations: duplicate name {sorted(twice)[0]!r}")
        return self
