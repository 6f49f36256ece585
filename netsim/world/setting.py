"""Settings of the world: the section `world:` of a scenario."""

import re
from abc import abstractmethod
from datetime import date
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, Strict, field_validator, model_validator

from netsim.city import CITIES
from netsim.city.base import City
from netsim.city.town import Town
from netsim.clock import Clock
from netsim.columns import MAX_STATIONS, copy_with
from netsim.mobility import MOBILITIES
from netsim.mobility.base import Mobility
from netsim.part import Count, Fraction, OneOf, Part
from netsim.radio import FADINGS, PATH_LOSSES, PENETRATIONS, SHADOWINGS, SIGHTS, UPLINKS
from netsim.radio.downlink import Downlink, Handover
from netsim.radio.fading import Fading, NoFading
from netsim.radio.indoor_links import NoPenetration, Penetration, Tr38901Penetration
from netsim.radio.path_loss import LogDistance, PathLoss
from netsim.radio.positioning import Positioning
from netsim.radio.schedulers import AirInterface
from netsim.radio.shadowing import Correlated, NoShadowing, Shadowing
from netsim.radio.sight import AlwaysInSight, Sight
from netsim.radio.uplink import Ideal, Uplink
from netsim.rng import Rng
from netsim.ues import Indoors
from netsim.units import FloatArray, FloatPair, IntArray, IntPair, Texts, w_from_dbm
from netsim.world.base_stations import LAYOUTS, BaseStation, Layout

# YAML knows lists only; the two numbers stay strict
Floors = Annotated[IntPair, Strict(False)]


class IndoorShare(Part):
    """A share of the UEs is indoors for the whole run, each in a separate building.

    The number of floors N is uniform on `floors`, the UE's floor uniform on 1..N, and its distance
    from the facade the smaller of two U(0, depth_m).
    """

    share: Fraction = 0.8
    """share of UEs indoors"""
    floors: Floors = (4, 8)
    """lowest and highest number of floors of a building"""
    depth_m: float | None = Field(None, ge=0, le=1000)
    """largest distance from the facade, m; none: 25, and 10 beside path loss rma"""
    reference = "3GPP TR 38.901 V17.0.0, Tables 7.2-1 and 7.8-1, Section 7.4.3.1"

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        low, high = self.floors
        if not 1 <= low <= high <= 200:
            raise ValueError(
                f"floors: {low}, {high}: give the lowest, then the highest number of "
                f"floors, 1 to 200"
            )
        return self

    def find_deepest_m(self, law: PathLoss) -> float:
        """The largest distance from the facade beside a path loss law."""
        if self.depth_m is None:
            return law.indoor_depth_m
        return self.depth_m

    def draw_indoors(self, ue: IntArray, law: PathLoss, rng: Rng) -> Indoors:
        """Draw which UEs (n,) are indoors, and where; the draw of UE u depends on (seed, u)
        only.
        """
        unit = rng.uniform("indoor", ue, (5,)).T
        low, high = self.floors
        inside = unit[0] < self.share
        extra = (unit[1] * (high - low + 1)).astype(int)
        storeys = low + np.minimum(extra, high - low)
        floor = np.minimum((unit[2] * storeys).astype(int), storeys - 1)
        depth_m = self.find_deepest_m(law) * np.minimum(unit[3], unit[4])
        return copy_with(
            Indoors.outdoors(ue),
            building=np.where(inside, ue, -1),
            floor=np.where(inside, floor, 0),
            depth_m=np.where(inside, depth_m, 0.0),
        )


class ComputeSpread(Part):
    """A law of the factor by which the training time of a UE is multiplied, drawn once for each
    UE.
    """

    kind: str = ""

    @property
    @abstractmethod
    def formula(self) -> str:
        """The factor in terms of N, a standard normal draw."""

    @abstractmethod
    def draw_time_factor(self, ue: IntArray, rng: Rng) -> FloatArray:
        """The factor (n,) of UEs (n,); that of UE u depends on the seed and u only."""


class HalfNormal(ComputeSpread, kind="half-normal"):
    r"""Slower than stated by a half-normal share: `1 + scale |N|`.

    What is stated is the speed of the fastest UEs; on average a UE takes 1 + 0.80 scale times as
    long. Departs from the paper, which draws the whole duration of a training half-normally each
    time: there some take no time at all, and durations do not depend on the amount of data.
    """

    scale: float = Field(1.0, gt=0, le=1e3)
    """scale of the half-normal share: its root mean square"""

    reference = (
        "Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, AISTATS 2022: "
        "half-normal durations of training"
    )

    @property
    def formula(self) -> str:
        return f"1 + {self.scale:g} |N|"

    def draw_time_factor(self, ue: IntArray, rng: Rng) -> FloatArray:
        return 1.0 + self.scale * np.abs(rng.normal("spread", ue))


