"""The world: one SimPy environment in which UEs move and measure."""

from collections.abc import Collection, Generator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf
from typing import Any, NamedTuple

import numpy as np
import simpy

from netsim.city.buildings import Buildings
from netsim.clock import Clock, find_first_multiple, find_last_multiple, find_tick_after
from netsim.columns import number_row
from netsim.geometry import Area
from netsim.mobility.base import Ground, Mobility, Places, State
from netsim.notice import Notice
from netsim.radio.downlink import Attachment, Handover
from netsim.radio.fading import RoundIndex
from netsim.radio.indoor_links import Environment
from netsim.radio.link_budget import Budget, KeptLinks, RadioLinks, split_positions
from netsim.radio.path_loss import Pairs
from netsim.radio.positioning import (
    EXCESS_DECADES,
    EXCESS_MEDIAN_M,
    N_LEVELS,
    SQUARE_M,
    NetworkFixes,
)
from netsim.radio.power import Power
from netsim.radio.shadowing import Shadow
from netsim.radio.transmissions import Look, SeenLinks
from netsim.radio.uplink import Cohort
from netsim.traces.trace import Trace
from netsim.ues import Fixes, Indoors, Looks, Observations, Tracks, Trail, UeStates
from netsim.units import BoolArray, ComplexArray, FloatArray, IntArray, Texts
from netsim.world.base_stations import (
    NO_SHIFT_M,
    BaseStation,
    Stations,
    collect_positions_m,
    number_sites,
)
from netsim.world.setting import WorldSetting


class HandoverEvent(NamedTuple):
    """One handover: time, UE, source and target base station, and RSRP of both."""

    time_s: float
    ue: int
    source: int
    target: int
    source_dbm: float
    target_dbm: float


@dataclass(frozen=True)
class WorldMemory:
    """The state of a world: UEs and their movement; serving cells where handover is modelled;
    tracks where they are taken; measurements since the last call of `observations`.
    """

    state: Any
    attached: Attachment | None
    trail: Trail | None
    measured: Observations


def draw_budget(
    setting: WorldSetting,
    stations: Stations,
    site: IntArray,
    ground: Ground,
    name: str = "",
) -> Budget:
    """The budget of base stations of sites (n_bs,): laws of place are drawn from streams of that
    name.
    """
    radio = setting.radio
    streams = ground.streams
    buildings = ground.buildings
    at_m = collect_positions_m(stations)
    height_m = np.array([b.height_m for b in stations])
    antennas_m = np.column_stack([at_m, height_m])

    def geometry(position_m: FloatArray, pairs: Pairs) -> BoolArray:
        above_m = np.broadcast_to(pairs.ue_height_m, (len(position_m), 1))
        building = None if pairs.indoors is None else pairs.indoors.building
        return buildings.has_line_of_sight(
            np.column_stack([position_m, above_m]), antennas_m, building
        )

    law = radio.path_loss
    part = radio.shadowing
    shadow_rng = streams.derive_rng(f"radio.shadowing{name}")
    inside = streams.derive_rng(f"radio.indoors{name}")
    azimuth_deg = [None if law.has_antennas else b.azimuth_deg for b in stations]
    stds = part.choose_stds(law)
    kinds = dict.fromkeys(b.antenna for b in stations)
    loss_db = law.build_law(
        [b.name for b in stations], ground.area, setting.ues.height_m, radio.carrier_hz
    )
    sight = radio.line_of_sight.build_law(
        ground.area, site, law, geometry, streams.derive_rng(f"radio.sight{name}")
    )
    shadow = Shadow(
        stds=stds,
        seen=part.draw_field(ground.area, site, shadow_rng, stds.seen),
        hidden=part.draw_nlos_field(ground.area, site, shadow_rng, stds.hidden),
        inside=part.draw_indoor_field(site, inside, stds.inside),
        path_loss=law,
        carrier_hz=radio.carrier_hz,
    )
    penetration = radio.penetration.build_law(
        law, radio.carrier_hz, streams.derive_rng("radio.penetration")
    )
    antennas = tuple(
        (kind, np.flatnonzero([b.antenna == kind for b in stations])) for kind in kinds
    )
    return Budget(
        at_m=at_m,
        height_m=height_m,
        power_dbm=np.array([b.power_dbm for b in stations]),
        azimuth_deg=np.array(azimuth_deg, float),
        ue_height_m=setting.ues.height_m,
        path_loss=law,
        loss_db=loss_db,
        sight=sight,
        shadow=shadow,
        penetration=penetration,
        environment=Environment(law, site, inside),
        antennas=antennas,
        shifts_m=NO_SHIFT_M if setting.layout is None else setting.layout.shifts_m,
    )


