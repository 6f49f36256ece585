"""A round of local training beside what one would write in PyTorch, on one thread.

Times are of the processor. We and the peers take turns; `ratio` is the median of theirs over ours,
turn by turn, and `spread` are the quartiles of these ratios. `difference` is the largest distance
of a device's update from the peer's, as a share of it: both do the same work. `limit` is the time
that the arithmetic of a round would take at the rate of large matrix products in the same session,
`share` our part of it.

Beside simulators of federated learning (`federated_peers`) a round has the mean of the updates too.
There `difference` is that of the new model from theirs, as a share of its change in the round,
`spread` are the least and the largest ratio, and `elapsed` is the peer's elapsed time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from time import perf_counter, process_time
from typing import Any, Literal

import numpy as np
import torch

from benchmarks import federated_peers, training_peers
from benchmarks.images import MNIST
from benchmarks.images import Bench as Images
from benchmarks.images import cohort as images_of
from benchmarks.paired import beside, often, without
from benchmarks.training_peers import LEARNING_RATE, Round
from benchmarks.world import Row, digits, row
from fl.learners.torch_net import TorchNet
from fl.networks.mlp import Mlp
from fl.networks.sgd_regression import train_regression
from fl.optimisers import RegressionTraining
from fl.types import Local, Public
from netsim.geometry import Area
from netsim.rng import Streams

RNG = Streams(0).derive_rng("benchmark.training")
SIDE = 512  # of the matrices whose product gives the rate
Bars = dict[tuple[str, int], float]


@dataclass(frozen=True)
class Cohort:
    """Devices, samples of each and of a batch, the network, and the least ratios by peer and its
    precision.
    """

    devices: int
    samples: int
    batch: int
    net: Mlp
    bars: Bars


@dataclass(frozen=True)
class Bench:
    """Cohorts of regressors; devices and images of each of the classifier, and its least ratio; the
    least ratios of the first cohort's rounds by simulator, and rounds of a turn.
    """

    cohorts: tuple[Cohort, ...]
    devices: int
    images: int
    cnn: float | None
    federated: dict[str, float | None]
    rounds: int


STANDARD = Mlp((2, 256, 128, 1), "relu")
FULL = Bench(
    (
        Cohort(38, 100, 20, STANDARD, {("loop", 32): 3.0, ("mapped", 32): 2.0}),
        Cohort(38, 100, 20, Mlp(STANDARD.sizes, "elu"), {}),
        Cohort(1000, 20, 20, Mlp((2, 64, 32, 1), "relu"), {("loop", 32): 18.0}),
    ),
    15, 4000, None, {"flower": 15.0, "pfl": 3.0}, 5,
)  # fmt: skip
SMALL = Bench(
    (Cohort(3, 10, 5, Mlp((2, 6, 4, 1), "relu"), {("loop", 32): 1e-9, ("mapped", 32): 1e9}),),
    2,
    30,
    None,
    {"flower": None, "pfl": None},
    1,
)
PEERS = {"loop": training_peers.loop, "mapped": training_peers.mapped}
NAMES = {"loop": "PyTorch, device by device", "mapped": "PyTorch, torch.func.vmap"}


def turns(ours: Round, theirs: Round, seconds: float) -> tuple[list[float], list[float]]:
    """Seconds of CPU of both in turns, three or more of them, after one that loads and compiles."""
    ours(), theirs()
    found: tuple[list[float], list[float]] = ([], [])
    while len(found[0]) < 3 or sum(map(sum, found)) < seconds:
        for work, times in zip((ours, theirs), found, strict=True):
            began = process_time()
            work()
            times.append(process_time() - began)
    return found


def flops_per_s(number: torch.dtype) -> float:
    """Rate of a product of large matrices, the best of several."""
    a, b = torch.randn(2, SIDE, SIDE, dtype=number)
    out = torch.empty_like(a)
    best = np.inf
    for _ in range(10):
        began = process_time()
        torch.mm(a, b, out=out)
        best = min(best, process_time() - began)
    return 2.0 * SIDE**3 / best


def rows(bench: Bench, seconds: float) -> Iterator[Row]:
    """Each when it is measured."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for cohort in bench.cohorts:
            yield from regression(cohort, seconds)
        yield classification(bench, seconds)
        for peer, bar in bench.federated.items():
            yield federated(bench.cohorts[0], peer, bar, bench.rounds, seconds)
    finally:
        torch.set_num_threads(threads)


def _samples(cohort: Cohort) -> tuple[Local, federated_peers.Work]:
    """What we are given, and what a peer is, whose samples have our order."""
    net = cohort.net
    (k, n) = (cohort.devices, cohort.samples)
    g = np.random.default_rng(0)
    ue = np.arange(k)
    start = g.normal(size=net.n_parameters) / 10
    x = g.normal(size=(k * n, net.sizes[0]))
    y = g.normal(size=k * n)
    data = Local(ue, np.zeros_like(ue), np.arange(k + 1) * n, x, y, np.zeros(k * n))
    order = RNG.draw_orders("order0m", ue * 4096, data.count) + np.repeat(data.ptr[:-1], n)
    x = x[order].reshape(k, n, -1)
    y = y[order].reshape(k, n)
    return data, federated_peers.Work(net, start, x, y, cohort.batch)


def _name(cohort: Cohort) -> str:
    sizes = "-".join(map(str, cohort.net.sizes))
    work = (
        f"{cohort.devices:,} devices x {cohort.samples:,} samples, {sizes} {cohort.net.activation}"
    )
    return f"{work}, batches of {cohort.batch}: one round"


