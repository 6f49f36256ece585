"""What a round of a radio map costs: cells under links, gradients of all devices, and noise along a
ramp.

The city is 300 m x 300 m of 10,000 cells, with 100 UEs and 200 base stations at 50 m. The printed
algorithm, a bisection within an ascent of the slope within an ascent of the direction, is timed on
a few UEs beside ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle
from statistics import median
from time import process_time

import numpy as np

from benchmarks.paired import beside, timed
from benchmarks.world import Row, exponent, peak_gb, row
from fl.defenses.shaped_noise import Alignment
from fl.radio_map.obstacles import (
    GridLinks,
    build_height_grid,
    compute_height_gradient,
    find_crossings,
    standardise_distance,
    to_theta,
)
from fl.tracking.place_grid import PlaceGrid
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.units import FloatArray, IntArray

AREA = Area(0.0, 0.0, 300.0, 300.0)
MU = 50.0
RHO = 50.0
SCALE_M = 2.0
# iterations of the printed algorithm
OUTER = 20
INNER = 20
BISECTIONS = 60


@dataclass(frozen=True)
class Bench:
    """How many UEs, base stations and cells along a side; UEs of the printed algorithm; the bars of
    the full size.
    """

    ues: int
    stations: int
    cells: int
    nested_ues: int
    gradient_s: float | None = None
    noise_s: float | None = None
    faster: float | None = None
    memory_gb: float | None = None


FULL = Bench(100, 200, 100, 2, gradient_s=0.5, noise_s=1.0, faster=700.0, memory_gb=1.0)
SMALL = Bench(4, 6, 20, 1)


def ends_m(bench: Bench) -> tuple[FloatArray, FloatArray]:
    """Both ends of every link, (n, 3) each."""
    rng = Streams(0).derive_rng("benchmark.radio-map")
    ue = AREA.sample(rng.uniform("ue", np.arange(bench.ues), (2,)))
    bs = AREA.sample(rng.uniform("bs", np.arange(bench.stations), (2,)))
    a = np.repeat(np.column_stack([ue, np.full(len(ue), 1.5)]), len(bs), axis=0)
    return a, np.tile(np.column_stack([bs, np.full(len(bs), 50.0)]), (len(ue), 1))


def links(bench: Bench, grid: PlaceGrid) -> GridLinks:
    """Measurements that miss the law by a few dB."""
    a, b = ends_m(bench)
    x = standardise_distance(np.linalg.norm(a - b, axis=1))
    noise = Streams(0).derive_rng("benchmark.radio-map").normal("gain", np.arange(len(a)))
    return GridLinks(
        find_crossings(grid, a, b),
        x,
        -80 - 8 * x + 6 * noise,
        np.repeat(np.arange(bench.ues), bench.stations),
    )


def seconds_of(task: Callable[[], object], seconds: float) -> float:
    """Median CPU time of a call: on one thread it is the time, and it does not see what else the
    machine does.
    """
    task()
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        started = process_time()
        task()
        times.append(process_time() - started)
    return median(times)


def nested(g: FloatArray, centre_m: FloatArray, place_m: FloatArray) -> FloatArray:
    """The printed Algorithm 1 for one device, g (M,): central differences, a fixed number of
    ascents; sigma^2 (M,).
    """
    budget = MU * g.sum()
    law = Alignment(g[None], AREA, place_m[None], MU, RHO)

    def allocated(u: FloatArray, r: float) -> FloatArray:
        ramp = r * (centre_m @ u)
        low = float((g - ramp).min())
        high = float((g - ramp).max() + budget)
        for _ in range(BISECTIONS):
            b = (low + high) / 2
            low, high = (b, high) if np.maximum(0.0, ramp + b - g).sum() < budget else (low, b)
        return np.maximum(0.0, ramp + b - g)

    def value(u: FloatArray, r: float) -> float:
        return float(law.compute_objective_m2(allocated(u, r)[None])[0])

    u = g @ centre_m / g.sum() - place_m
    u = u / np.linalg.norm(u)
    r = float(budget / len(g) / 50.0)
    for _ in range(OUTER):
        for _ in range(INNER):
            step = 1e-3 * r
            slope = (value(u, r + step) - value(u, r - step)) / (2 * step)
            r = max(r * float(np.exp(0.1 * np.sign(slope))), 1e-12)
        e = 1e-3 * np.eye(2)
        rise = np.array([value(u + d, r) - value(u - d, r) for d in e])
        u = u + 0.1 * rise / max(float(np.linalg.norm(rise)), 1e-12)
        u = u / np.linalg.norm(u)
    return allocated(u, r)


def rows(bench: Bench, seconds: float) -> Iterator[Row]:
    """Each when it is measured."""
    grid = build_height_grid(AREA, 300.0 / bench.cells)
    a, b = ends_m(bench)
    what = f"{bench.ues} UEs x {bench.stations} base stations x {len(grid):,} cells"
    yield _row(
        f"{what}: cells under all links",
        seconds_of(lambda: find_crossings(grid, a, b), seconds),
        "s",
    )
    measured = links(bench, grid)
    count = np.full(bench.ues, bench.stations)
    heights = np.full(len(grid), 10.0)
    theta = to_theta((-20.0, -38.0), (-30.0, -21.0))

    def gradient() -> FloatArray:
        return compute_height_gradient(measured, heights, theta, SCALE_M, count)

    crossed = {"crossings": float(len(measured.under.cell))}
    yield _row(
        f"{what}: gradient of heights of all UEs",
        seconds_of(gradient, seconds),
        "s",
        bench.gradient_s,
        **crossed,
    )
    made = gradient()
    g = made**2
    place = a[:: bench.stations, :2]
    ours = seconds_of(lambda: Alignment(g, AREA, place, MU, RHO).optimise_variance(), seconds)
    yield _row(f"{what}: aligned noise of all UEs", ours, "s", bench.noise_s)
    theirs = [nested(g[i], grid.place_m, place[i]) for i in range(bench.nested_ues)]
    some = slice(0, bench.nested_ues)
    law = Alignment(g[some], AREA, place[some], MU, RHO)
    value = [
        law.compute_objective_m2(s).mean() for s in (law.optimise_variance(), np.array(theirs))
    ]
    whose = cycle(range(bench.nested_ues))
    noise = timed(lambda: Alignment(g, AREA, place, MU, RHO).optimise_variance())

    def printed() -> float:
        i = next(whose)
        return timed(lambda: nested(g[i], grid.place_m, place[i]))()

    yield beside(
        f"{what}: aligned noise of one UE",
        lambda: noise() / bench.ues,
        printed,
        bench.faster,
        seconds,
        subject="radio-map",
        peer=f"the printed algorithm ({OUTER} x {INNER} ascents), {bench.nested_ues} UEs",
        objective_m2=float(value[0]),
        their_objective_m2=float(value[1]),
    )
    peak = peak_gb()
    sizes = []
    times = []
    for factor in (1, 2, 4):  # more links over the same cells
        some_links = links(replace(bench, stations=factor * bench.stations), grid)
        more = factor * count

        def larger(of: GridLinks = some_links, n: IntArray = more) -> FloatArray:
            return compute_height_gradient(of, heights, theta, SCALE_M, n)

        sizes.append(len(some_links.under.cell))
        times.append(seconds_of(larger, seconds))
    yield _row("growth of a gradient with cells crossed", exponent(sizes, times), "exponent", 1.1)
    yield _row(f"{what}: peak memory of the process", peak, "GB", bench.memory_gb)


def _row(work: str, value: float, unit: str, bar: float | None = None, **more: float) -> Row:
    return {**row(work, value, unit, bar, **more), "subject": "radio-map"}
