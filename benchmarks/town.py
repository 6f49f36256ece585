"""What a town costs: drawing it, building a world in it, and a tick of residents indoors and on its
streets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np

from benchmarks.world import Row, peak_gb, row, size_name, tick_ms
from netsim.city.town import Town, draw_town
from netsim.rng import Streams
from netsim.streets.doors import find_doors
from netsim.world.build import build_world
from netsim.world.setting import WorldSetting

TICK_S = 1.0
MORNING_S = 8 * 3600.0  # of a Monday: people leave for work


@dataclass(frozen=True)
class Bench:
    """Sizes, and the largest figures that are good enough; None for no requirement."""

    side_m: float
    n_bs: int
    n_ue: int
    draw_s: float | None = None
    tick_ms: float | None = None


FULL = Bench(2000.0, 50, 10_000, draw_s=10.0, tick_ms=17.0)
SMALL = Bench(500.0, 2, 20)


def setting(bench: Bench) -> WorldSetting:
    """The `world:` section: UMa with its line of sight, shadowing and penetration, base stations on
    a square grid.
    """
    columns = int(np.ceil(np.sqrt(bench.n_bs)))
    step_m = bench.side_m / columns
    at_m = [
        ((k % columns + 0.5) * step_m, (k // columns + 0.5) * step_m) for k in range(bench.n_bs)
    ]
    return WorldSetting.model_validate(
        {
            "duration_s": 1e6,
            "tick_s": TICK_S,
            "city": {"kind": "town", "width_m": bench.side_m, "height_m": bench.side_m},
            "base_stations": tuple(
                {"name": f"b{k}", "position_m": at} for k, at in enumerate(at_m)
            ),
            "ues": {
                "count": bench.n_ue,
                "mobility": {"kind": "resident"},
                "measurement_period_s": 1e9,
            },
            "radio": {"carrier_hz": 3.5e9, "path_loss": {"kind": "uma"}},
        }
    )


def draw(bench: Bench, seed: int) -> float:
    """Time to draw a town, its street graph and its doors, s."""
    town = Town(width_m=bench.side_m, height_m=bench.side_m)
    streams = Streams(seed)
    draw_town.cache_clear()
    started = perf_counter()
    area = town.area(None)
    graph = town.street_graph(area, streams)
    buildings = town.buildings(area, streams)
    find_doors(buildings.footprint, buildings.height_m, graph)
    return perf_counter() - started


def rows(bench: Bench, seconds: float) -> Iterator[Row]:
    """All rows, each when it is measured."""
    place = f"town of {bench.side_m:g} m x {bench.side_m:g} m"
    draw(bench, 0)  # loads and compiles
    own = {"subject": "town"}
    yield (
        row(
            f"{place}: streets, buildings and doors",
            median(draw(bench, k) for k in (1, 2, 3)),
            "s",
            bench.draw_s,
        )
        | own
    )
    started = perf_counter()
    world = build_world(setting(bench), Streams(1), TICK_S)
    yield (
        row(
            f"{size_name(bench.n_bs, bench.n_ue)} in a {place}: the world",
            perf_counter() - started,
            "s",
        )
        | own
    )
    world.env.run(until=MORNING_S)
    ticks = iter(range(1, 10**9))

    def tick() -> None:
        world.env.run(until=MORNING_S + next(ticks) * TICK_S)
        world.compute_links()

    ms = tick_ms([tick], seconds)[0]
    indoors = world.find_indoors()
    share = round(100.0 * float(indoors.inside.mean()), 1) if indoors is not None else 0.0
    work = f"{size_name(bench.n_bs, bench.n_ue)} in a {place}: one tick of residents from 8 h on"
    yield row(work, ms, "ms", bench.tick_ms, indoor_percent=share) | own
    yield row(f"{work}: peak memory of the process", peak_gb(), "GB") | own
