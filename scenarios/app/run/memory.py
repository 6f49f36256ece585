"""The peak memory of a run, estimated from its scenario before anything is allocated.

A run takes what the program takes, and what a few arrays take that grow with the scenario: grids of shadowing and of
sight, links of all UEs to all base stations, measurements, updates of a round, maps of attacks, tables that are read
back. Each is a count times bytes. Counts of a trace are those of the UEs that it has in each round; bytes were fitted
to the peaks of runs and rounded up, at most to twice the peak of the whole (docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np

from fl.data.measured import Measured
from fl.learning import Learning
from fl.types import DatasetStatistics, Public
from netsim.base_stations import BaseStation, sites
from netsim.build import stations_of
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.mobility.replay import Replay
from netsim.rng import Streams
from netsim.traces.trace import Trace
from netsim.units import FloatArray, IntArray
from scenarios.app.run.antennas import antennas_of
from scenarios.app.run.memory_limit import GB, limit
from scenarios.app.study.study import Study

_PROGRAM, _LEARNING = 0.28e9, 0.5e9  # of all runs, and what learning adds: PyTorch and its libraries
_LINK, _UE = 200.0, 2_000.0  # of a UE and a base station in a tick; of a UE
_MEASURED, _KEPT = 700.0, 150.0  # of a measurement in its round, and until the run ends
_NUMBER, _NOISE = 8.0 * 4, 8.0 * 3  # of a parameter of an update: as made, sent, received, in an attack; noise on it
_CELL_CSV, _CELL_PARQUET = 130.0, 24.0  # of the largest table, as it is read
_LEAKAGE_COLUMNS = 34.0
_TRACE, _PACKED = 4.0, 8.0  # of a byte of a file of fixes while it is read; unpacked bytes of one of a packed file


@dataclass(frozen=True)
class Share:
    """Memory that one key of a scenario decides most: bytes, the key, of what, and what takes less."""

    bytes: float
    place: str
    what: str
    remedy: str


@dataclass(frozen=True)
class _Counts:
    """Updates and measurements: of the largest round, and of all rounds that are played."""

    updates: float
    all_updates: float
    measured: float
    all_measured: float
    rounds: int


def check_memory(study: Study, memory_gb: float | None = None, parquet: bool = False, at_once: int = 1) -> float:
    """Bytes that a run of the study needs at most, about; raises BadInput where that is above its part of the limit.

    memory_gb : the limit; None: that of the machine. parquet : whether its tables are kept so. at_once : runs that
    share the limit, each an equal part of it.
    """
    most, program, reading = limit(memory_gb), _program(study), list(_file(study))
    part, found = most.bytes / at_once, [program, *reading]
    if _total(found) <= part:  # else the trace is not read
        found = [program, *max(reading, list(_shares(study, parquet)), key=_total)]  # it has been when the run begins
    total = _total(found)
    if total > part:
        largest = max(found, key=lambda share: share.bytes)
        shared = f", {memory_text(most.bytes)} for {at_once} runs at once" if at_once > 1 else ""
        remedies = [largest.remedy, "lower --jobs" if at_once > 1 else "", f"raise {most.option}"]
        raise BadInput(
            f"{largest.place}: the run needs about {memory_text(total)} of memory, above the limit of "
            f"{memory_text(part)} ({most.source}{shared}), {memory_text(largest.bytes)} of it for {largest.what}; "
            f"{', or '.join(remedy for remedy in remedies if remedy)}"
        )
    return total


def _total(shares: Sequence[Share]) -> float:
    return sum(share.bytes for share in shares)


def memory_text(n_bytes: float) -> str:
    """`0.004 GB`, `0.4 GB`, `38 GB`."""
    gb = n_bytes / GB
    if gb < 0.095:
        return f"{gb:.1g} GB"
    return f"{gb:.1f} GB" if gb < 9.95 else f"{gb:,.0f} GB"


def _program(study: Study) -> Share:
    """The program and its libraries; learning needs PyTorch."""
    if study.learning is None:
        return Share(_PROGRAM, "world", "the program", "")
    return Share(_PROGRAM + _LEARNING, "learning", "the program", "")


def _file(study: Study) -> Iterator[Share]:
    """Rows of a trace, and what is made of them while they are read."""
    mobility = study.world.ues.mobility
    path = Path(mobility.trace) if isinstance(mobility, Replay) else None
    if path is not None and path.is_file():  # whoever reads it complains of any other
        packed = path.suffix in (".gz", ".zip", ".bz2", ".xz")
        yield Share(
            path.stat().st_size * _TRACE * (_PACKED if packed else 1.0), "world.ues.mobility.trace",
            "the rows of the trace", "cut it to fewer users or days",
        )  # fmt: skip


def _shares(study: Study, parquet: bool) -> Iterator[Share]:
    """What grows with the study. A trace is read and base stations are placed; nothing else is built."""
    world, learning = study.world, study.learning
    trace = world.ues.mobility.load(study.round_s)
    area = world.city.area(None if trace is None else trace.area)
    stations = stations_of(world, area, trace, None)
    n_ue = world.ues.count if trace is None else len(trace.users)
    rehearses = learning is not None and (learning.learner.wants_dataset_statistics or learning.data.wants_counts)
    sampled = learning is not None and learning.learner.wants_sampled_places
    yield from _radio(study, area, stations, worlds=1 + rehearses + sampled)
    yield Share(
        _UE * n_ue + _LINK * n_ue * len(stations), "world.ues.count",
        f"{n_ue:,} UEs x {len(stations):,} base stations", "take fewer UEs or base stations",
    )  # fmt: skip
    if learning is None:
        return
    silent = trace is None or trace.rsrp_dbm is None
    cells = tuple(b.name for b in stations) if silent else (trace.cells if trace else ()) or ("all",)
    models = learning.data.models(cells, np.ones(len(cells), dtype=np.int64) if learning.data.wants_counts else None)
    n = len(models)
    counts = _drawn(study, n_ue, cells, n) if trace is None else _recorded(study, trace, stations, n)
    every = "learning.round_s" if world.ues.measure_every_s is None else "world.ues.measure_every_s"
    yield Share(
        _MEASURED * counts.measured, every, f"{counts.measured:,.0f} measurements of a round",
        "measure less often, or take shorter rounds or fewer UEs",
    )  # fmt: skip
    stated = counts.rounds == learning.rounds  # else the world ends first
    place, remedy = ("learning.rounds", "play fewer rounds") if stated else ("world.duration_s", "take a shorter world")
    yield Share(
        _KEPT * (1 + rehearses) * counts.all_measured, place,
        f"{counts.all_measured:,.0f} measurements of {counts.rounds:,} rounds", f"{remedy}, or take fewer UEs",
    )  # fmt: skip
    yield _updates(study, learning, area, stations, cells, models, counts)
    attacked = min(learning.threat.targets or n_ue, n_ue)
    for i, attack in enumerate(learning.attacks):
        yield Share(
            attack.fitted(learning.learner, area).held_bytes(area, attacked), f"learning.attacks[{i}]",
            f"maps of {attacked:,} UEs",
            "take a larger cell_m, or attack fewer UEs with threat.targets",
        )  # fmt: skip
    rows = counts.all_updates * attacked / max(n_ue, 1) * len(learning.attacks) / learning.leakage.every_rounds
    place, remedy = ("learning.rounds", "play fewer") if stated else ("learning.round_s", "take longer")
    yield Share(
        (_CELL_PARQUET if parquet else _CELL_CSV) * _LEAKAGE_COLUMNS * rows, place,
        f"leakage of {rows:,.0f} updates in {counts.rounds:,} rounds",
        f"{remedy} rounds, attack less, or add --records parquet",
    )  # fmt: skip


def _radio(study: Study, area: Area, stations: tuple[BaseStation, ...], worlds: int) -> Iterator[Share]:
    """Grids of laws of place; worlds : that are there at a time."""
    radio, n_site = study.world.radio, int(sites(stations).max(initial=-1)) + 1
    for key, law in (("shadowing", radio.shadowing.under(radio.path_loss)), ("line_of_sight", radio.line_of_sight)):
        yield Share(
            worlds * law.held_bytes(area, n_site), f"world.radio.{key}",
            f"grids of {n_site:,} sites over {area.side_m[0]:,.0f} x {area.side_m[1]:,.0f} m",
            "give a larger decorrelation_m or grid_m, or take a smaller area or fewer sites",
        )  # fmt: skip


def _drawn(study: Study, n_ue: int, cells: tuple[str, ...], n_models: int) -> _Counts:
    """Counts of a world whose UEs are drawn: all of them are there in every round."""
    ues, learning, duration_s = study.world.ues, study.learned, study.world.duration_s or 0.0
    rounds = max(ceil(duration_s / study.round_s), 1)
    rounds = min(rounds, learning.rounds or rounds)
    span_s = min(duration_s, rounds * study.round_s)
    per_h = ues.mobility.fixes_per_h() if ues.measure_every_s is None else 3600 / ues.measure_every_s
    per_h *= n_ue * (len(cells) if ues.measure == "all" else 1)
    measured = per_h * min(study.round_s, span_s) / 3600
    asked = max(ceil(n_ue * learning.participation), 1)
    updates = min(asked * n_models, max(measured, asked))
    return _Counts(updates, min(updates, 2.0 * asked) * rounds, measured, per_h * span_s / 3600, rounds)


def _recorded(study: Study, trace: Trace, stations: tuple[BaseStation, ...], n_models: int) -> _Counts:
    """Counts of a trace, round by round: a UE that is there has an update for each cell that it measures; where cells
    are not recorded, for each nearest base station.
    """
    ues, learning, silent = study.world.ues, study.learned, trace.rsrp_dbm is None
    used = trace.time_s <= (study.world.duration_s or np.inf)
    round_, user = np.ceil(trace.time_s[used] / study.round_s).astype(np.int64), trace.user[used]
    every = silent and ues.measure == "all"
    cell: IntArray = np.zeros(len(user), dtype=np.int64)
    if n_models > 1 and not silent and trace.cell is not None:
        cell = trace.cell[used]
    elif n_models > 1 and not every:
        from scipy.spatial import KDTree

        cell = KDTree([b.at_m for b in stations]).query(trace.position_m[used])[1]
    pairs = np.unique(np.stack([round_, user, cell]), axis=1)
    updates, measured = _in_each(pairs[0]), _in_each(round_)
    if ues.measure_every_s is not None:  # between fixes as well
        present = np.unique(np.stack([round_, user]), axis=1)[0]
        measured = _in_each(present) * study.round_s / ues.measure_every_s
    if every:
        updates, measured = updates * n_models, measured * len(stations)
    played = min(len(updates), learning.rounds or len(updates))
    updates, measured = learning.participation * updates[:played], measured[:played]
    most = max(float(updates.max(initial=0)), 1.0)
    return _Counts(most, float(updates.sum()), float(measured.max(initial=0)), float(measured.sum()), played)


def _in_each(round_: IntArray) -> FloatArray:
    """How many there are in each round that has any, in order."""
    return np.unique(round_, return_counts=True)[1].astype(np.float64)


def _updates(
    study: Study, learning: Learning, area: Area, stations: tuple[BaseStation, ...], cells: tuple[str, ...],
    models: tuple[str, ...], counts: _Counts,
) -> Share:  # fmt: skip
    """Updates of all devices in the largest round, or what they are trained with; copies are there when all are."""
    n = len(models)
    public = Public(
        area, n, DatasetStatistics(np.zeros((n, 2)), np.ones((n, 2))), antennas_of(stations, cells),
        study.world.ues.height_m, learning.data.image_format(), np.array([area.low_m, area.centre_m, area.high_m]),
        len(cells),
    )  # fmt: skip
    parameters = learning.learner.n_parameters(public, Streams(study.seed).at("learner.init"))
    places = "surfaces" in learning.learner.offers and not learning.defenses  # sent as the places that they are of
    noisy = study.world.radio.uplink.adds_noise or any(d.noise_on_device for d in learning.defenses)
    number = _NUMBER + _NOISE * noisy
    held = 8.0 * (learning.threat.targets or counts.updates) if places else number * counts.updates
    trained, memory = counts.measured, learning.data.memory if isinstance(learning.data, Measured) else "round"
    if memory != "round":
        trained = counts.all_measured if memory == "all" else trained + counts.updates * memory
    stepped = learning.learner.step_bytes(public, ceil(counts.updates), trained)
    if places and held * parameters > stepped:
        return Share(
            held * parameters, "learning.threat.targets",
            f"{parameters:,} parameters for surfaces of {learning.threat.targets or ceil(counts.updates):,} UEs",
            "attack fewer UEs, or take a coarser grid",
        )  # fmt: skip
    return Share(
        max(held * parameters, stepped), "learning.learner",
        f"{counts.updates:,.0f} updates of {parameters:,} parameters",
        "take a smaller model or batch_size, fewer UEs, or a smaller learning.participation",
    )  # fmt: skip
