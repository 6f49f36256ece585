"""What `span` and `neuron-votes` cost: time of a target in a round, whose map of places is kept
over rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from statistics import median
from time import process_time

import numpy as np

from benchmarks import attacks
from benchmarks.world import Row, row
from fl.attacks.base import Attack, View
from fl.attacks.place_maps import NeuronVotes
from fl.attacks.span import Span
from fl.types import Facts, Public
from netsim.rng import Streams


@dataclass(frozen=True)
class Bench:
    """How many targets and places, the hidden layers of the network, and the most that a target may
    take.
    """

    targets: int
    places: int
    hidden: tuple[int, ...]
    span_ms: float | None = None


# 28 rounds of 1,000 UEs in a minute
FULL = Bench(1_000, 10_000, (256, 128), span_ms=60_000 / (1_000 * 28))
SMALL = Bench(4, 100, (16, 8))


def target_ms(attack: Attack, seen: View, seconds: float) -> float:
    """Median CPU time of a target in ms, from whole rounds of which each goes on where the last one
    ended.
    """
    facts = Facts(2, 0.0, Public(attacks.AREA, 1))
    rng = Streams(0).derive_rng("benchmark.attack")
    _, state = attack.run(seen, facts, attack.start(), rng)  # loads
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        started = process_time()
        _, state = attack.run(seen, facts, state, rng)
        times.append(process_time() - started)
    return 1e3 * median(times) / len(seen.ue)


def rows(bench: Bench, seconds: float) -> Iterator[Row]:
    """Each when it is measured."""
    seen = attacks.view(attacks.Bench(bench.targets, bench.hidden), "relu")
    cell_m = sqrt(float(np.prod(attacks.AREA.side_m)) / bench.places)
    net = "-".join(map(str, (2, *bench.hidden, 1)))
    work = f"{net} relu, {bench.targets} targets, {bench.places} places: one target and round"
    for attack, says, bar in (
        (Span(cell_m=cell_m), "span", bench.span_ms),
        (NeuronVotes(cell_m=cell_m), "neuron votes", None),
    ):
        yield {
            **row(f"{says}, {work}", target_ms(attack, seen, seconds), "ms", bar),
            "subject": "span",
        }