class LogNormal(ComputeSpread, kind="log-normal"):
    r"""Log-normal factor `exp(sigma N)`: half of the UEs are faster than stated, half slower."""

    sigma: float = Field(0.5, gt=0, le=5)
    """standard deviation of the logarithm of the factor"""

    reference = "netsim: assumed, the product of many independent factors"

    @property
    def formula(self) -> str:
        return f"exp({self.sigma:g} N)"

    def draw_time_factor(self, ue: IntArray, rng: Rng) -> FloatArray:
        return np.exp(self.sigma * rng.normal("spread", ue))


COMPUTE_SPREADS = OneOf("compute-spread", HalfNormal, LogNormal)
"""The compute-spread slot: how unequal UEs are in training."""


class Ues(Part):
    """Settings of the UEs."""

    count: Count = 1
    """number of UEs; for a replayed trace the number of its users"""
    mobility: Annotated[Mobility, MOBILITIES]
    """mobility model"""
    without: Texts = ()
    """names of UEs that measure nothing, as if they were not there; others keep their names, places
    and draws. Of a trace their rows are dropped before anything is derived from rows: the
    neighbouring data set of an audit"""
    measurement_period_s: float | None = Field(None, ge=1e-3, le=1e10)
    """time between measurements, s; none: given by the mobility model (a diary, a trace)"""
    position_error_m: Annotated[float, Field(ge=0, le=1e4)] | Literal["recorded"] = 0.0
    """error of positions as UEs report them, standard deviation per axis, m, drawn for each fix by
    itself (real errors last for minutes); recorded: of each row of a trace by its own accuracy_m.
    Radio and homes keep true positions"""
    height_m: float = Field(1.5, ge=0, le=500)
    """antenna height above ground, m"""
    max_power_dbm: float = Field(23.0, ge=-60, le=60)
    """largest transmit power, dBm"""
    measure: Literal["serving", "all"] = "serving"
    """cells in a measurement: the serving cell, or all cells"""
    training_s_per_sample: float = Field(0.0, ge=0, le=1e3)
    """time of one training pass over one sample, s"""
    compute_heterogeneity: Annotated[ComputeSpread, COMPUTE_SPREADS] | None = None
    """factor of that time, drawn once for each UE; none: 1. It leaves the energy as it is: the work
    is the same"""
    compute_j_per_sample: float = Field(0.0, ge=0, le=1e3)
    """energy of one training pass over one sample, J"""
    indoor: IndoorShare | None = None
    """UEs inside buildings by a draw, in open ground; none: as the mobility model says"""

    @property
    def max_power_w(self) -> float:
        """Largest transmit power, W."""
        return float(w_from_dbm(self.max_power_dbm))


def _choose_sight(stated: dict[str, Any]) -> Sight:
    """The law's own probability of sight where it has one: that is how such a law was published."""
    law = stated.get("path_loss", LogDistance())
    if "probability of sight" in law.offers:
        from netsim.radio.sight import (
            ByProbability,
        )  # here, so that most scenarios do not import it

        return ByProbability(decorrelation_m=law.sight_decorrelation_m)
    return AlwaysInSight()


def _choose_shadowing(stated: dict[str, Any]) -> Shadowing:
    """Shadowing with the deviations of the law where it was published with some."""
    law = stated.get("path_loss", LogDistance())
    if law.std_db is not None:
        return Correlated(
            decorrelation_m=law.decorrelation_m,
            nlos_decorrelation_m=law.nlos_decorrelation_m,
            indoor_decorrelation_m=law.indoor_shadowing[1] if law.indoor_shadowing else None,
        )
    return NoShadowing()


def _choose_penetration(stated: dict[str, Any]) -> Penetration:
    """Loss of walls and car bodies beside the laws that were published with it."""
    law = stated.get("path_loss", LogDistance())
    if law.indoor_shadowing:
        return Tr38901Penetration()
    return NoPenetration()


