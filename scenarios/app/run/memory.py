"""The peak memory of a run, estimated from its scenario before anything is allocated.

A run takes what the program itself takes, and shares that grow with the scenario: arrays of UEs and base stations,
grids of shadowing and of line of sight, measurements, models of devices, maps of attacks, tables that are read back.
Each share is a count times bytes. The counts follow from the scenario; the bytes of one were fitted to the peak memory
of runs, and rounded up (docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np

from fl.learning import Learning
from fl.types import DatasetStatistics, Public
from netsim.base_stations import BaseStation, sites
from netsim.build import stations_of
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.traces.trace import Trace
from scenarios.app.run.antennas import antennas_of
from scenarios.app.run.memory_limit import GB, limit
from scenarios.app.study.study import Study

_PROGRAM, _LEARNING = 0.3e9, 0.55e9  # of all runs, and what learning adds: PyTorch and its libraries
_LINK = 200.0  # of a UE and a base station: the arrays of a tick
_UE = 20_000.0  # its state, its track, its rows in memory
_SIGNAL, _KEPT, _REHEARSED = 700.0, 150.0, 200.0  # of a signal in its round, until the run ends, and in a rehearsal
_NUMBER = 8.0 * 5  # of a parameter of an update: as made, defended, sent, received, and read by attacks
_CELL_CSV, _CELL_PARQUET, _CELL = 130.0, 24.0, 16.0  # of a table: as it is read, and afterwards
_TRACE = 8.0  # of a byte of a file of measurements, unpacked
_PACKED = 10.0  # unpacked bytes of one of a packed file


@dataclass(frozen=True)
class Share:
    """Memory that one key of a scenario decides most: bytes, the key, of what, and what takes less."""

    bytes: float
    place: str
    what: str
    remedy: str


@dataclass(frozen=True)
class _Size:
    """Counts of a study: UEs, base stations and their sites, measured signals of a round and of the whole run."""

    area: Area
    stations: tuple[BaseStation, ...]
    trace: Trace | None
    n_ue: int
    cells: tuple[str, ...]
    per_round: float
    in_all: float
    duration_s: float
    rounds: int

    @property
    def n_site(self) -> int:
        return int(sites(self.stations).max(initial=-1)) + 1


def check_memory(study: Study, memory_gb: float | None = None, parquet: bool = False, at_once: int = 1) -> float:
    """Bytes that a run of the study needs at most, about; raises BadInput where that is above its part of the limit.

    memory_gb : the limit; None: that of the machine. parquet : whether its tables are kept so. at_once : runs that
    share the limit, each an equal part of it.
    """
    most, found = limit(memory_gb), [_program(study), *_files(study)]
    part = most.bytes / at_once
    if _total(found) <= part:  # else the trace is not read
        found += _shares(study, parquet)
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


def _program(study: Study) -> Share:
    """The program and its libraries; learning needs PyTorch."""
    if study.learning is None:
        return Share(_PROGRAM, "world", "the program", "")
    return Share(_PROGRAM + _LEARNING, "learning", "the program", "")


def memory_text(n_bytes: float) -> str:
    """`0.004 GB`, `0.4 GB`, `38 GB`."""
    gb = n_bytes / GB
    if gb < 0.095:
        return f"{gb:.1g} GB"
    return f"{gb:.1f} GB" if gb < 9.95 else f"{gb:,.0f} GB"


def _shares(study: Study, parquet: bool) -> Iterator[Share]:
    """The shares of a study that grow with it; recorded measurements are read, nothing else is built."""
    size = _size(study)
    worlds = 1 + (study.learning is not None and study.learning.learner.wants_sampled_places) + _rehearses(study)
    yield from _radio(study, size, worlds)
    yield Share(
        _UE * size.n_ue, "world.ues.count", f"{size.n_ue:,} UEs", "take fewer UEs"
    )  # fmt: skip
    if study.learning is not None:
        yield from _learning(study, study.learning, size, parquet)


def _files(study: Study) -> Iterator[Share]:
    """Recorded measurements: rows and what is made of them while they are read."""
    if not study.world.ues.mobility.replays:
        return
    from netsim.mobility.replay import Replay  # whoever replays has it by now

    mobility = study.world.ues.mobility
    for path in [mobility.trace] if isinstance(mobility, Replay) else []:
        try:
            n_bytes = float(Path(path).stat().st_size)
        except (OSError, ValueError):
            continue  # whoever reads it complains
        packed = Path(path).suffix in (".gz", ".zip", ".bz2", ".xz")
        yield Share(
            n_bytes * _TRACE * (_PACKED if packed else 1.0), "world.ues.mobility.trace", "the rows of the trace",
            "cut it to fewer users or days",
        )  # fmt: skip


def _size(study: Study) -> _Size:
    """Reads the trace, if there is one, and places base stations; builds nothing else."""
    world, ues = study.world, study.world.ues
    trace = ues.mobility.load(study.round_s)
    area = world.city.area(None if trace is None else trace.area)
    stations = stations_of(world, area, trace, None)
    n_ue = ues.count if trace is None else len(trace.users)
    last_s = 0.0 if trace is None else trace.ends_s or float(trace.time_s.max())
    duration_s = last_s if world.duration_s is None else world.duration_s
    rounds = max(ceil(duration_s / study.round_s), 1)
    if study.learning is not None and study.learning.rounds is not None:
        rounds = min(rounds, study.learning.rounds)
    span_s = min(duration_s, rounds * study.round_s)
    if trace is not None:
        in_all = float(len(trace.time_s))
        per_round = min(in_all, 3 * in_all / rounds)  # days differ
    else:
        per_h = ues.mobility.fixes_per_h() if ues.measure_every_s is None else 3600 / ues.measure_every_s
        per_round, in_all = (n_ue * per_h * of_s / 3600 for of_s in (min(study.round_s, span_s), span_s))
    silent = trace is None or trace.rsrp_dbm is None
    cells = tuple(b.name for b in stations) if silent else (trace.cells if trace else ()) or ("all",)
    signals = len(cells) if ues.measure == "all" and silent else 1
    return _Size(area, stations, trace, n_ue, cells, signals * per_round, signals * in_all, duration_s, rounds)


def _radio(study: Study, size: _Size, worlds: int) -> Iterator[Share]:
    """Grids of laws of place, and arrays of all links; worlds : that are there at a time."""
    radio, n_site = study.world.radio, size.n_site
    shadowing = radio.shadowing.under(radio.path_loss)
    yield Share(
        worlds * shadowing.held_bytes(size.area, n_site), "world.radio.shadowing",
        f"grids of {n_site:,} sites over {size.area.side_m[0]:,.0f} x {size.area.side_m[1]:,.0f} m",
        "give a larger decorrelation_m or grid_m, or take a smaller area or fewer sites",
    )  # fmt: skip
    yield Share(
        worlds * radio.line_of_sight.held_bytes(size.area, n_site), "world.radio.line_of_sight",
        f"grids of {n_site:,} sites over {size.area.side_m[0]:,.0f} x {size.area.side_m[1]:,.0f} m",
        "give a larger decorrelation_m, or take a smaller area or fewer sites",
    )  # fmt: skip
    links = size.n_ue * len(size.stations)
    yield Share(
        _LINK * links, "world.ues.count", f"{size.n_ue:,} UEs x {len(size.stations):,} base stations",
        "take fewer UEs or base stations",
    )  # fmt: skip


def _rehearses(study: Study) -> bool:
    """Whether a world is played to its end before learning begins."""
    learning = study.learning
    return learning is not None and (learning.learner.wants_dataset_statistics or learning.data.wants_counts)


def _learning(study: Study, learning: Learning, size: _Size, parquet: bool) -> Iterator[Share]:
    every = "learning.round_s" if study.world.ues.measure_every_s is None else "world.ues.measure_every_s"
    yield Share(
        _SIGNAL * size.per_round, every, f"{size.per_round:,.0f} measurements of a round",
        "measure less often, or take shorter rounds or fewer UEs",
    )  # fmt: skip
    stated = size.rounds == learning.rounds  # else the world ends first
    place, remedy = ("learning.rounds", "play fewer rounds") if stated else ("world.duration_s", "take a shorter world")
    yield Share(
        _KEPT * size.in_all, place, f"{size.in_all:,.0f} measurements of {size.rounds:,} rounds",
        f"{remedy}, or take fewer UEs",
    )  # fmt: skip
    if _rehearses(study):
        whole = size.in_all * size.duration_s / min(size.duration_s, size.rounds * study.round_s)
        yield Share(
            _REHEARSED * whole, "world.duration_s", f"{whole:,.0f} measurements that are counted before the run",
            "take a shorter world, standardise_by: public, or name a cell",
        )  # fmt: skip
    yield from _models(study, learning, size)
    targets = min(learning.threat.targets or size.n_ue, size.n_ue)
    for i, attack in enumerate(learning.attacks):
        yield Share(
            attack.held_bytes(size.area, targets), f"learning.attacks[{i}]", f"maps of {targets:,} UEs",
            "take a larger cell_m, or attack fewer UEs with threat.targets",
        )  # fmt: skip
    yield _tables(learning, size, parquet)


def _models(study: Study, learning: Learning, size: _Size) -> Iterator[Share]:
    """Updates of all devices, and the surfaces that an attacker writes out."""
    counts = np.ones(len(size.cells), dtype=np.int64) if learning.data.wants_counts else None
    models = learning.data.models(size.cells, counts)
    public = Public(
        size.area, len(models), DatasetStatistics(np.zeros((len(models), 2)), np.ones((len(models), 2))),
        antennas_of(size.stations, size.cells), study.world.ues.height_m, learning.data.image_format(),
        np.array([size.area.low_m, size.area.centre_m, size.area.high_m]), len(size.cells),
    )  # fmt: skip
    parameters = learning.learner.n_parameters(public, Streams(study.seed).at("learner.init"))
    asked = max(ceil(size.n_ue * learning.participation), 1)
    rows = min(asked * len(models), max(size.per_round, asked)) if not public.images else asked
    surfaces = "surfaces" in learning.learner.offers  # which are sent as the places that they are of
    sent = 0 if surfaces and not learning.defenses else parameters
    trained = learning.learner.step_bytes(public, asked * len(models), size.per_round)
    yield Share(  # copies of updates are there when all are trained
        max(_NUMBER * rows * sent, trained), "learning.learner",
        f"{rows:,.0f} updates of {parameters:,} parameters",
        "take a smaller model or batch_size, fewer UEs, or a smaller learning.participation",
    )  # fmt: skip
    if surfaces and learning.attacks and learning.threat.sees == "rows":
        after = min(learning.threat.targets or size.n_ue, size.n_ue)
        yield Share(
            8.0 * after * parameters, "learning.threat.targets", f"surfaces of {after:,} UEs",
            "attack fewer UEs, or take a coarser grid",
        )  # fmt: skip


def _tables(learning: Learning, size: _Size, parquet: bool) -> Share:
    """Tables that are read back for the summary and the page: the largest as it is read, all of them afterwards."""
    rows = min(max(ceil(size.n_ue * learning.participation), 1) * max(len(size.cells), 1), max(size.per_round, 1))
    rows = min(rows, max(size.n_ue * learning.participation, 1) * 2) * size.rounds
    attacks = max(len(learning.attacks), 1)
    cells = {"leakage": 40 * rows * attacks, "estimates": 15 * 3 * rows * attacks, "updates": 36 * rows}
    read = _CELL_PARQUET if parquet else _CELL_CSV
    stated = size.rounds == learning.rounds  # else the world ends first
    place, remedy = ("learning.rounds", "play fewer") if stated else ("learning.round_s", "take longer")
    return Share(
        _CELL * sum(cells.values()) + read * max(cells.values()), place,
        f"tables of {rows:,.0f} updates in {size.rounds:,} rounds",
        f"{remedy} rounds, attack less, or add --records parquet",
    )  # fmt: skip
