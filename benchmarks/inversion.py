"""Gradient inversion beside PyTorch's own ways: time of the objective with its slope, for one guess
at one target.

Guesses are counted, not calls: 8 starts of a target are 8 guesses. Searches by BFGS include what
lies between two questions. Times are CPU times; a peer and we take turns. `limit` is the time that
the matrix products of a guess would take at the rate of a large product on this machine (`gflops`,
measured in the same turns), `share` what we reach of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import median
from time import process_time

import torch

from benchmarks.inversion_peers import Loop, Stacked
from benchmarks.world import Row, digits
from fl.attacks.base import View
from fl.attacks.gradient_matching import CosineDistance, minimise_distance
from fl.networks.mlp import Mlp

STARTS = 8
ITERATIONS = 60
_TOGETHER = (1, 5, 10)  # targets at a time: the stacked peer is given the fastest
Turn = Callable[[], float]
"""something to measure: CPU seconds a guess"""


def operations(net: Mlp) -> int:
    """Floating-point operations of the matrix products of one guess and its slope.

    Each product of a layer (in, out) is 2 in out. Every layer has one forward and two with the
    update; all but the first one for deltas; hidden layers one down, and all but the first of these
    one up where the activation bends.
    """
    sizes = list(pairwise(net.sizes))
    hidden = len(net.sizes) - 2
    bends = net.activation != "relu"
    return sum(
        2 * a * b * (3 + (layer > 0) + (layer < hidden) + (bends and 0 < layer < hidden))
        for layer, (a, b) in enumerate(sizes)
    )


def rows(
    seen: View, net_name: str, bars: tuple[float | None, float | None], seconds: float
) -> Iterator[Row]:
    """Beside the loop and beside the stacked peer, whose least ratios are `bars`."""
    net = seen.learner.net  # type: ignore[attr-defined]
    weights = torch.from_numpy(seen.model_before.parameters)
    update = torch.from_numpy(seen.update)
    distance = CosineDistance.from_updates(update, net, weights)
    n = len(update)
    z = torch.randn(n, STARTS, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    stacked = min(
        (_stacked(Stacked(net, weights[0], update, k), z) for k in _TOGETHER),
        key=lambda turn: turn(),
    )
    work = f"{net_name}, {n} targets: a guess"
    yield _against(
        f"search of DLG, {work}",
        "loop over torch.optim.LBFGS",
        _search(distance, z),
        _loop(Loop(net, weights[0], update), z),
        bars[0],
        net,
        seconds,
    )
    yield _against(
        f"objective and slope of DLG, {work}",
        "torch.func.vmap",
        _ask(distance, z),
        stacked,
        bars[1],
        net,
        seconds,
    )


def _ask(distance: CosineDistance, z: torch.Tensor) -> Turn:
    return lambda: _seconds(lambda: distance(torch.arange(len(z)), z)) / z.shape[:2].numel()


def _search(distance: CosineDistance, z: torch.Tensor) -> Turn:
    def turn() -> float:
        iterations: list[int] = []
        took_s = _seconds(
            lambda: iterations.extend(
                minimise_distance(distance, z, ITERATIONS).iterations.tolist()
            )
        )
        return took_s / (STARTS * (sum(iterations) + len(z)))

    return turn


def _loop(peer: Loop, z: torch.Tensor) -> Turn:
    """Another five targets every turn, one start each: its time a guess does not hang on their
    number.
    """
    at = 0

    def turn() -> float:
        nonlocal at
        targets = [(at + i) % len(z) for i in range(5)]
        at = at + 5
        started = process_time()
        guesses = sum(peer.search(target, z[target, 0], ITERATIONS)[1] for target in targets)
        return (process_time() - started) / guesses

    return turn


def _stacked(peer: Stacked, z: torch.Tensor) -> Turn:
    return lambda: _seconds(lambda: peer.ask(z)) / z.shape[:2].numel()


def _seconds(what: Callable[[], object]) -> float:
    started = process_time()
    what()
    return process_time() - started


def _rate() -> float:
    """Operations a second of products (800, 256) x (256, 128)."""
    a = torch.ones(800, 256, dtype=torch.float64)
    b = torch.ones(256, 128, dtype=torch.float64)
    return 10 * 2 * 800 * 256 * 128 / _seconds(lambda: [a @ b for _ in range(10)])


def _against(
    work: str, peer: str, ours: Turn, theirs: Turn, bar: float | None, net: Mlp, seconds: float
) -> Row:
    """A row: pairs of turns, the median of their ratios and how they spread."""
    ours(), theirs(), _rate()  # all are loaded
    started = process_time()
    pairs = []
    rates = []
    while len(pairs) < 3 or process_time() - started < seconds:
        pairs.append((ours(), theirs()))
        rates.append(_rate())
    mine = median(a for a, _ in pairs)
    rate = median(rates)
    ratios = sorted(b / a for a, b in pairs)
    limit = operations(net) / rate
    return {
        "subject": "attacks",
        "work": work,
        "ours": digits(1e3 * mine),
        "unit": "ms",
        "peer": f"{peer}, torch {torch.__version__}",
        "theirs": digits(1e3 * median(b for _, b in pairs)),
        "ratio": digits(median(ratios)),
        "least_ratio": digits(ratios[0]),
        "most_ratio": digits(ratios[-1]),
        "bar": bar,
        "met": None if bar is None else median(ratios) >= bar,
        "limit": digits(1e3 * limit),
        "gflops": digits(rate / 1e9),
        "share": digits(limit / mine),
    }
