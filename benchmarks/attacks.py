"""What attacks cost: time a target and round, many targets of one round together, on one thread;
DLG also beside peers.

Every target is a device that sends the update of a round of real training: its week at home, at
work and elsewhere, RSRP by distance and shadowing, and the weights that everybody started from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Literal

import numpy as np
import torch

from benchmarks import inversion
from benchmarks.world import Row, row
from fl.attacks.base import Attack, View
from fl.attacks.closed_form import ClosedForm
from fl.attacks.dlg import Dlg
from fl.attacks.threat import Threat
from fl.learners.rsrp_net import RsrpNet
from fl.types import Local, Public, Received, RoundContext
from netsim.geometry import Area
from netsim.rng import Rng, Streams

AREA = Area(0.0, 0.0, 2000.0, 1500.0)
SAMPLES = 200  # of a target in its round


@dataclass(frozen=True)
class Bench:
    """How many targets, the hidden layers, the most that a target may take, and the least ratios to
    peers.
    """

    targets: int
    hidden: tuple[int, ...]
    dlg_ms: float | None = None
    closed_form_ms: float | None = None
    loop: float | None = None
    stacked: float | None = None


def cohort(targets: int, rng: Rng) -> Local:
    """Half of a target's samples at its home, a fifth at its work, the others all over the area."""
    n = targets * SAMPLES
    ue = np.arange(targets)
    owner = np.repeat(ue, SAMPLES)
    home, work = (AREA.sample(rng.uniform(what, ue, (2,)))[owner] for what in ("home", "work"))
    spread = rng.normal("spread", np.arange(n), (2,))
    anywhere = AREA.sample(rng.uniform("anywhere", np.arange(n), (2,)))
    kind = rng.uniform("kind", np.arange(n))[:, None]
    x = np.where(kind < 0.5, home + 18 * spread, np.where(kind < 0.7, work + 22 * spread, anywhere))
    distance = np.hypot(np.hypot(*(x - [900, 800]).T), 25)
    slow = 6 * np.sin(x[:, 0] / 60) * np.cos(x[:, 1] / 70)
    y = -35 - 35 * np.log10(distance / 10) + slow + 2.5 * rng.normal("noise", np.arange(n))
    ptr = np.arange(targets + 1) * SAMPLES
    return Local(ue, np.zeros(targets, dtype=np.int64), ptr, x, y, np.zeros(n))


def view(
    bench: Bench, activation: Literal["elu", "tanh", "sigmoid", "relu"], seed: int = 0
) -> View:
    """What a server observes of the second round: everybody's update."""
    streams = Streams(seed)
    data = cohort(bench.targets, streams.derive_rng("benchmark.cohort"))
    learner = RsrpNet(hidden=bench.hidden, activation=activation)
    model = learner.init(Public(AREA, 1), streams.derive_rng("benchmark.init"))
    share = np.full(bench.targets, 1.0 / bench.targets)
    for number in (1, 2):
        before = model
        made = learner.train_locally(
            before, "all", data, streams.derive_rng("benchmark.learner", number)
        )
        merged = made.sum_weighted(share, 1)
        model = learner.step(before, "all", merged)
    every = np.ones(bench.targets, bool)
    groups = streams.derive_rng("benchmark.threat")
    return Threat().grant_view(
        learner, "all", Received(made, every), share, every, (before, model), groups
    )


def target_ms(attack: Attack, seen: View, seconds: float) -> tuple[float, float]:
    """Median time of a target in ms, from whole rounds, and the mean number of evaluations of a
    target.
    """
    facts = RoundContext(2, 0.0, Public(AREA, 1))
    rng = Streams(0).derive_rng("benchmark.attack")
    attack.run(seen, facts, attack.start(), rng)  # loads
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        started = perf_counter()
        found, _ = attack.run(seen, facts, attack.start(), rng)
        times.append(perf_counter() - started)
    return 1e3 * median(times) / len(seen.ue), float(found.evaluations.mean())


def rows(bench: Bench, seconds: float) -> Iterator[Row]:
    """Each when it is measured."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    net = "-".join(map(str, (2, *bench.hidden, 1)))
    try:
        for activation in ("tanh", "relu"):
            dlg = Dlg(starts=inversion.STARTS, iterations=inversion.ITERATIONS)
            seen = view(bench, activation)
            ms, evaluations = target_ms(dlg, seen, seconds)
            work = (
                f"DLG by BFGS from {dlg.starts} starts, {net} {activation}, {bench.targets} "
                f"targets: one target"
            )
            yield _row(work, ms, bench.dlg_ms, evaluations=round(evaluations, 1))
            yield from inversion.rows(
                seen, f"{net} {activation}", (bench.loop, bench.stacked), seconds
            )
        seen = view(bench, "relu")
        for cloud, bar, says in (
            (False, bench.closed_form_ms, "centroid"),
            (True, None, "centroid and places"),
        ):
            ms, _ = target_ms(ClosedForm(cloud=cloud), seen, seconds)
            yield _row(
                f"closed form ({says}), {net} relu, {bench.targets} targets: one target", ms, bar
            )
    finally:
        torch.set_num_threads(threads)


def _row(work: str, ms: float, bar: float | None, **more: float) -> Row:
    return {**row(work, ms, "ms", bar, **more), "subject": "attacks"}
