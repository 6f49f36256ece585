"""What a map of people costs: the exact kernel beside its peers, waves, and a million UEs, on one
thread.

Peers compute the same sum at the same bandwidth: scipy.stats.gaussian_kde, whose covariance is set
to h^2, and sklearn.neighbors.KernelDensity with a relative tolerance of 1e-8, which its own trees
may use. `error` is the largest difference between theirs and ours, in units of the kernel's top.
Peers are timed on a part of the grid and scaled to all of it (`given`), for their time is
proportional to grid points. `limit` is the product of both axes' factors, given in parts that stay
in the cache, which a sum of separable kernels cannot do without.

    python -m benchmarks.density N_UE     # the map of so many UEs in a process of its own, one JSON
    object
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.paired import beside, often, timed
from benchmarks.world import Row, peak_gb, row
from fl.learners.density import TERMS, Density, compute_kernel_density
from fl.types import Local, Public
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.units import FloatArray

SIDE_M = 4000.0
BANDWIDTH_M = 200.0
POINTS = 100
AREA = Area(0.0, 0.0, SIDE_M, SIDE_M)
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Bench:
    """How many UEs, how many in a process of their own, into how many parts the grid is cut for
    peers; and the bars.
    """

    ues: int
    many: int
    parts: int
    waves_s: float | None = None
    peers: dict[str, float] = field(default_factory=dict)
    many_s: float | None = None
    many_mb: float | None = None


def places_m(n: int) -> FloatArray:
    """Three clusters of people (n, 2)."""
    rng = Streams(0).derive_rng("benchmark.density")
    ue = np.arange(n)
    middle = np.array([[1200.0, 1000.0], [2600.0, 1500.0], [2000.0, 3000.0]])
    return np.asarray(middle[ue % 3] + 400 * rng.normal("place", ue, (2,)))


def answered(features: int, x: FloatArray) -> Callable[[], FloatArray]:
    """All of a round that is the learner's: draws, answers, their sum."""
    learner = Density(n_features=features, bandwidth_m=BANDWIDTH_M, grid=(POINTS, POINTS))
    n = len(x)
    model = learner.init(Public(AREA, 1), Streams(0).derive_rng("benchmark.init"))
    ue = np.arange(n)
    zero = np.zeros(n, dtype=np.int64)
    data = Local(ue, zero, np.arange(n + 1), x, None, np.zeros(n))

    def once() -> FloatArray:
        made = learner.train_locally(
            model, "all", data, Streams(0).derive_rng("benchmark.learner", 1)
        )
        return learner.step(model, "all", made.sum_weighted(np.full(n, 1.0 / n), 1)).parameters

    return once


def exact(x: FloatArray) -> FloatArray:
    """The exact kernel's map, (P * Q,)."""
    axis = np.linspace(0.0, SIDE_M, POINTS)
    return compute_kernel_density(x, BANDWIDTH_M, axis, axis).ravel()


def grid_m() -> FloatArray:
    """The grid points (P * Q, 2), in the order of `exact`."""
    axis = np.linspace(0.0, SIDE_M, POINTS)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)


def scipys(x: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """gaussian_kde at our bandwidth, in the kernel's unit."""
    from scipy.stats import gaussian_kde

    kde = gaussian_kde(x.T)
    kde.covariance = np.eye(2) * BANDWIDTH_M**2
    kde.cho_cov = np.linalg.cholesky(kde.covariance)
    kde.log_det = 2 * np.log(np.diag(kde.cho_cov * np.sqrt(2 * np.pi))).sum()
    return lambda at: np.asarray(kde(at.T) * (2 * np.pi * BANDWIDTH_M**2))


def sklearns(x: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """KernelDensity at our bandwidth, in the kernel's unit."""
    from sklearn.neighbors import KernelDensity

    kde = KernelDensity(bandwidth=BANDWIDTH_M, kernel="gaussian", rtol=1e-8).fit(x)
    return lambda at: np.asarray(np.exp(kde.score_samples(at)) * (2 * np.pi * BANDWIDTH_M**2))


PEERS = {"scipy": scipys, "scikit-learn": sklearns}


def seconds_of(work: Callable[[], Any], seconds: float) -> float:
    """Median time of a call, after one that loads."""
    work()
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        started = perf_counter()
        work()
        times.append(perf_counter() - started)
    return median(times)


def rows(bench: Bench, seconds: float) -> Iterator[Row]:
    """Each when it is measured."""
    x = places_m(bench.ues)
    size = f"{bench.ues} UEs, {POINTS} x {POINTS} grid"
    for features in (1, 8):
        bar = bench.waves_s if features == 1 else None
        yield _row(
            f"waves, B = {features}, {size}", seconds_of(answered(features, x), seconds), "s", bar
        )
    ours = exact(x)
    for name, make in PEERS.items():
        yield _against(name, make(x), x, ours, bench, seconds, size)
    alone = json.loads(
        subprocess.run(
            [sys.executable, "-m", "benchmarks.density", str(bench.many)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=True,
        ).stdout
    )
    work = f"waves, B = 1, {bench.many} UEs, {POINTS} x {POINTS} grid, alone"
    yield _row(work, alone["s"], "s", bench.many_s)
    yield _row(f"{work}: peak memory", alone["peak_mb"], "MB", bench.many_mb)


def _against(
    name: str,
    theirs: Callable[[FloatArray], FloatArray],
    x: FloatArray,
    ours: FloatArray,
    bench: Bench,
    seconds: float,
    size: str,
) -> Row:
    some = np.arange(0, len(ours), bench.parts)
    at = grid_m()[some]
    parts = len(ours) / len(some)
    error = float(np.abs(theirs(at) - ours[some]).max())
    part = timed(lambda: theirs(at))
    more = {
        "error": float(f"{error:.2g}"),
        "given": [len(some), len(ours)],
        "peer": f"{name} {version(name)}",
    }
    fx, fy = np.full((2, TERMS, POINTS), 0.5)
    product = often(lambda: fx.T @ fy, -(-len(x) // TERMS))
    return beside(
        f"exact kernel, {size}",
        timed(lambda: exact(x)),
        lambda: parts * part(),
        bench.peers.get(name),
        seconds,
        lambda: product() * len(x) / TERMS,
        subject="density",
        **more,
    )


def _row(work: str, figure: float, unit: str, bar: float | None) -> Row:
    return {**row(work, figure, unit, bar), "subject": "density"}


def alone(n: int) -> dict[str, float]:
    """Seconds and peak memory of one map of n UEs; importing is not counted in the time."""
    x = places_m(n)
    once = answered(1, x)
    started = perf_counter()
    once()
    took = perf_counter() - started
    return {"s": took, "peak_mb": 1e3 * peak_gb()}


if __name__ == "__main__":
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        print(json.dumps(alone(int(sys.argv[1]))))
