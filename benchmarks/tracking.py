"""What tracking costs: filter and smoother with their answers, and how that grows with UEs, rounds
and cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from time import process_time

import numpy as np

from benchmarks import renamed
from benchmarks.world import Row, peak_gb, row
from fl.tracking.belief import answer_beliefs
from fl.tracking.chain import Chain, Habits, Motion, assume_weights
from fl.tracking.error_model import ErrorModel
from fl.tracking.history import History
from fl.tracking.place_grid import PlaceGrid
from fl.types import Public, RoundContext
from netsim.geometry import Area

_SIDE_M = 10_000.0
_ROUND_S = 1_800.0
_NEAR_M = 100.0
_SPEED_MPS = 30.0
_ERRORS = ErrorModel.from_sigma(300.0, 0.2)


@dataclass(frozen=True)
class Bench:
    """UEs, rounds and cells a side, and the most that both passes may take; a smaller size, for
    exponents, and one for names of one round.
    """

    ues: int
    rounds: int
    cells: int
    small: tuple[int, int, int]
    renamed: tuple[int, int, int]
    all_s: float | None = None
    memory_mb: float | None = None


FULL = Bench(200, 500, 100, (20, 50, 50), (40, 500, 100), all_s=30.0, memory_mb=500.0)
SMALL = Bench(3, 6, 12, (2, 3, 6), (2, 20, 6))


@dataclass(frozen=True)
class Times:
    """CPU time in s: of the filter and of the smoother, both with their answers, and learning
    motion.
    """

    filter_s: float
    smoother_s: float


def times(ues: int, rounds: int, cells: int) -> Times:
    """UEs that stay, with estimates of sigma 300 m, a fifth of them anywhere, on a grid of cells x
    cells.
    """
    grid = PlaceGrid(Area(0.0, 0.0, _SIDE_M, _SIDE_M), cells, cells)
    motion = Motion.from_max_speed(grid, _SPEED_MPS, _ROUND_S)
    prior = np.full((1, cells, cells), 1 / cells**2, np.float32)
    chain = Chain(motion, prior, _ROUND_S)
    every = np.arange(ues)
    draw = np.random.default_rng(0)
    habits = Habits.from_weights(ues, assume_weights(motion.sigma_m), grid, has_places=False)
    home_m = draw.uniform(0, _SIDE_M, (ues, 2))
    history = History.empty(1)
    p = np.repeat(prior, ues, axis=0)
    public = Public(grid.area, 1)
    answer_beliefs(p[:1].reshape(1, -1), grid, _NEAR_M)  # loads
    started = process_time()
    for t in range(rounds):
        z = home_m + draw.normal(0, 300.0, (ues, 2))
        z = np.where(draw.uniform(size=(ues, 1)) < 0.2, draw.uniform(0, _SIDE_M, (ues, 2)), z)[
            :, None
        ]
        facts = RoundContext(t + 1, t * _ROUND_S, public, round_s=_ROUND_S, week_s=t * _ROUND_S)
        history = history.add_look(facts, _ERRORS, every, z)
        p, uses = chain.filter_beliefs(
            p, habits, history.classify_steps(t, _ROUND_S), _ERRORS.compute_emission(z, grid)
        )
        habits.count[:] += uses
        answer_beliefs(p.reshape(ues, -1), grid, _NEAR_M)
    filtered = process_time()
    for _, beliefs in chain.smooth_beliefs(history, every, habits):
        for belief in beliefs:
            answer_beliefs(belief.reshape(-1, len(grid)), grid, _NEAR_M)
    return Times(filtered - started, process_time() - filtered)


def rows(bench: Bench) -> Iterator[Row]:
    """Each when it is measured."""
    size = f"{bench.ues} UEs, {bench.rounds} rounds, {bench.cells**2} cells"
    before_gb = peak_gb()
    took = times(bench.ues, bench.rounds, bench.cells)
    grown_mb = 1e3 * (peak_gb() - before_gb)
    for what, value, unit, bar in (
        ("filter with answers", took.filter_s, "s", None),
        ("smoother with answers, learning motion", took.smoother_s, "s", None),
        ("filter and smoother", took.filter_s + took.smoother_s, "s", bench.all_s),
        ("growth of the peak memory", grown_mb, "MB", bench.memory_mb),
    ):
        yield {**row(f"{what}, {size}", value, unit, bar), "subject": "tracking"}
    yield from _exponents(bench)
    yield from renamed.rows(*bench.renamed)


def _exponents(bench: Bench) -> Iterator[Row]:
    """d log time / d log size, of the smoother, from a size and its double in one direction."""
    n, t, g = bench.small
    base = times(n, t, g).smoother_s
    for what, bigger in (
        ("UEs", (2 * n, t, g)),
        ("rounds", (n, 2 * t, g)),
        ("cells a side", (n, t, 2 * g)),
    ):
        exponent = log(max(times(*bigger).smoother_s, 1e-6) / max(base, 1e-6)) / log(2)
        yield {
            **row(f"smoother, exponent in {what}, from {n} x {t} x {g**2}", exponent, "1"),
            "subject": "tracking",
        }