@dataclass(eq=False)
class World:
    """Moves UEs, collects their measurements, and calculates the radio now.

    Time belongs to SimPy. The mobility state is current up to `moved_s`; callers that need the
    present (a tick, a round's deadline) call `catch_up`, so events at the same time need no order
    among themselves.
    """

    setting: WorldSetting
    ues: Texts
    cells: Texts
    stations: Stations
    duration_s: float
    places: Places
    ground: Ground
    state: State
    training_s_per_sample: FloatArray
    """time (n_ue,) in which each UE trains one pass over one sample"""
    silent: BoolArray
    """UEs (n_ue,) that measure nothing"""
    drawn_indoors: Indoors | None = None
    """indoor state, where the scenario draws it; None: as the mobility model says"""
    notices: tuple[Notice, ...] = ()
    env: simpy.Environment = field(default_factory=partial(simpy.Environment, 0.0))
    moved_s: float = 0.0
    moves: int = 0
    attached: Attachment | None = None
    """serving cells, where handover is modelled"""
    handovers: list[HandoverEvent] = field(default_factory=list)
    tracks: Tracks | None = None
    """tracks of UEs, taken after a call of `follow`"""
    measurement_period_s: float | None = field(init=False)
    budget: Budget = field(init=False)
    _kept: KeptLinks = field(init=False)
    _elsewhere: dict[BaseStation, KeptLinks] = field(default_factory=dict)
    """links to antennas that are no base station's, by place and height"""
    _buffer: list[Observations] = field(default_factory=list)
    _due_s: float = -inf
    """up to when there is no sample to take"""
    _settled: bool = False
    """whether another look at the same RSRP would change no serving cell"""

    def __post_init__(self) -> None:
        self.measurement_period_s = self.setting.ues.measurement_period_s
        self.budget = draw_budget(
            self.setting, self.stations, number_sites(self.stations), self.ground
        )
        self._kept = KeptLinks(self.budget)
        if self.handover is not None:
            self.attached = Handover.start(len(self.ues), len(self.stations))
        self.env.process(self.live())

    @property
    def area(self) -> Area:
        """The area of the city."""
        return self.ground.area

    @property
    def clock(self) -> Clock:
        """The calendar and the wall clock."""
        return self.ground.clock

    @property
    def buildings(self) -> Buildings:
        """The buildings of the city."""
        return self.ground.buildings

    @property
    def trace(self) -> Trace | None:
        """The replayed trace, None without one."""
        return self.ground.trace

    @property
    def mobility(self) -> Mobility:
        """The mobility model."""
        return self.setting.ues.mobility

    @property
    def tick_s(self) -> float:
        """Time step of mobility."""
        return self.setting.tick_s

    @property
    def handover(self) -> Handover | None:
        """The handover model; None: the serving cell is always the strongest."""
        return self.setting.radio.handover

    @cached_property
    def max_power_w(self) -> float:
        """Largest transmit power of a UE."""
        return self.setting.ues.max_power_w

    def live(self) -> Generator[simpy.Event, None, None]:
        """Process: one event a tick moves all UEs; while all UEs rest there is no event."""
        while True:
            wake = self._find_wake_s(self.env.now)
            if wake == inf:
                return
            next_s = find_tick_after(max(wake, self.env.now), self.tick_s)
            yield self.env.timeout(next_s - self.env.now)
            self.catch_up()

    def catch_up(self) -> None:
        """Bring positions and measurements up to now."""
        t0 = self.moved_s
        t1 = self.env.now
        if t1 <= t0:
            return
        while t0 < t1:
            until = t1
            due = self.measurement_period_s is not None and self._due_s < t1
            if due and self._find_next_sample_s(t0) < t1:
                # a sampled UE stands still for the clock until a UE wakes, then moves tick by tick
                until = min(t1, max(min(t1, self._find_wake_s(t0)), self._find_next_sample_s(t0)))
            before = self.state
            served = self.attached
            self.state, fixes = self.mobility.advance(self.state, t0, until, self.ground)
            self.moves += 1
            if self.measurement_period_s is not None:
                fixes = self._sample(before.position_m, t0, until) if due else Fixes.none()
            if len(fixes):
                self._buffer.append(
                    self._measure(fixes, None if self.measurement_period_s is None else before)
                )
            self._attach(until)
            if self.tracks is not None:
                seen = (
                    partial(self._look_at, before, served),
                    partial(self._look_at, self.state, self.attached),
                )
                self.tracks.record_moves(until, *seen)
            t0 = until
        self.moved_s = t1

    def _find_wake_s(self, now_s: float) -> float:
        """Time until which no UE moves and no timer of a handover runs."""
        if self.attached is not None and not self._settled:
            return now_s
        return self.mobility.wake_s(self.state, now_s, self.ground)

    def drain_observations(self) -> Observations:
        """Everything measured since the last call, up to now."""
        self.catch_up()
        measured = self._join_buffer()
        self._buffer = []
        if self.silent.any():
            return measured.select(~self.silent[measured.ue])
        return measured

    def _join_buffer(self) -> Observations:
        if self._buffer:
            return Observations.join(self._buffer)
        return Observations.none()

    def locate_ues(self) -> FloatArray:
        """Positions of the UEs now (n_ue, 2); NaN for an absent one."""
        self.catch_up()
        return self.state.position_m

    def find_indoors(self) -> Indoors | None:
        """Return indoor state per UE, or None if no building is modelled."""
        self.catch_up()
        return self.find_state_indoors(self.state)

    def find_state_indoors(self, state: State) -> Indoors | None:
        """Indoor state of the UEs in a state."""
        if self.drawn_indoors is None:
            return state.indoors()
        return self.drawn_indoors

    def take_memory(self) -> WorldMemory:
        """The state that a resumed run needs; parts that `build_world` makes again are not in its
        tree.
        """
        self.catch_up()
        trail = None if self.tracks is None else self.tracks.trail
        return WorldMemory(self.state, self.attached, trail, self._join_buffer())

    def resume(self, memory: WorldMemory, time_s: float) -> None:
        """Continue at time_s from the memory of an earlier run of the same world, before any
        event.
        """
        self.env = simpy.Environment(initial_time=time_s)
        self.state = memory.state
        self.attached = memory.attached
        self.moved_s = time_s
        self._buffer = [memory.measured]
        if self.tracks is not None and memory.trail is not None:
            self.tracks.trail = memory.trail
        self.env.process(self.live())

    def compute_links(self) -> RadioLinks:
        """The radio now."""
        self.catch_up()
        return self._compute_state_links(self.state)

    def _compute_state_links(self, state: State) -> RadioLinks:
        return self._kept.compute_links(
            self.moved_s, state.position_m, self.find_state_indoors(state)
        )

    def _find_next_sample_s(self, t_s: float) -> float:
        period_s = self.measurement_period_s or self.tick_s
        return (find_last_multiple(t_s, period_s) + 1) * period_s

    def _sample(self, position_m: FloatArray, t0_s: float, t1_s: float) -> Fixes:
        """Fixes at the multiples of measurement_period_s in [t0, t1), while all UEs are where they
        were at t0.
        """
        period_s = self.measurement_period_s or self.tick_s
        first = find_first_multiple(t0_s, period_s)
        end = find_first_multiple(t1_s, period_s)
        self._due_s = end * period_s
        if first >= end:
            return Fixes.none()
        times = np.arange(first, end) * period_s
        present = np.flatnonzero(np.isfinite(position_m).all(axis=1))
        ue = np.repeat(present, len(times))
        return Fixes(ue, np.tile(times, len(present)), position_m[ue])

    def _measure(self, fixes: Fixes, sampled: State | None) -> Observations:
        """RSRP of the strongest cell at each fix, or of the trace.

        sampled : the state that the fixes are samples of; None where the mobility model takes them.
        """
        if fixes.rsrp_dbm is not None:
            cell = np.zeros(len(fixes), int) if fixes.cell is None else fixes.cell
            return Observations(fixes.ue, fixes.time_s, fixes.position_m, cell, fixes.rsrp_dbm)
        if sampled is not None:
            return self._report_rsrp(fixes, self._compute_state_links(sampled).rsrp_dbm[fixes.ue])
        if self.handover is not None:  # which attaches at the first fix of all
            return self._measure_model(fixes)
        pieces = split_positions(len(fixes), len(self.stations))
        return Observations.join([self._measure_model(fixes.select(b)) for b in pieces])

    def draw_reported_m(
        self, ue: IntArray, time_s: FloatArray, position_m: FloatArray
    ) -> FloatArray:
        """Positions (n, 2) of UEs (n,) at times (n,) as they report them: each with a Gaussian
        error of its own.
        """
        stated = self.setting.ues.position_error_m
        trace = self.trace
        if trace is not None and isinstance(stated, str):
            std_m = trace.look_up_error_m(ue, time_s)
        else:
            std_m = np.full(len(ue), float(stated))
        moment = np.round(time_s * 1e3).astype(int)
        error_m = self.ground.streams.derive_rng("ues.position").normal(
            "error", ue, (2,), item=moment
        )
        return position_m + std_m[:, None] * error_m

    def _measure_model(self, fixes: Fixes) -> Observations:
        indoors = self.find_state_indoors(self.state)
        inside = None if indoors is None else indoors.select(fixes.ue)
        return self._report_rsrp(fixes, self.budget.rsrp_dbm(fixes.position_m, inside))

    def _report_rsrp(self, fixes: Fixes, rsrp: FloatArray) -> Observations:
        """Reports of UEs from the RSRP (n, n_bs) at fixes (n,)."""
        n, n_bs = rsrp.shape
        if self.setting.ues.measure == "all":
            row = np.repeat(np.arange(n), n_bs)
            cell = np.tile(np.arange(n_bs), n)
        else:
            row = np.arange(n)
            cell = self._find_measured_cells(fixes, rsrp)
        value = rsrp[row, cell]
        ue = fixes.ue[row]
        time_s = fixes.time_s[row]
        radio = self.setting.radio
        if radio.measurement_noise_db > 0:
            moment = np.round(time_s * 1e3).astype(int)
            rng = self.ground.streams.derive_rng("radio.measurement")
            value += radio.measurement_noise_db * rng.normal(
                "noise", number_row(ue, cell), item=moment
            )
        if (
            radio.report_dbm is not None
        ):  # RSRP_n of LTE says: at least n - 141 dBm and less than n - 140 dBm
            value = np.floor(np.clip(value, *radio.report_dbm))
        return Observations(ue, time_s, fixes.position_m[row], cell, value)

    def _find_measured_cells(self, fixes: Fixes, rsrp_dbm: FloatArray) -> IntArray:
        """The cell that each fix measures: the strongest, or the attached one where handover is
        modelled.

        A UE that has no cell yet attaches at its first fix.
        """
        if self.handover is None or self.attached is None:
            return np.argmax(rsrp_dbm, axis=1)
        ue, first = np.unique(fixes.ue, return_index=True)
        self.attached = self.handover.attach(self.attached, ue, rsrp_dbm[first])
        return self.attached.serving[fixes.ue]

    def _attach(self, time_s: float) -> None:
        """Look at the serving cells once, where handover is modelled."""
        if self.handover is None or self.attached is None or not self.stations:
            return
        rsrp = self._compute_state_links(self.state).rsrp_dbm
        before = self.attached.serving
        self.attached, moved = self.handover.step(self.attached, rsrp, time_s)
        self._settled = not (moved.any() or np.isfinite(self.attached.since_s).any())
        for ue in np.flatnonzero(moved):
            cells = before[ue], self.attached.serving[ue]
            self.handovers.append(HandoverEvent(time_s, int(ue), *cells, *rsrp[ue, cells]))

    def drain_handovers(self) -> list[HandoverEvent]:
        """The handovers since the last call."""
        events = self.handovers
        self.handovers = []
        return events

    def follow(self, looks: Looks) -> None:
        """Take tracks from now on; called at time 0, or before `resume`."""
        self.tracks = Tracks(looks, Trail.start(looks))

    def _look_at(self, state: State, served: Attachment | None) -> UeStates:
        indoors = self.find_state_indoors(state)
        n = len(self.ues)
        inside = np.zeros(n, bool) if indoors is None else indoors.inside
        return UeStates(
            state.position_m, inside, np.full(n, -1) if served is None else served.serving
        )

    def find_serving(self, links: RadioLinks) -> IntArray:
        """The base station of every UE now (n_ue,), -1 for none."""
        if self.attached is None:
            return links.serving
        return self.attached.serving

    def measure_network(
        self, links: RadioLinks, position_m: FloatArray, cell: IntArray, granted: Collection[str]
    ) -> NetworkFixes:
        """What base stations measure of UEs (n,) at positions (n, 2) over links, by their cells
        (n,): what is granted of it (see `netsim.radio.positioning`).
        """
        part = self.setting.radio.positioning
        rng = self.ground.streams.derive_rng("radio.positioning")
        ue = np.arange(len(cell))
        seen = links.los[ue, cell]
        square = np.nan_to_num(position_m // SQUARE_M) @ [2.0**20, 1.0]  # of as many rows
        place = square.astype(int)
        step_m = max(part.timing_step_m, 1e-6)  # 0 is exact
        excess_m = EXCESS_MEDIAN_M * 10.0 ** (
            EXCESS_DECADES * rng.normal("excess", place, item=cell)
        )
        path_m = links.distance_m[ue, cell] + np.where(seen, 0.0, excess_m)
        error_deg = np.where(
            seen,
            part.angle_los_deg * rng.normal("angle", ue, item=round(links.time_s * 1e3)),
            part.angle_nlos_deg * rng.normal("reflection", place, item=cell),
        )
        offset_m = position_m - self.budget.at_m[cell]
        level_dbm = np.full(links.rsrp_dbm.shape, np.nan)
        left_dbm = np.round(links.rsrp_dbm)
        site = number_sites(self.stations)
        for _ in range(min(N_LEVELS, site.max() + 1) if "levels" in granted else 0):
            best = left_dbm.argmax(axis=1)
            level_dbm[ue, best] = left_dbm[ue, best]
            left_dbm[site[best, None] == site] = -inf
        is_served = cell >= 0
        has_path = is_served & ("timing-advance" in granted)
        has_angle = is_served & ("angle" in granted)
        level_dbm[~is_served] = np.nan
        return NetworkFixes(
            cell,
            np.where(has_path, step_m * np.round(path_m / step_m), np.nan),
            np.where(has_angle, np.degrees(np.arctan2(*offset_m.T)) + error_deg, np.nan),
            level_dbm,
        )

    def draw_fading(
        self, ue: IntArray, n_bs: int, round_: RoundIndex, time_s: float, name: str = ""
    ) -> ComplexArray | None:
        """Small-scale amplitudes (n, n_bs, antennas) of UEs (n,) in a round; None without fading.
        name : of other antennas than the world's base stations.
        """
        fading = self.setting.radio.fading
        rng = self.ground.streams.derive_rng(f"radio.fading{name}")
        return fading.draw_amplitudes(ue, n_bs, fading.find_block(round_, time_s), rng)

    def build_cohort(
        self, ue: IntArray, links: RadioLinks, round_: int, rows: IntArray, samples: FloatArray
    ) -> Cohort:
        """The UEs (n,) that transmit: their links, fading, and training before it.

        rows (n,) of the round that each sends, samples (n,) that it trained on, every pass counted.
        """
        n_bs = len(self.stations)
        serving = self.find_serving(links)[ue]
        sinr = np.full(len(ue), np.inf)
        if n_bs:
            sinr = links.compute_sinr(self.setting.radio.downlink.noise_dbm, (ue, serving))
            sinr[serving < 0] = 0.0
        # of all UEs nothing is copied
        complete = len(ue) == len(self.ues) and (ue == np.arange(len(ue))).all()
        fading = self.draw_fading(ue, n_bs, round_, links.time_s)
        gain = links.gain if complete else links.gain[ue]
        compute_s = self.training_s_per_sample[ue] * samples
        compute_j = self.setting.ues.compute_j_per_sample * samples
        return Cohort(
            ue=ue,
            serving=serving,
            gain=gain,
            fading=fading,
            power_w=np.zeros(len(ue)),
            rows=rows,
            downlink_sinr=sinr,
            compute_s=compute_s,
            compute_j=compute_j,
        )

    def link_elsewhere(self, antenna: BaseStation) -> KeptLinks:
        """The links of one antenna elsewhere, without images; a law is used below the heights of
        its publication.

        At the place of a base station it has the shadowing and the sight of that site, for
        obstacles are the same.
        """
        if antenna not in self._elsewhere:
            site = number_sites((*self.stations, antenna))
            is_known = (site[:-1] == site[-1]).any()
            drawn, name = (site[-1:], "") if is_known else (np.zeros(1, int), ".elsewhere")
            budget = draw_budget(self.setting, (antenna,), drawn, self.ground, name)
            self._elsewhere[antenna] = KeptLinks(replace(budget, shifts_m=NO_SHIFT_M))
        return self._elsewhere[antenna]

    def build_cohort_at(
        self,
        antenna: BaseStation,
        cohort: Cohort,
        time_s: float,
        round_: int,
        antennas: int | None = None,
    ) -> tuple[Cohort, RadioLinks]:
        """The same UEs, with their own cells, as an eavesdropper's antenna receives them, and its
        links.

        Path loss, sight and shadowing are those of the city, drawn for that place; antennas : None:
        as many as a base station, and never more.
        """
        links = self.link_elsewhere(antenna).compute_links(
            time_s, self.locate_ues(), self.find_indoors()
        )
        amplitude = self.draw_fading(cohort.ue, 1, round_, time_s, ".elsewhere")
        nothing = np.zeros(len(cohort.ue))
        heard_amplitude = None if amplitude is None else amplitude[:, :, :antennas]
        unlimited = np.full(len(cohort.ue), np.inf)
        gain = links.gain.take(cohort.ue, axis=0)
        heard = replace(
            cohort,
            gain=gain,
            fading=heard_amplitude,
            downlink_sinr=unlimited,
            compute_s=nothing,
            compute_j=nothing,
            limit_s=inf,
        )
        return heard, links


def make_look(world: World, power: Power | None = None) -> Look:
    """Looks at the UEs of a world where they are at the time of the call; power: the policy by
    which they send.

    Looks at multiples of the world's tick change nothing of the world. Looks between ticks move UEs
    there as well, and evaluate the conditions of handovers there.
    """

    def look(ue: IntArray, round_: IntArray) -> SeenLinks:
        links = world.compute_links()
        fading = world.draw_fading(ue, links.gain.shape[1], round_, links.time_s)
        serving = world.find_serving(links).take(ue)
        gain = links.gain.take(ue, axis=0)
        power_w = None
        if power is not None and power.follows_links:
            power_w, _ = power.select_ues(ue).power_w(
                gain, serving, world.max_power_w, None, world.ground.streams.derive_rng("power")
            )
        return SeenLinks(serving, gain, fading, power_w)

    return look
