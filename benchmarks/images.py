"""What learning on images costs: a round of the study's CNN, and the bound that plans its powers,
on one thread.

Times are of the processor, so that what else the machine does hardly counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from time import process_time

import numpy as np
import torch

from benchmarks.world import Row, row
from fl.learners.torch_net import TorchNet
from fl.power.bound import Convergence, PowerLoss, Trajectory
from fl.power.search import Limits, plan_by_plateaus
from fl.types import Local, Public, SampleFormat
from netsim.geometry import Area
from netsim.rng import Streams

MNIST = SampleFormat((1, 28, 28), 10, 255.0)


@dataclass(frozen=True)
class Bench:
    """Devices and images of each; rounds and power vectors of the bound; the most that each may
    take.
    """

    devices: int
    images: int
    rounds: int
    vectors: int
    round_s: float | None = None
    vectors_s: float | None = None
    plan_s: float | None = None


def cohort(bench: Bench) -> Local:
    """Devices with random images of random classes."""
    g = np.random.default_rng(0)
    n = bench.devices * bench.images
    ue = np.arange(bench.devices)
    pixels = g.integers(0, 256, (n, MNIST.shape[-2] * MNIST.shape[-1]), dtype=np.uint8)
    ptr = np.arange(bench.devices + 1) * bench.images
    return Local(
        ue, np.zeros_like(ue), ptr, pixels, g.integers(0, 10, n).astype(float), np.zeros(n)
    )


def trajectory(bench: Bench) -> Trajectory:
    """Noise that falls over the rounds, three heavy devices, a fading channel that stands still."""
    g = np.random.default_rng(0)
    shape = (bench.rounds, bench.devices)
    weight = np.full(bench.devices, 0.02)
    weight[:3] = 0.25
    std = np.linspace(0.05, 0.003, bench.rounds)[:, None] * np.exp(g.normal(0, 0.1, shape))
    gain = np.tile(2 * np.exp(g.normal(0, 0.7, bench.devices)), (bench.rounds, 1))
    return Trajectory(
        std, np.tile(weight / weight.sum(), (bench.rounds, 1)), gain, 0.5 / np.sqrt(2410)
    )


def seconds_of(work: Callable[[], object], seconds: float, least: int = 3) -> float:
    """Median time of a call, after one that loads."""
    work()
    times: list[float] = []
    while len(times) < least or sum(times) < seconds:
        started = process_time()
        work()
        times.append(process_time() - started)
    return median(times)


def rows(bench: Bench, seconds: float) -> Iterator[Row]:
    """Each when it is measured."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rng = Streams(0).derive_rng("benchmark.images")
    try:
        data = cohort(bench)
        learner = TorchNet(module="cnn", batch_share=0.1, device="cpu")
        model = learner.init(Public(Area(0, 0, 1, 1), 1, samples=MNIST), rng)
        took = seconds_of(lambda: learner.train_locally(model, "all", data, rng), seconds, least=1)
        work = f"CNN of {model.parameters.shape[1]:,} parameters, 10 % batches"
        yield _row(
            f"{work}, {bench.devices} devices x {bench.images:,} images: one round",
            took,
            bench.round_s,
        )
    finally:
        torch.set_num_threads(threads)
    limits = Limits(each_min_w=0.75 / bench.devices, each_max_w=3.0 / bench.devices)
    unit = np.random.default_rng(1).uniform(size=(bench.vectors, bench.devices))
    power_w = limits.project(limits.each_min_w + unit * (limits.each_max_w - limits.each_min_w))
    for criterion in ("aggregate", "per-device", "top-up"):
        objective = PowerLoss(trajectory(bench), Convergence(), criterion)
        took = seconds_of(lambda one=objective: one(power_w), seconds)
        work = f"bound over {bench.rounds} rounds and {bench.devices} UEs, {criterion}"
        yield _row(f"{work}: {bench.vectors:,} power vectors", took, bench.vectors_s)
    objective = PowerLoss(trajectory(bench), Convergence())
    took = seconds_of(lambda: plan_by_plateaus(objective, limits), seconds)
    yield _row(
        f"plan by SLSQP on every plateau, {bench.rounds} rounds and {bench.devices} UEs",
        took,
        bench.plan_s,
    )


def _row(work: str, took: float, bar: float | None) -> Row:
    return {**row(work, took, "s", bar), "subject": "images"}