def _configure(cohort: Cohort, bits: Literal[32, 64]) -> RegressionTraining:
    return RegressionTraining(learning_rate=LEARNING_RATE, batch_size=cohort.batch, precision=bits)


def regression(cohort: Cohort, seconds: float) -> Iterator[Row]:
    """Both precisions beside every peer."""
    net = cohort.net
    n_samples = cohort.devices * cohort.samples
    data, given = _samples(cohort)
    a_sample = sum(2 * a * b * (2 if i == 0 else 3) for i, (a, b) in enumerate(pairwise(net.sizes)))
    precisions: tuple[tuple[Literal[32, 64], torch.dtype], ...]
    precisions = ((32, torch.float32), (64, torch.float64))
    for bits, number in precisions:
        how = _configure(cohort, bits)

        def ours(how: RegressionTraining = how) -> np.ndarray:
            return np.asarray(train_regression(net, given.start[None], data, how, RNG))

        for name, make in PEERS.items():
            theirs = make(net, given.start, given.x, given.y, cohort.batch, number)
            bar = cohort.bars.get((name, bits))
            yield _compared(
                _name(cohort), ours, theirs, NAMES[name], bits, n_samples * a_sample, bar, seconds
            )


def federated(cohort: Cohort, peer: str, bar: float | None, n: int, seconds: float) -> Row:
    """The cohort's round at 32 bits beside a simulator of federated learning, n rounds a turn."""
    data, given = _samples(cohort)
    work = f"{_name(cohort)}, and the mean"
    how = _configure(cohort, 32)
    before = given.start[None]
    elapsed = []

    def ours() -> np.ndarray:
        return np.asarray(
            given.start + train_regression(cohort.net, before, data, how, RNG).mean(axis=0)
        )

    name, start = federated_peers.PEERS[peer]
    try:
        with start(given) as (name, rounds):
            model = rounds(1)
            difference = float(np.linalg.norm(ours() - model) / np.linalg.norm(model - given.start))

            def theirs() -> float:
                began = perf_counter()
                cpu_s = federated_peers.cpu_s()
                rounds(n)
                elapsed.append((perf_counter() - began) / n)
                return (federated_peers.cpu_s() - cpu_s) / n

            found = beside(work, often(ours, n), theirs, bar, seconds)
    except ImportError as error:
        return without(work, name, bar, f"not installed: {error}") | {
            "subject": "training",
            "bits": 32,
        }
    more = {
        "elapsed": digits(1e3 * median(elapsed[1:])),
        "difference": float(f"{difference:.2g}"),
        "bits": 32,
    }
    return {**found, "peer": f"{name}, PyTorch {torch.__version__}", **more, "subject": "training"}


def classification(bench: Bench, seconds: float) -> Row:
    """The study's CNN beside the loop."""
    data = images_of(Images(bench.devices, bench.images, 1, 1))
    learner = TorchNet(module="cnn", batch_share=0.1, device="cpu")
    model = learner.init(Public(Area(0, 0, 1, 1), 1, samples=MNIST), RNG)
    start = [
        piece[0].clone()
        for piece in learner.build_net(model).unpack(torch.from_numpy(model.parameters).float())
    ]
    order = RNG.draw_orders("order0m", data.ue * 4096, data.count) + np.repeat(
        data.ptr[:-1], data.count
    )
    shape = (bench.devices, bench.images)
    x = (data.x[order].astype(np.float32) / 255).reshape(*shape, *MNIST.shape[1:])
    y = np.zeros(shape) if data.y is None else data.y[order].reshape(shape)
    batch = -(-bench.images // 10)
    theirs = training_peers.cnn(start, x, y.astype(np.int64), batch)
    work = (
        f"{bench.devices} devices x {bench.images:,} images, CNN of 21,880 parameters, 10 % "
        f"batches: one round"
    )
    # two convolutions (the first needs no gradient of its input), two layers
    an_image = 2 * (2 * 10 * 25 * 24 * 24 + 3 * 20 * 250 * 8 * 8 + 3 * (320 * 50 + 50 * 10))
    return _compared(
        work,
        lambda: np.asarray(learner.train_locally(model, "all", data, RNG).rows(slice(None))),
        theirs,
        NAMES["loop"],
        32,
        bench.devices * bench.images * an_image,
        bench.cnn,
        seconds,
    )


def _compared(
    work: str,
    ours: Round,
    theirs: Callable[[], Any],
    peer: str,
    bits: int,
    flops: float,
    bar: float | None,
    seconds: float,
) -> Row:
    a = ours()
    b = theirs()
    difference = float((np.linalg.norm(a - b, axis=1) / np.linalg.norm(b, axis=1)).max())
    own_s, their_s = turns(ours, theirs, seconds)
    low, ratio, high = np.percentile(np.array(their_s) / np.array(own_s), [25, 50, 75]).tolist()
    own_ms = 1e3 * float(np.median(own_s))
    limit_ms = 1e3 * flops / flops_per_s(_type(bits))
    found = {
        "peer": f"{peer} {torch.__version__}",
        "theirs": digits(1e3 * float(np.median(their_s))),
    }
    found |= {"ratio": digits(ratio), "spread": [digits(low), digits(high)], "bits": bits}
    more = {
        "difference": float(f"{difference:.2g}"),
        "limit": digits(limit_ms),
        "share": digits(limit_ms / own_ms),
    }
    met = None if bar is None else ratio >= bar
    return {**row(work, own_ms, "ms", bar), **found, **more, "met": met, "subject": "training"}


def _type(bits: int) -> torch.dtype:
    return torch.float32 if bits == 32 else torch.float64
