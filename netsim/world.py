"""The world: one SimPy environment in which UEs move and measure."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import date
from math import floor, inf
from typing import Any

import numpy as np
import simpy

from netsim.clock import Clock
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.mobility.base import Ground, Mobility, Places, State
from netsim.mobility.replay import Replay
from netsim.observe import Fixes, Observations
from netsim.radio.budget import RSRP_RANGE_DBM, Budget
from netsim.radio.links import Links
from netsim.rng import Streams
from netsim.setting import WorldSetting
from netsim.traces.trace import Trace
from netsim.units import FloatArray, w_from_dbm


@dataclass
class World:
    """Moves UEs, collects what they measure, and answers questions about the radio now.

    Time belongs to SimPy. The mobility state is current up to `moved_s`; whoever needs the present (a tick, a
    round's deadline) calls `catch_up`, so events at the same time need no order among themselves.
    """

    env: simpy.Environment
    ues: tuple[str, ...]
    cells: tuple[str, ...]
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
    trace: Trace | None = None
    moved_s: float = 0.0
    moves: int = 0
    _buffer: list[Observations] = field(default_factory=list)

    def live(self) -> Generator[simpy.Event, None, None]:
        """Process: one event a tick moves everybody; while everybody rests there is no event."""
        while True:
            wake = self.mobility.wake_s(self.state, self.env.now, self.ground)
            if wake == inf:
                return
            ticks = floor(max(wake, self.env.now) / self.tick_s) + 1
            yield self.env.timeout(ticks * self.tick_s - self.env.now)
            self.catch_up()

    def catch_up(self) -> None:
        """Bring positions and measurements up to now."""
        t0, t1 = self.moved_s, float(self.env.now)
        if t1 <= t0:
            return
        before = self.state["position_m"]
        while t0 < t1:
            # a sampled UE stands still for the clock until somebody wakes, then moves tick by tick
            wake = min(t1, self.mobility.wake_s(self.state, t0, self.ground))
            until = t1 if self.measure_every_s is None else min(t1, max(wake, self._next_sample(t0)))
            before = self.state["position_m"]
            self.state, fixes = self.mobility.advance(self.state, t0, until, self.ground)
            self.moves += 1
            if self.measure_every_s is not None:
                fixes = self._sample(before, t0, until)
            if len(fixes):
                self._buffer.append(self._measure(fixes))
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
        return {k: v for k, v in self.state.items() if k not in self.mobility.rebuilt}

    def resume(self, memory: State, time_s: float) -> None:
        """Continue at time_s from the memory of an earlier run of the same world, before any event."""
        self.env = simpy.Environment(initial_time=time_s)
        self.state, self.moved_s = {**self.state, **memory}, time_s
        self.env.process(self.live())

    def links(self) -> Links:
        """The radio now."""
        return self.budget.links(float(self.env.now), self.position_m())

    def _next_sample(self, t_s: float) -> float:
        every = self.measure_every_s or self.tick_s
        return (floor(t_s / every + 1e-9) + 1) * every

    def _sample(self, position_m: FloatArray, t0_s: float, t1_s: float) -> Fixes:
        """Fixes at the multiples of measure_every_s in [t0, t1), while everybody is where they were at t0."""
        every = self.measure_every_s or self.tick_s
        first = np.ceil(t0_s / every - 1e-9)
        times = np.arange(first, np.ceil(t1_s / every - 1e-9)) * every
        present = np.flatnonzero(np.isfinite(position_m).all(axis=1))
        ue = np.repeat(present, len(times))
        return Fixes(ue, np.tile(times, len(present)), position_m[ue])

    def _measure(self, fixes: Fixes) -> Observations:
        """RSRP of the strongest cell at each fix, or what a trace brings."""
        if fixes.rsrp_dbm is not None:
            cell = np.zeros(len(fixes), dtype=np.int64) if fixes.cell is None else fixes.cell
            return Observations(fixes.ue, fixes.time_s, fixes.position_m, cell, fixes.rsrp_dbm)
        rsrp = self.budget.rsrp_dbm(fixes.position_m)
        cell = np.argmax(rsrp, axis=1)
        best = rsrp[np.arange(len(cell)), cell]
        if self.noise_db > 0:
            moment = np.round(fixes.time_s * 1e3).astype(np.int64)
            rng = self.ground.streams.at("radio.measurement")
            best = best + self.noise_db * rng.normal("noise", fixes.ue, item=moment)
        return Observations(fixes.ue, fixes.time_s, fixes.position_m, cell, np.clip(best, *RSRP_RANGE_DBM))


def build_world(setting: WorldSetting, streams: Streams, round_s: float) -> World:
    """A world at time 0, ready to run. Raises BadInput when a trace cannot be used as asked."""
    mobility = setting.ues.mobility
    trace = mobility.load(round_s) if isinstance(mobility, Replay) else None
    area = setting.city.area(None if trace is None else trace.area)
    first_day = date.fromisoformat(setting.first_day) if trace is None else trace.first_day
    ground = Ground(area, Clock(first_day), streams)
    names = tuple(f"ue{i}" for i in range(setting.ues.count)) if trace is None else trace.users
    if isinstance(mobility, Replay) and trace is not None:
        state = mobility.start_from(trace, np.arange(len(names)))
    else:
        state = mobility.start(np.arange(len(names)), ground)
    world = World(
        env=simpy.Environment(),
        ues=names,
        cells=_cells(setting, trace),
        area=area,
        clock=ground.clock,
        duration_s=_duration_s(setting, trace),
        places=mobility.places(state, ground),
        max_power_w=float(w_from_dbm(setting.ues.max_power_dbm)),
        ground=ground,
        mobility=mobility,
        state=state,
        budget=_budget(setting, area, streams),
        tick_s=setting.tick_s,
        measure_every_s=setting.ues.measure_every_s,
        noise_db=setting.radio.measurement_noise_db,
        trace=trace,
    )
    world.env.process(world.live())
    return world


def _cells(setting: WorldSetting, trace: Trace | None) -> tuple[str, ...]:
    if trace is not None and trace.rsrp_dbm is not None:
        return trace.cells or ("all",)
    if not setting.base_stations:
        raise BadInput(
            "world.base_stations: the trace has no rsrp_dbm column, so somebody must send: give base stations "
            "(positions in metres from the middle of the trace), or map the column with --columns rsrp_dbm=HEADER"
        )
    return tuple(b.name for b in setting.base_stations)


def _duration_s(setting: WorldSetting, trace: Trace | None) -> float:
    if setting.duration_s is not None:
        return setting.duration_s
    if trace is None:
        raise ValueError("a world without a trace needs a duration")
    return float(floor(trace.time_s.max()) + 1)


def _budget(setting: WorldSetting, area: Area, streams: Streams) -> Budget:
    stations = setting.base_stations
    radio = setting.radio
    values: Any = np.array([(*b.at_m, b.height_m, b.power_dbm) for b in stations]).reshape(-1, 4)
    return Budget(
        at_m=values[:, :2],
        height_m=values[:, 2],
        power_dbm=values[:, 3],
        ue_height_m=setting.ues.height_m,
        carrier_hz=radio.carrier_hz,
        path_loss=radio.path_loss,
        shadow=radio.shadowing.field(area, len(stations), streams.at("radio.shadowing")),
    )
