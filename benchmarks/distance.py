"""The sliced Wasserstein distance of two sets of points, beside POT (https://pythonot.github.io),
on one thread.

`the same directions`  POT is given our directions, so both return one number; a row has how far
they lie apart.
`at equal accuracy`    POT draws its directions at random, as it does unasked. We take as few of
ours, equally spaced,
                       as have an error that is not larger. Errors are root mean squares over pairs
                       of sets and POT's draws, as shares of the distance along very many
                       directions.

`limit` is sorting what is projected: no method does without.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from itertools import cycle

import numpy as np
import ot

from benchmarks.paired import beside, often
from benchmarks.world import Row
from fl.leakage.distances import compute_sliced_w1, project_points, sort_projections
from fl.leakage.leakage import Leakage
from netsim.units import FloatArray

DIRECTIONS = Leakage().directions
MANY = 4096  # directions of the distance that errors are measured from
_OFTEN = 5  # calls in a turn


@dataclass(frozen=True)
class Bench:
    """Points of a set, pairs of sets, POT's draws for each of them, its random directions; and the
    least ratio.
    """

    points: int
    pairs: int
    draws: int
    random: int
    bar: float | None = None


FULL = Bench(2_000, 8, 4, 1_000, 5.0)
SMALL = Bench(50, 2, 2, 20)


def sets_m(bench: Bench) -> list[tuple[FloatArray, FloatArray]]:
    """Where people were, in clusters, beside guesses that miss some of them."""
    rng = np.random.default_rng(0)
    n = bench.points
    found = []
    for _ in range(bench.pairs):
        home, work, spread = rng.uniform(0, 2000, (3, 2))
        cluster = rng.random(n) < 0.6
        true = np.where(cluster[:, None], home, work) + rng.normal(0, 60, (n, 2))
        found.append((true, home + 0.1 * spread + rng.normal(0, 300, (n, 2))))
    return found


def ours(a: FloatArray, b: FloatArray, directions: int) -> float:
    """Our distance, from points."""
    return float(
        compute_sliced_w1(sort_projections(a, directions), sort_projections(b, directions)[None])[0]
    )


def spaced(directions: int) -> FloatArray:
    """Our directions (2, directions), as POT takes them."""
    return project_points(np.eye(2), directions).T


def errors(bench: Bench) -> tuple[int, float, float]:
    """The fewest of our directions that have no larger error than POT's random ones; our error, and
    POT's.
    """
    pairs = sets_m(bench)
    exact = np.array([ours(a, b, MANY) for a, b in pairs])
    drawn = [
        [
            ot.sliced_wasserstein_distance(a, b, n_projections=bench.random, p=1, seed=s)
            for a, b in pairs
        ]
        for s in range(bench.draws)
    ]
    pot = float(np.sqrt(np.mean((np.array(drawn) / exact - 1) ** 2)))
    for few in range(2, MANY):
        mine = np.array([ours(a, b, few) for a, b in pairs])
        error = float(np.sqrt(np.mean((mine / exact - 1) ** 2)))
        if error <= pot:
            break
    return few, error, pot


def rows(bench: Bench, seconds: float) -> Iterator[Row]:
    """Each when it is measured."""
    name = {"subject": "distance", "peer": f"POT {version('POT')}"}
    a, b = sets_m(bench)[0]
    work = f"sliced Wasserstein distance of 2 x {bench.points:,} points"
    shadows = project_points(np.concatenate([a, b]), DIRECTIONS).reshape(-1, bench.points)
    along = spaced(DIRECTIONS)
    difference = abs(
        ot.sliced_wasserstein_distance(a, b, projections=along, p=1) / ours(a, b, DIRECTIONS) - 1
    )
    yield beside(
        f"{work}, the same {DIRECTIONS} directions",
        often(lambda: ours(a, b, DIRECTIONS), _OFTEN),
        often(lambda: ot.sliced_wasserstein_distance(a, b, projections=along, p=1), 1),
        bench.bar,
        seconds,
        often(lambda: np.sort(shadows, axis=1), _OFTEN),
        difference=float(f"{difference:.2g}"),
        **name,
    )
    few, mine, pot = errors(bench)
    seeds = cycle(range(1000))
    yield beside(
        f"{work} at equal accuracy, {few} equally spaced beside {bench.random:,} random directions",
        often(lambda: ours(a, b, few), 10 * _OFTEN),
        often(
            lambda: ot.sliced_wasserstein_distance(
                a, b, n_projections=bench.random, p=1, seed=next(seeds)
            ),
            1,
        ),
        bench.bar,
        seconds,
        often(lambda: np.sort(shadows[: 2 * few], axis=1), 10 * _OFTEN),
        error=float(f"{mine:.2g}"),
        their_error=float(f"{pot:.2g}"),
        **name,
    )
