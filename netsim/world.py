"""The world: one SimPy environment in which UEs move and measure."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from math import floor, inf
from typing import Literal

import numpy as np
import simpy

from netsim.city.buildings import Buildings
from netsim.clock import Clock
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.lookahead import Lookahead, tick_after
from netsim.mobility.base import Ground, Mobility, Places, State
from netsim.mobility.replay import Replay
from netsim.multiples import first_multiple, last_multiple
from netsim.observe import Fixes, Observations
from netsim.radio.budget import RSRP_RANGE_DBM, Budget
from netsim.radio.fading import Fading, NoFading
from netsim.radio.handover import Handover
from netsim.radio.links import Links
from netsim.radio.uplink import Cohort
from netsim.rng import Streams
from netsim.setting import WorldSetting
from netsim.stations import MOST_STATIONS, BaseStation, Origin, Site, default_layout, sites
from netsim.traces.trace import Trace
from netsim.units import BoolArray, FloatArray, IntArray, w_from_dbm

_FARTHEST_OUTSIDE_M = 100e3  # an antenna outside of the area
_MOST_OUTSIDE = 0.1  # of UEs that start outside of the area without a warning
_SMALLEST_SIDE_M = 10.0  # of an area in which places differ


def _nowhere(at_m: tuple[float, float], height_m: float) -> Budget:
    raise ValueError("this world has no laws of place")


@dataclass(frozen=True)
class HandoverEvent:
    """One handover: when, who, from which base station to which, and RSRP of both."""

    time_s: float
    ue: int
    source: int
    target: int
    source_dbm: float
    target_dbm: float


@dataclass
class World:
    """Moves UEs, collects what they measure, and answers questions about the radio now.

    Time belongs to SimPy. The mobility state is current up to `moved_s`; whoever needs the present (a tick, a
    round's deadline) calls `catch_up`, so events at the same time need no order among themselves.
    """

    env: simpy.Environment
    ues: tuple[str, ...]
    cells: tuple[str, ...]
    stations: tuple[BaseStation, ...]
    area: Area
    clock: Clock
    duration_s: float
    places: Places
    max_power_w: float
    ground: Ground
    mobility: Mobility
    state: State
    budget: Budget
    tick_s: float
    measure_every_s: float | None
    noise_db: float
    fading: Fading = field(default_factory=NoFading)
    warnings: tuple[str, ...] = ()
    downlink_noise_dbm: float = -123.2
    measure: Literal["serving", "all"] = "serving"
    quantised: bool = False
    handover: Handover | None = None
    compute_s_per_sample: float = 0.0
    compute_j_per_sample: float = 0.0
    buildings: Buildings = field(default_factory=Buildings.none)
    trace: Trace | None = None
    antenna_at: Callable[[tuple[float, float], float], Budget] = _nowhere
    """the link budget of an antenna at a place and height that is no base station's"""
    moved_s: float = 0.0
    moves: int = 0
    attached: State = field(default_factory=dict)
    handovers: list[HandoverEvent] = field(default_factory=list)
    _buffer: list[Observations] = field(default_factory=list)
    _ahead: Lookahead = field(init=False)

    def __post_init__(self) -> None:
        self._ahead = Lookahead(self.mobility, self.ground, self.budget, self.tick_s)

    def live(self) -> Generator[simpy.Event, None, None]:
        """Process: one event a tick moves everybody; while everybody rests there is no event."""
        while True:
            wake = self.mobility.wake_s(self.state, self.env.now, self.ground)
            if wake == inf:
                return
            yield self.env.timeout(tick_after(max(wake, self.env.now), self.tick_s) - self.env.now)
            self.catch_up()

    def catch_up(self) -> None:
        """Bring positions and measurements up to now."""
        t0, t1 = self.moved_s, float(self.env.now)
        if t1 <= t0:
            return
        before = self.state["position_m"]
        while t0 < t1:
            until = t1
            if self.measure_every_s is not None and self._next_sample(t0) < t1:
                # a sampled UE stands still for the clock until somebody wakes, then moves tick by tick
                wake = min(t1, self.mobility.wake_s(self.state, t0, self.ground))
                until = min(t1, max(wake, self._next_sample(t0)))
            before = self.state["position_m"]
            self.state, fixes = self._ahead.advance(self.state, t0, until)
            self.moves += 1
            if self.measure_every_s is not None:
                fixes = self._sample(before, t0, until)
            if len(fixes):
                self._buffer.append(self._measure(fixes))
            self._attach(until)
            t0 = until
        self.moved_s = t1

    def observations(self) -> Observations:
        """Everything measured since the last call, up to now."""
        self.catch_up()
        found = Observations.join(self._buffer) if self._buffer else Observations.none()
        self._buffer.clear()
        return found

    def position_m(self) -> FloatArray:
        """Where the UEs are now (n_ue, 2); NaN for an absent one."""
        self.catch_up()
        return np.asarray(self.state["position_m"])

    def memory(self) -> State:
        """What a resumed run needs of this world; what `build_world` makes again is left out."""
        self.catch_up()
        state = {k: v for k, v in self.state.items() if k not in self.mobility.rebuilt}
        return {"state": state, "attached": self.attached}

    def resume(self, memory: State, time_s: float) -> None:
        """Continue at time_s from the memory of an earlier run of the same world, before any event."""
        self.env = simpy.Environment(initial_time=time_s)
        self.state, self.moved_s = {**self.state, **memory["state"]}, time_s
        self.attached = memory["attached"]
        self.env.process(self.live())

    def links(self) -> Links:
        """The radio now."""
        self.catch_up()
        return self._ahead.links(self.state, float(self.env.now))

    def _next_sample(self, t_s: float) -> float:
        every = self.measure_every_s or self.tick_s
        return (last_multiple(t_s, every) + 1) * every

    def _sample(self, position_m: FloatArray, t0_s: float, t1_s: float) -> Fixes:
        """Fixes at the multiples of measure_every_s in [t0, t1), while everybody is where they were at t0."""
        every = self.measure_every_s or self.tick_s
        first, end = first_multiple(t0_s, every), first_multiple(t1_s, every)
        if first >= end:
            return Fixes.none()
        times = np.arange(first, end) * every
        present = np.flatnonzero(np.isfinite(position_m).all(axis=1))
        ue = np.repeat(present, len(times))
        return Fixes(ue, np.tile(times, len(present)), position_m[ue])

    def _measure(self, fixes: Fixes) -> Observations:
        """RSRP of the strongest cell at each fix, or what a trace brings."""
        if fixes.rsrp_dbm is not None:
            cell = np.zeros(len(fixes), dtype=np.int64) if fixes.cell is None else fixes.cell
            return Observations(fixes.ue, fixes.time_s, fixes.position_m, cell, fixes.rsrp_dbm)
        rsrp = self.budget.rsrp_dbm(fixes.position_m)
        n, n_bs = rsrp.shape
        if self.measure == "all":
            row, cell = np.repeat(np.arange(n), n_bs), np.tile(np.arange(n_bs), n)
        else:
            row, cell = np.arange(n), self._serving_at(fixes, rsrp)
        value = rsrp[row, cell]
        if self.noise_db > 0:
            moment = np.round(fixes.time_s[row] * 1e3).astype(np.int64)
            rng = self.ground.streams.at("radio.measurement")
            value = value + self.noise_db * rng.normal("noise", fixes.ue[row] * MOST_STATIONS + cell, item=moment)
        value = np.clip(value, *RSRP_RANGE_DBM)
        if self.quantised:
            value = np.floor(value)  # RSRP_n says: at least n - 141 dBm and less than n - 140 dBm
        return Observations(fixes.ue[row], fixes.time_s[row], fixes.position_m[row], cell, value)

    def _serving_at(self, fixes: Fixes, rsrp_dbm: FloatArray) -> IntArray:
        """The cell that each fix measures: the strongest, or the attached one where handover is modelled.

        A UE that has no cell yet attaches at its first fix.
        """
        if self.handover is None:
            return np.asarray(np.argmax(rsrp_dbm, axis=1))
        ue, first = np.unique(fixes.ue, return_index=True)
        self.attached = self.handover.attach(self.attached, ue, rsrp_dbm[first])
        return np.asarray(self.attached["serving"][fixes.ue])

    def _attach(self, time_s: float) -> None:
        """Look at the serving cells once, where handover is modelled."""
        if self.handover is None or not self.stations:
            return
        rsrp = self.budget.rsrp_dbm(self.state["position_m"])
        before = self.attached["serving"]
        self.attached, moved = self.handover.step(self.attached, rsrp, time_s)
        after = self.attached["serving"]
        for ue in np.flatnonzero(moved):
            source, target = int(before[ue]), int(after[ue])
            values = float(rsrp[ue, source]), float(rsrp[ue, target])
            self.handovers.append(HandoverEvent(time_s, int(ue), source, target, *values))

    def drain_handovers(self) -> list[HandoverEvent]:
        """The handovers since the last call."""
        found, self.handovers = self.handovers, []
        return found

    def serving(self, links: Links) -> IntArray:
        """The base station of every UE now (n_ue,), -1 for none."""
        return links.serving if self.handover is None else np.asarray(self.attached["serving"])

    def cohort(self, ue: IntArray, links: Links, round_: int, rows: IntArray, samples: FloatArray) -> Cohort:
        """What the uplink needs to know of the UEs (n,) that transmit: their links, fading, and work before it.

        rows (n,) of the round that each sends, samples (n,) that it trained on, every pass counted.
        """
        n_bs = links.gain.shape[1]
        serving = self.serving(links).take(ue)
        block = self.fading.block_index(round_, links.time_s)
        if n_bs:
            downlink = np.where(serving >= 0, links.sinr(self.downlink_noise_dbm)[ue, serving], 0.0)
        else:
            downlink = np.full(len(ue), np.inf)
        return Cohort(
            ue=ue,
            serving=serving,
            gain=links.gain.take(ue, axis=0),
            fading=self.fading.draw(ue, n_bs, block, self.ground.streams.at("radio.fading")),
            power_w=np.zeros(len(ue)),
            rows=rows,
            downlink_sinr=downlink,
            compute_s=self.compute_s_per_sample * samples,
            compute_j=self.compute_j_per_sample * samples,
        )

    def cohort_at(
        self, at_m: tuple[float, float], height_m: float, cohort: Cohort, time_s: float, round_: int
    ) -> tuple[Cohort, Links]:
        """The same UEs as an antenna of somebody else's hears them, and its links: one place with laws of its own.

        Path loss, sight and shadowing are those of the city, drawn for that place; it has as many antennas as a base
        station.
        """
        budget = self.antenna_at(at_m, height_m)
        links = budget.links(time_s, self.position_m())
        block = self.fading.block_index(round_, time_s)
        n, nothing = len(cohort.ue), np.zeros(len(cohort.ue))
        fading = self.fading.draw(cohort.ue, 1, block, self.ground.streams.at("radio.fading.elsewhere"))
        heard = Cohort(
            ue=cohort.ue,
            serving=np.where(cohort.serving >= 0, 0, -1),
            gain=links.gain.take(cohort.ue, axis=0),
            fading=fading,
            power_w=cohort.power_w,
            rows=cohort.rows,
            downlink_sinr=np.full(n, np.inf),
            compute_s=nothing,
            compute_j=nothing,
        )
        return heard, links


def build_world(setting: WorldSetting, streams: Streams, round_s: float) -> World:
    """A world at time 0, ready to run. Raises BadInput when a trace cannot be used as asked."""
    mobility = setting.ues.mobility
    trace = mobility.load(round_s) if isinstance(mobility, Replay) else None
    area = setting.city.area(None if trace is None else trace.area)
    duration_s = _duration_s(setting, trace)
    clock = Clock(date.fromisoformat(setting.first_day)) if trace is None else trace.clock(duration_s)
    buildings = setting.city.buildings(area, streams)
    ground = Ground(area, clock, streams, buildings, setting.city.streets())
    names = tuple(f"ue{i}" for i in range(setting.ues.count)) if trace is None else trace.users
    stations = _stations(setting, area, trace, Site(buildings, streams.at("stations")))
    if isinstance(mobility, Replay) and trace is not None:
        state = mobility.start_from(trace, np.arange(len(names)))
    else:
        state = mobility.start(np.arange(len(names)), ground)
    world = World(
        env=simpy.Environment(),
        ues=names,
        cells=_cells(stations, trace),
        stations=stations,
        area=area,
        clock=ground.clock,
        duration_s=duration_s,
        places=mobility.places(state, ground),
        max_power_w=float(w_from_dbm(setting.ues.max_power_dbm)),
        ground=ground,
        mobility=mobility,
        state=state,
        budget=_budget(setting, stations, area, buildings, streams),
        tick_s=setting.tick_s,
        measure_every_s=setting.ues.measure_every_s,
        noise_db=setting.radio.measurement_noise_db,
        fading=setting.radio.fading,
        warnings=(
            *setting.city.notes(),
            *(() if isinstance(setting.base_stations, tuple) else setting.base_stations.notes()),
            *_tiny(area),
            *_outside(area, state["position_m"]),
            *_warnings(stations, buildings),
            *_reach(setting, stations, area),
        ),
        measure=setting.ues.measure,
        quantised=setting.radio.rsrp_report == "quantised",
        handover=setting.radio.handover,
        attached={} if setting.radio.handover is None else Handover.start(len(names), len(stations)),
        compute_s_per_sample=setting.ues.compute_s_per_sample,
        compute_j_per_sample=setting.ues.compute_j_per_sample,
        buildings=buildings,
        trace=trace,
    )
    world.antenna_at = cache(
        lambda at_m, height_m: _budget_at(setting, at_m, height_m, area, buildings, streams, world)
    )
    world.env.process(world.live())
    return world


def _stations(setting: WorldSetting, area: Area, trace: Trace | None, site: Site) -> tuple[BaseStation, ...]:
    """The base stations of a list or a layout."""
    if isinstance(setting.base_stations, tuple):
        silent = trace is not None and trace.rsrp_dbm is None
        if silent and not setting.base_stations:
            return default_layout(area).stations(area, None)
        return setting.base_stations
    origin = None if trace is None or not np.isfinite(trace.origin_lat) else Origin(trace.origin_lat, trace.origin_lon)
    return setting.base_stations.stations(area, origin, site)


def _cells(stations: tuple[BaseStation, ...], trace: Trace | None) -> tuple[str, ...]:
    if trace is not None and trace.rsrp_dbm is not None:
        return trace.cells or ("all",)
    return tuple(b.name for b in stations)


def _duration_s(setting: WorldSetting, trace: Trace | None) -> float:
    if setting.duration_s is not None:
        return setting.duration_s
    if trace is None:
        raise ValueError("a world without a trace needs a duration")
    return float(floor(trace.time_s.max()) + 1)


def _budget_at(
    setting: WorldSetting,
    at_m: tuple[float, float],
    height_m: float,
    area: Area,
    buildings: Buildings,
    streams: Streams,
    world: World,
) -> Budget:
    """The budget of one antenna elsewhere; a law is used below the heights that it was published for.

    At the very place of a base station it has the shadowing and the sight of that site, for obstacles are the same.
    """
    antenna = BaseStation(name="elsewhere", at_m=at_m, height_m=height_m, power_dbm=0.0)
    site = sites((*world.stations, antenna))
    known = bool((site[:-1] == site[-1]).any())
    drawn, name = (site[-1:], "") if known else (np.zeros(1, dtype=np.int64), ".elsewhere")
    return _laws(setting, (antenna,), drawn, area, buildings, streams, name)


def _budget(
    setting: WorldSetting, stations: tuple[BaseStation, ...], area: Area, buildings: Buildings, streams: Streams
) -> Budget:
    height_m = np.array([b.height_m for b in stations])
    try:
        setting.radio.path_loss.check(setting.radio.carrier_hz, setting.ues.height_m, height_m)
    except ValueError as error:
        raise BadInput(f"world.{error}") from None
    return _laws(setting, stations, sites(stations), area, buildings, streams, "")


def _laws(
    setting: WorldSetting,
    stations: tuple[BaseStation, ...],
    site: IntArray,
    area: Area,
    buildings: Buildings,
    streams: Streams,
    name: str,
) -> Budget:
    """The laws of place of these antennas, drawn for their sites (n_bs,) from streams of that name."""
    radio = setting.radio
    values: FloatArray = np.array(
        [(*b.at_m, b.height_m, b.power_dbm, np.nan if b.azimuth_deg is None else b.azimuth_deg) for b in stations]
    ).reshape(-1, 5)
    at_m, height_m = values[:, :2], values[:, 2]
    antennas_m = values[:, :3]

    def geometry(position_m: FloatArray) -> BoolArray:
        phones = np.column_stack([position_m, np.full(len(position_m), setting.ues.height_m)])
        return buildings.line_of_sight(phones, antennas_m)

    shadowing = radio.shadowing.under(radio.path_loss)
    sight = radio.line_of_sight.law(area, site, radio.path_loss, geometry, streams.at(f"radio.sight{name}"))
    return Budget(
        at_m=at_m,
        height_m=height_m,
        power_dbm=values[:, 3],
        azimuth_deg=values[:, 4],
        ue_height_m=setting.ues.height_m,
        carrier_hz=radio.carrier_hz,
        path_loss=radio.path_loss,
        sight=sight,
        shadow=shadowing.field(area, site, streams.at(f"radio.shadowing{name}")),
        nlos_factor=shadowing.nlos_factor,
        far_factor=radio.shadowing.far_factor(radio.path_loss),
    )


def _reach(setting: WorldSetting, stations: tuple[BaseStation, ...], area: Area) -> tuple[str, ...]:
    """Whether links are longer than the path loss law was published for; raises BadInput for a slip of the pen."""
    if not stations:
        return ()
    away_m = area.farthest_m(np.array([b.at_m for b in stations]))
    far = int(np.argmax(away_m))
    check_near(area, stations[far].at_m, f"world.base_stations[{far}].at_m: {stations[far].name}")
    law = setting.radio.path_loss
    if away_m[far] <= law.longest_m:
        return ()
    return (
        f"path loss {law.kind_name()} was published for links of up to {law.longest_m:g} m; those of "
        f"{stations[far].name} reach {away_m[far]:.0f} m and are extrapolated",
    )


def check_near(area: Area, at_m: tuple[float, float], who: str) -> None:
    """Raises BadInput where an antenna stands so far from the area that it must be a slip of the pen."""
    away_m = float(area.farthest_m(np.array([at_m]))[0])
    most_m = float(np.linalg.norm(area.side_m)) + _FARTHEST_OUTSIDE_M
    if away_m > most_m:
        raise BadInput(
            f"{who} stands {away_m / 1e3:g} km from the far corner of the area, at most {most_m / 1e3:g} km make "
            "sense; give metres in the plane of the area"
        )


def _tiny(area: Area) -> tuple[str, ...]:
    """Whether there is room for places that differ."""
    if area.side_m.min() >= _SMALLEST_SIDE_M:
        return ()
    width, height = (f"{side:.3g} m" for side in area.side_m)
    return (f"the area is {width} x {height}: all places are nearly one, so maps and attacks say little",)


def _outside(area: Area, position_m: FloatArray) -> tuple[str, ...]:
    """Whether many UEs start where nothing is modelled; the tails of a law of places may."""
    there = np.isfinite(position_m).all(axis=1)
    share = float(np.mean(~area.contains(position_m[there]))) if there.any() else 0.0
    if share <= _MOST_OUTSIDE:
        return ()
    return (f"{100 * share:.3g} % of the UEs start outside of the area; let ues.mobility place them inside",)


def _warnings(stations: tuple[BaseStation, ...], buildings: Buildings) -> tuple[str, ...]:
    """What a person should know of where base stations stand."""
    if not stations:
        return ()
    roof_m = buildings.height_at(np.array([b.at_m for b in stations]))
    return tuple(
        f"base station {b.name} stands inside a building ({roof:g} m high, its antenna at {b.height_m:g} m)"
        for b, roof in zip(stations, roof_m, strict=True)
        if roof > b.height_m
    )
