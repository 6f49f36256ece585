"""From a world and the `learning:` section to rounds that can be played: what cannot be played is
refused here.

    world = build_world(setting, Streams(seed), learning.round_s)
    setup = prepare_rounds(world, learning, folder)
    server = LearningServer(world, setup, start_state(setup, len(world.ues)), watcher)

`netsim.world.build` has the first of these, `fl.round.server` and `fl.round.state` the last.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path

import numpy as np

from fl.availability import HOMES
from fl.notice import Prepared
from fl.radio_map.obstacles import CELLS
from fl.round.caveats import collect_notices
from fl.round.learning import Learning
from fl.round.setup import Setup
from fl.round.tables import TABLES
from fl.types import Antennas, DatasetStatistics, Directory, Public, RoundContext
from netsim.city.base import City
from netsim.clock import DAY_S, WEEK_S
from netsim.columns import MAX_STATIONS
from netsim.errors import BadInput, suggest_nearest
from netsim.geometry import check_near
from netsim.part import Part
from netsim.radio.power import Full, Power
from netsim.record import Recorder
from netsim.streets.graph import StreetGraph
from netsim.traces.home_work import FEWEST_NIGHTS
from netsim.units import IntArray, LatLon
from netsim.world.base_stations import number_sites
from netsim.world.build import build_world
from netsim.world.coverage_law import CoverageLaw
from netsim.world.world import World

FULL_POWER = Full()
MAX_ROUNDS = 1_000_000
MAX_TICKS = 1e8
MAX_ROUND_SAMPLES = 1e8  # measurements of a round, which are held until it ends: tens of GB


def prepare_rounds(
    world: World,
    learning: Learning,
    folder: Path,
    power: Power = FULL_POWER,
    rehearsed: bool = True,
) -> Setup:
    """Return the rounds of learning in a world that was built and not yet played, which gets the
    notices on them; arguments are those of `build_setup`.
    """
    setup = build_setup(world, learning, folder, power, rehearsed)
    learning = setup.learning
    prepared = Prepared(
        learning.curation, learning.defenses, setup.public, partial(_list_rounds, world, setup)
    )
    world.notices += tuple(collect_notices(learning, prepared, world.setting, world))
    return setup


def _list_rounds(world: World, setup: Setup) -> Iterator[RoundContext]:
    """Yield the rounds of a run, of two weeks at most: later ones have the same hours."""
    round_s = setup.learning.round_s
    last = world.clock.count_rounds(min(world.duration_s, 2 * WEEK_S), round_s)
    for number in range(1, min(last, setup.learning.rounds or last) + 1):
        time_s = min(world.clock.compute_round_end_s(number, round_s), world.duration_s)
        yield RoundContext(
            number, time_s, setup.public, round_s=round_s, week_s=world.clock.week_s(time_s)
        )


def build_setup(
    world: World,
    learning: Learning,
    folder: Path,
    power: Power = FULL_POWER,
    rehearsed: bool = True,
) -> Setup:
    """Return the rounds of learning in a world; their records go into the folder.

    power : who sends with how much. Not rehearsed: for a check alone, without what is known only
    once all movement has been played. Raises BadInput: rounds that cannot be played there.
    """
    setting = world.setting
    streams = world.ground.streams
    source = learning.learner
    data = learning.data.fit_world(world.area, find_origin_deg(world))
    known = learning.model_copy(update={"learner": source.trained, "data": data})
    learning = prepare_learner(known, rehearsed)
    learner = learning.learner
    fitted = tuple(attack.fit_cells(learner, world.area) for attack in learning.attacks)
    learning = learning.change("attacks", fitted)
    _check_world(world, learning, power)
    counts = None
    statistics = None
    if learning.learner.wants_dataset_statistics or learning.data.wants_counts:
        counts = np.ones(len(world.cells), dtype=int)  # any cell will do to look at
        if rehearsed:
            counts, statistics = _rehearse(world, learning)
    models = learning.data.choose_models(world.cells, counts)
    if len(models) > MAX_STATIONS:
        raise BadInput(
            f"learning.data.cell: {len(models)} cells make as many models, at most {MAX_STATIONS} "
            "are possible; name one cell, say busiest, or take a smaller area"
        )
    model_of_cell = learning.data.assign_models(world.cells, models)
    days = _find_days(world, model_of_cell)
    sampled_m = None
    if learning.learner.wants_sampled_places and rehearsed:
        from fl.round.collect import find_first_sampled  # not at the top: most checks do without

        sampled_m = find_first_sampled(
            build_world(setting, streams, learning.round_s),
            learning,
            model_of_cell,
            days,
            streams,
        )
    # not where a trace brings them
    cells = world.stations if len(world.stations) == len(world.cells) else ()
    antennas = Antennas.from_stations(cells) if cells else None
    public = Public(
        world.area,
        len(models),
        statistics,
        antennas,
        world.budget.ue_height_m,
        learning.data.read_sample_format(),
        sampled_m,
        len(world.cells),
        model_of_cell,
        origin_deg=find_origin_deg(world),
        residents=_list_residents(world) if learning.threat.knows_homes else None,
        buildings=world.buildings if len(world.buildings) else None,
        coverage=CoverageLaw(setting.radio, world.budget, number_sites(world.stations))
        if antennas
        else None,
        server_momentum=getattr(learning.server_optimiser, "momentum", 0.0),
    )
    if any(attack.reads_the_city for attack in learning.attacks):
        public = add_map(public, world, setting.city)
    if learning.audit is not None and len(learning.learner.phases) == 1:
        d = learning.learner.init(public, streams.derive_rng("learner.init")).parameters.shape[1]
        if 2 * learning.audit.canaries > d:
            raise BadInput(
                f"learning.audit.canaries: {learning.audit.canaries:,} take twice as many "
                f"numbers, and an update has {d:,}; take {d // 2:,} or fewer"
            )
    n_ue = len(world.ues)
    n_targets = min(learning.threat.n_targets or n_ue, n_ue)
    for attack in learning.attacks:
        attack.check(public, n_targets)
    if learning.malicious is not None:
        learning.malicious.check(public)
    last = world.clock.count_rounds(world.duration_s, learning.round_s)
    last = min(last, learning.rounds or last)
    return Setup(
        learning=learning,
        trainer=source.attach(learning.learner, world, learning.round_s, last),
        power=power,
        uplink=setting.radio.uplink,
        air=setting.radio.dynamic_uplink,
        public=public,
        models=models,
        model_of_cell=model_of_cell,
        streams=streams,
        recorder=Recorder(folder, TABLES),
        days=days,
    )


def prepare_learner(learning: Learning, may_import: bool) -> Learning:
    """Return the same with a learner that is ready for the data; BadInput where what it turns out
    to have does not fit to the other parts.
    """
    learner = learning.learner.prepare(learning.data.read_sample_format(), may_import)
    if learner is learning.learner:
        return learning
    prepared = learning.change("learner", learner)
    try:
        prepared.check()
    except ValueError as error:
        raise BadInput(f"learning.{error}") from None
    return prepared


def _find_days(world: World, model_of_cell: IntArray) -> IntArray:
    """Return the days (n,) of 86,400 s on which UEs may measure: all, or those on which a trace has
    rows of a learnt cell.

    Where the extent of a trace is stated they are all of it, whatever the rows are.
    """
    trace = world.trace
    if trace is None or trace.ends_s is not None:
        return np.arange(int(np.ceil(world.duration_s / DAY_S)))
    is_learnt = trace.time_s < world.duration_s
    if trace.cell is not None:
        is_learnt &= model_of_cell[trace.cell] >= 0
    return np.unique(np.floor(trace.time_s[is_learnt] / DAY_S).astype(int))


def _check_world(world: World, learning: Learning, power: Power) -> None:
    """Refuse a world in which the rounds cannot be played, and an eavesdropper far away from it."""
    target = learning.leakage.target
    if target not in ("all", "most-data", *world.ues):
        raise BadInput(
            f"learning.leakage.target: no UE is called {target!r}; say all, most-data, "
            f"or a name{suggest_nearest(target, world.ues)}"
        )
    if CELLS in learning.learner.offers:
        _check_roofs(world)
    every_s = world.setting.ues.measurement_period_s
    round_s = learning.round_s
    check_count("learning.round_s", round_s, world.duration_s / round_s, "rounds", MAX_ROUNDS)
    if every_s is not None and world.trace is None:  # UEs of a trace come and go
        samples = min(round_s, world.duration_s) / every_s * len(world.ues)
        check_count(
            "world.ues.measurement_period_s",
            every_s,
            samples,
            "measurements of a round",
            MAX_ROUND_SAMPLES,
        )
    campaign = getattr(learning.data, "campaign_rounds", 1)
    last = world.clock.count_rounds(world.duration_s, round_s)
    if campaign > max(last, 1):
        raise BadInput(
            f"learning.data.campaign_rounds: UEs measure for {campaign:,} rounds before "
            f"they learn, and the world ends "
            f"after {last:,}; take {last:,} or fewer, or let the world last longer"
        )
    check_ticks(world)
    _check_numbers(learning, len(world.ues))
    _check_homes(world, learning)
    try:
        power.check(len(world.ues))
    except ValueError as error:
        raise BadInput(str(error)) from None
    try:
        learning.check_correlation(world.clock.find_shortest_round_s(last, round_s))
    except ValueError as error:
        raise BadInput(f"learning.{error}") from None
    threat = learning.threat
    if threat.position_m is not None:
        check_near(world.area, threat.position_m, "learning.threat.position_m: the eavesdropper")
    if threat.receiver is not None:
        world.link_elsewhere(threat.receiver)  # refuses a transmitter that its file lacks


def _check_numbers(learning: Learning, n_ue: int) -> None:
    """Refuse a server, or sums, that wait for more updates than there are at a time."""
    server = learning.server
    sums = learning.threat.secagg_threshold
    key = "buffer"
    n_asked = n_ue
    if server.in_rounds:
        key = "merge_after_updates"
        turns = {"poisson": n_ue, "cyclic": ceil(n_ue / learning.separation)}
        n_asked = turns.get(learning.sampling, max(1, round(learning.participation * n_ue)))
    max_updates = min(n_asked, server.waits_for or n_asked)
    rule = learning.aggregation
    if max_updates < rule.fewest_updates:
        raise BadInput(
            f"learning.aggregation: {rule.kind_name()} needs {rule.fewest_updates:,} updates of a "
            f"model, and {max_updates:,} UEs send at a time; let more send, or take a smaller "
            "aggregation.malicious"
        )
    for place, n_wanted, n_sent in (
        (f"server.{key}", server.waits_for, n_asked),
        ("threat.secagg_threshold", sums, max_updates),
    ):
        if n_wanted is not None and n_wanted > n_sent:
            raise BadInput(
                f"learning.{place}: {n_wanted:,} updates are never there at a time, of {n_sent:,} "
                f"UEs; take {n_sent:,} or fewer, or leave it out"
            )


def _check_homes(world: World, learning: Learning) -> None:
    """Refuse parts that ask where UEs live, where none has a home."""
    if np.isfinite(world.places.home_m).all(axis=1).any():
        return
    mobility = f"mobility {world.setting.ues.mobility.kind_name()} gives none"
    if world.places.nights is not None:
        mobility = (
            f"no user of the trace has one (a home takes {FEWEST_NIGHTS} nights that are "
            f"mostly in one place)"
        )
    parts: dict[str, Part] = {"availability": learning.availability}
    parts |= {f"withholding[{i}]": rule for i, rule in enumerate(learning.withholding)}
    asks = ["threat.knowledge: homes: "] if learning.threat.knows_homes else []
    asks += [
        f"{place}: {part.kind_name()} needs homes: {part.needs[HOMES]}, and "
        for place, part in parts.items()
        if HOMES in part.needs
    ]
    if asks:
        raise BadInput(
            f"learning.{asks[0]}{mobility}; take mobility resident or commuter, or leave it out"
        )


def find_origin_deg(world: World) -> LatLon | None:
    """Return latitude and longitude of (0, 0); None for a plane without a geographic origin."""
    return (None if world.trace is None else world.trace.origin_deg) or world.setting.city.origin()


def _list_residents(world: World) -> Directory:
    ues = np.flatnonzero(np.isfinite(world.places.home_m).all(axis=1))
    return Directory(tuple(world.ues[ue] for ue in ues.tolist()), world.places.home_m[ues])


def _check_roofs(world: World) -> None:
    """Refuse base stations inside buildings, or on the ground: a map of obstacles has no link that
    begins there.
    """
    for i, station in enumerate(world.stations):
        (roof_m,) = world.buildings.find_height_m(np.array([station.position_m]))
        if station.height_m <= roof_m:
            raise BadInput(
                f"world.base_stations[{i}].height_m: {station.name} is at {station.height_m:g} m, "
                f"and the ground or roof there at {roof_m:g} m; raise it above, or move it"
            )


def check_ticks(world: World) -> None:
    """Refuse a world that would never end."""
    check_count("world.tick_s", world.tick_s, world.duration_s / world.tick_s, "ticks", MAX_TICKS)


def check_count(key: str, step_s: float, count: float, unit: str, max_count: float) -> None:
    """Refuse a step of time of which there are too many."""
    if count > max_count:
        raise BadInput(
            f"{key}: {step_s:g} s makes {count:.3g} {unit}, at most {max_count:,.0f} are "
            f"possible; take more"
        )


def _rehearse(world: World, learning: Learning) -> tuple[IntArray, DatasetStatistics]:
    """Play the same world once, without learning: counts (n_cells,) of measurements, and their
    statistics.

    Streams depend on names and rounds alone, so the rehearsal measures exactly what the run will.
    """
    rehearsal = build_world(world.setting, world.ground.streams, learning.round_s)
    rehearsal.env.run(until=rehearsal.duration_s)
    seen = rehearsal.drain_observations()
    counts = np.bincount(seen.cell, minlength=len(rehearsal.cells))
    models = learning.data.choose_models(rehearsal.cells, counts)
    model = learning.data.assign_models(rehearsal.cells, models)[seen.cell]
    return counts, DatasetStatistics.from_positions(seen.position_m, model, len(models))


def find_street_graph(world: World, city: City) -> StreetGraph | None:
    """Return the streets that UEs use, or else those of a city in which no UE needs them; None
    where it has none.
    """
    graph = world.ground.graph
    if graph is None:
        return city.street_graph(world.area, world.ground.streams)
    return graph


def add_map(public: Public, world: World, city: City) -> Public:
    """Return what is public where an attacker reads a map: streets and floor areas too."""
    graph = find_street_graph(world, city)
    return replace(
        public,
        street_m=None if graph is None else graph.to_pieces(),
        floor_area=world.buildings.measure_middles_and_floor_areas(),
    )