class Radio(Part):
    """Settings of the radio."""

    carrier_hz: float = Field(2.6e9, ge=1e8, le=1e11)
    """carrier frequency, Hz"""
    path_loss: Annotated[PathLoss, PATH_LOSSES] = LogDistance()
    """path loss model"""
    line_of_sight: Annotated[Sight, SIGHTS] = Field(default_factory=_choose_sight)
    """line-of-sight model; default: the probability of the path loss model (uma, umi, rma), always
    for others"""
    shadowing: Annotated[Shadowing, SHADOWINGS] = Field(default_factory=_choose_shadowing)
    """shadowing model; default: that of the path loss model (uma, umi, rma), none for others"""
    penetration: Annotated[Penetration, PENETRATIONS] = Field(default_factory=_choose_penetration)
    """penetration loss of UEs in buildings and vehicles; default: tr38901 beside uma, umi and rma,
    none for others"""
    fading: Annotated[Fading, FADINGS] = NoFading()
    """small-scale fading and antennas of the uplink"""
    measurement_noise_db: float = Field(0.0, ge=0, le=30)
    """standard deviation of the error of an RSRP measurement, dB"""
    rsrp_report: Literal["exact", "quantised", "quantised-nr"] = "exact"
    """exact, or whole dB as UEs report: quantised, -140 to -44 dBm, of LTE (3GPP TS 36.133, Table
    9.1.4-1), or quantised-nr, -156 to -31 dBm, of NR (TS 38.133, Table 10.1.6.1-1)"""
    handover: Handover | None = None
    """handover model; none: the serving cell is always the strongest"""
    downlink: Downlink = Downlink()
    """the downlink: receiver noise, and the rate that an SINR gives"""
    positioning: Positioning = Positioning()
    """how well base stations measure where a UE is"""
    uplink: Annotated[Uplink, UPLINKS] = Ideal()
    """uplink model"""
    dynamic_uplink: AirInterface | None = None
    """transmissions as events that take their time while UEs move; none: planned at the request,
    with links as then"""

    @property
    def sight_is_modelled(self) -> bool:
        """Whether line of sight is modelled: beside gains of a file `always` states nothing of
        their obstacles.
        """
        return not self.path_loss.has_obstacles or not isinstance(self.line_of_sight, AlwaysInSight)

    @property
    def report_dbm(self) -> FloatPair | None:
        """Range of reports in whole dB; None for exact ones."""
        return {"quantised": (-140.0, -44.0), "quantised-nr": (-156.0, -31.0)}.get(self.rsrp_report)


class WorldSetting(Part):
    """City, base stations, UEs, radio and time."""

    first_day: str = "2026-01-05"
    """calendar date of time 0; for a replayed trace that of the trace"""
    begins: str = "00:00"
    """local time of day of time 0, such as 08:00: people are where their day has brought them since
    midnight"""
    duration_s: float | None = Field(None, gt=0, le=1e10)
    """simulated time, s; none: to the end of the replayed trace"""
    tick_s: float = Field(60.0, ge=1e-3, le=86_400)
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
        if isinstance(self.base_stations, tuple):
            return None
        return self.base_stations

    @property
    def listed_stations(self) -> tuple[BaseStation, ...]:
        """The base stations that the scenario writes out; empty for a layout."""
        if isinstance(self.base_stations, tuple):
            return self.base_stations
        return ()

    @field_validator("first_day")
    @classmethod
    def _date(cls, text: str) -> str:
        try:
            date.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a date like 2026-01-05") from None
        return text

    @field_validator("begins")
    @classmethod
    def _time_of_day(cls, text: str) -> str:
        if not re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d", text):
            raise ValueError(f"{text!r} is not a time of day like 08:00")
        return text.zfill(5)

    @property
    def stated_clock(self) -> Clock:
        """The clock of a world without a trace."""
        hours, minutes = map(int, self.begins.split(":"))
        return Clock.from_first_day(
            date.fromisoformat(self.first_day), 3600.0 * hours + 60.0 * minutes
        )

    def _check_needs(self, place: str, part: Part) -> None:
        for need, reason in part.needs.items():
            if need not in self.city.offers:
                city = self.city.kind_name()
                raise ValueError(
                    f"{place}: {part.kind_name()} needs {need}, which city {city} lacks: {reason}"
                )

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        self._check_needs("ues.mobility", self.ues.mobility)
        self._check_needs("radio.line_of_sight", self.radio.line_of_sight)
        if self.base_stations:  # those of a layout are checked when the world is built
            heights_m = {b.name: b.height_m for b in self.listed_stations}
            self.radio.path_loss.check(
                self.radio.carrier_hz,
                self.ues.height_m,
                heights_m,
            )
        names = [b.name for b in self.listed_stations]
        if len(names) > MAX_STATIONS:
            raise ValueError(
                f"base_stations: {len(names)} are listed, at most {MAX_STATIONS} are possible"
            )
        if twice := {n for n in names if names.count(n) > 1}:
            raise ValueError(f"base_stations: duplicate name {min(twice)!r}")
        return self
