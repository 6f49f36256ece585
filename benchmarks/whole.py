"""A whole run, beside the same run in which five parts are loops as one writes them with PyTorch
and NumPy.

Both have `CORES` cores, and what counts is wall time: on a machine that does something else, no
figure of it holds. A run is played with as many workers; then once more with one, while what these
parts are given is kept and each part is timed; then the loops are played on the same, with as many
threads of PyTorch and BLAS. The other program is ours in all else: streets, movement, radio, other
references, the page, one thing after another.

    theirs = run with one worker - our parts + loops        ratio = theirs / run

`training`  a device, an epoch and a batch after the other: autograd, weights changed in place; our
orders of samples
`central`   the map from all samples in one place: a batch after the other, autograd,
`torch.optim.Adam(fused=True)`;
            loops are given one epoch of each, from its start
`samples`   mean squares of gradients of single samples, round by round: `torch.func.vmap`, which is
faster than a loop
`attacks`   of `dlg`: a target and a start after the other by `torch.optim.LBFGS`
(`benchmarks.inversion_peers`)
`leakage`   distances of random guesses, one set after the other: projections on our directions, and
quantiles of all
            directions at once at the breakpoints of both sides, which is faster than
            `ot.wasserstein_1d`; projections of people's points are given, and sorted once for all
            sets

Rows of parts compare ours with one worker. Loops are given an even part of the work, and their time
is scaled to all of it (`given`: pieces, of how many: devices, searches, sets). `updates` and
`distances` are the largest relative differences from ours there, `losses` the mean of the least
losses of both: they do the same work. Where Polyak's rule shortens many steps, rounding grows from
one to the next, and updates of both are as far apart as those of two precisions.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.inversion_peers import Loop
from benchmarks.training_peers import descended, squared
from benchmarks.world import Row, digits
from fl.attacks import dlg
from fl.leakage import leakage
from fl.leakage.distances import project_points
from fl.networks import mlp, sgd_regression
from fl.networks.sgd_regression import POLYAK
from fl.optimisers import Adam
from netsim.columns import number_row
from netsim.units import FloatArray
from netsim.workers import use_workers
from scenarios import load, run

Call = tuple[tuple[Any, ...], Any]
Loops = tuple[float, int, int, dict[str, Any]]
"""seconds of a loop, scaled to all; pieces that it was given, of how many; what was compared"""
CORES = 2
"""that both programs have"""


@dataclass(frozen=True)
class Bench:
    """Scenarios with settings and the least ratio, pieces of each part that loops are given, times
    that a run is played.
    """

    runs: tuple[tuple[str, dict[str, Any], float | None], ...]
    pieces: int
    turns: int


FULL = Bench((("city", {}, 10.0), ("campus", {}, 8.0)), 40, 3)
_TICK_S = 1e-6  # of clocks: shorter work reads as none
_BRIEF = {
    "learning.references": {"kriging_samples": 0, "central_epochs": 2},
    "learning.learner.hidden": [8, 4],
    "learning.attacks": [{"kind": "closed-form"}, {"kind": "dlg", "starts": 8, "iterations": 20}],
}
SMALL = Bench(
    (("campus", {"world.duration_s": 1_209_600, "learning.leakage": {}, **_BRIEF}, None),), 3, 1
)


@dataclass
class Part:
    """Calls of a part, and the seconds that they took."""

    took_s: float = 0.0
    calls: list[Call] = field(default_factory=list)

    def around(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose calls are kept."""

        @wraps(work)
        def kept(*arguments: Any) -> Any:
            began = perf_counter()
            found = work(*arguments)
            self.took_s += perf_counter() - began
            self.calls.append((arguments, found))
            return found

        return kept


@contextmanager
def use_cores(count: int) -> Generator[None]:
    """Within, runs of ours have as many workers, and PyTorch and BLAS as many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(count), use_workers(count):
            yield
    finally:
        torch.set_num_threads(before)


def played(name: str, settings: dict[str, Any], workers: int) -> float:
    """Seconds of a run with so many workers."""
    study = load(name, settings)
    with TemporaryDirectory() as folder, use_cores(workers):
        began = perf_counter()
        run(study, Path(folder) / "run")
        return perf_counter() - began


def taken_apart(name: str, settings: dict[str, Any]) -> tuple[float, dict[str, Part]]:
    """Seconds of a run with one worker, and its parts."""
    parts = {part: Part() for part in LOOPS}
    train = sgd_regression.train_regression
    by_ue, at_once = (parts[part].around(train) for part in ("training", "central"))

    def train_either(*arguments: Any) -> Any:
        is_central = isinstance(arguments[3].optimiser, Adam)
        return (at_once if is_central else by_ue)(*arguments)

    places = (
        (mlp.Mlp, "compute_mean_squared_gradient"),
        (dlg.Dlg, "_search"),
        (leakage, "compute_sliced_w1_of_sets"),
    )
    with ExitStack() as stack:
        stack.enter_context(patch.object(sgd_regression, "train_regression", train_either))
        others = [part for word, part in parts.items() if word not in ("training", "central")]
        for part, (owner, word) in zip(others, places, strict=True):
            stack.enter_context(patch.object(owner, word, part.around(getattr(owner, word))))
        return played(name, settings, 1), parts


def some(pieces: list[Any], most: int) -> list[Any]:
    """An even part of them."""
    return (
        [pieces[i] for i in sorted(set(np.linspace(0, len(pieces) - 1, most).astype(int).tolist()))]
        if pieces
        else []
    )


def training(calls: list[Call], most: int) -> Loops:
    """Devices one after the other."""
    every = [(call, row) for call in calls for row in range(len(call[0][2].ue))]
    chosen = some(every, most)
    apart = [0.0]
    loop_s = 0.0
    for ((net, start, data, how, rng, read), made), row in chosen:
        alone = read(data.select(np.array([row])))
        name = number_row(data.ue[row : row + 1], data.model[row : row + 1])
        count = data.count[row : row + 1]
        plain = how.optimiser.kind_name() == "sgd" and not (
            how.dropout or how.proximal or how.sample_clip or how.weight_decay
        )
        if not plain or how.frozen_layers:
            raise ValueError("the loop trains by plain SGD")
        orders = [
            np.arange(count[0])
            if how.batch_size == "all"
            else rng.draw_orders(f"order{e}m", name, count)
            for e in range(how.local_epochs)
        ]
        number = torch.float32 if how.precision == 32 else torch.float64
        once = descended(
            net,
            start[data.model[row]],
            alone.x,
            alone.y,
            orders,
            int(how.compute_batch_sizes(count)[0]),
            how.learning_rate,
            number,
            limit=POLYAK if how.step_limit == "polyak" else None,
        )
        once_s, found = _timed(once, first=len(apart) == 1)
        loop_s += once_s
        ours = made[row]
        apart.append(float(np.linalg.norm(found - ours) / max(np.linalg.norm(ours), 1e-300)))
    return _scaled(loop_s, chosen, every, {"updates": float(f"{max(apart):.2g}")})


def centrally(calls: list[Call], most: int) -> Loops:
    """Maps one after the other, each for the first of its epochs: all take the same time."""
    every = [
        (call, row) for call in calls for row in range(len(call[0][2].ue)) if call[0][2].count[row]
    ]
    chosen = some(every, most)
    apart = [0.0]
    loop_s = 0.0
    for ((net, start, data, how, rng, read), _), row in chosen:
        if not isinstance(how.optimiser, Adam):
            raise ValueError("the loop trains centrally by Adam")
        one = how.model_copy(update={"local_epochs": 1})
        alone = read(data.select(np.array([row])))
        order = rng.draw_orders("order0m", number_row(alone.ue, alone.model), alone.count)
        number = torch.float32 if how.precision == 32 else torch.float64
        once = descended(
            net,
            start[data.model[row]],
            alone.x,
            alone.y,
            [order],
            int(how.compute_batch_sizes(alone.count)[0]),
            how.learning_rate,
            number,
            how.optimiser,
        )
        once_s, found = _timed(once, first=len(apart) == 1)
        loop_s += once_s * how.local_epochs
        ours = sgd_regression.train_regression(net, start, alone, one, rng)[0]
        apart.append(float(np.linalg.norm(found - ours) / max(np.linalg.norm(ours), 1e-300)))
    return _scaled(loop_s, chosen, every, {"updates": float(f"{max(apart):.2g}")})


def gradients(calls: list[Call], most: int) -> Loops:
    """Of the samples of a round and a model, all at once."""
    every = [(call, model) for call in calls for model in np.unique(call[0][2]).tolist()]
    chosen = some(every, most)
    apart = [0.0]
    loop_s = 0.0
    for ((net, parameters, model_of, z), _), model in chosen:
        mine = z[model_of == model]
        once_s, found = _timed(squared(net, parameters[model], mine), first=len(apart) == 1)
        loop_s += once_s
        ours = net.compute_mean_squared_gradient(
            parameters[[model]], np.zeros(len(mine), np.int64), mine
        )
        apart.append(abs(float(found.mean()) / ours - 1))
    return _scaled(loop_s, chosen, every, {"gradients": float(f"{max(apart):.2g}")})


def attacks(calls: list[Call], most: int) -> Loops:
    """Searches one after the other, each a target from one start."""
    every = [
        (call, target, k)
        for call in calls
        for target in range(len(call[0][3]))
        for k in range(call[0][4].shape[1])
    ]
    chosen = some(every, most)
    ours = list[float]()
    theirs = list[float]()
    loop_s = 0.0
    for ((attack, view, model, rows, start), found), target, k in chosen:
        weights = torch.from_numpy(view.model_before.parameters[model])
        peer = Loop(
            view.learner.net, weights, torch.from_numpy(view.update[rows[target : target + 1]])
        )
        begin = torch.from_numpy(start[target, k])
        once_s, (loss, _) = _timed(
            partial(peer.search, 0, begin, attack.iterations), first=not ours
        )
        loop_s += once_s
        ours.append(float(found[1][target]))
        theirs.append(loss)
    return _scaled(
        loop_s,
        chosen,
        every,
        {"losses": [digits(float(np.mean(x))) for x in (ours, theirs)]} if ours else {},
    )


def distances(calls: list[Call], most: int) -> Loops:
    """Sets of guesses one after the other."""
    sets = [
        (a, s, w1)
        for (a, sets_m, _), found in calls
        if a.size and sets_m.size  # else neither program has a distance to find
        for s, w1 in zip(sets_m.reshape(-1, *sets_m.shape[-2:]), np.atleast_1d(found), strict=True)
    ]
    chosen = some(sets, most)
    apart = [0.0]
    loop_s = 0.0
    for a, set_m, found in chosen:
        once_s, w1 = _timed(
            partial(_distance, np.ascontiguousarray(a.T), set_m), first=len(apart) == 1
        )
        loop_s += once_s
        apart.append(abs(w1 / found - 1))
    return _scaled(loop_s, chosen, sets, {"distances": float(f"{max(apart):.2g}")})


def _distance(along: FloatArray, guesses_m: FloatArray) -> float:
    """Mean distance along directions of sorted projections (n, directions) and guesses (m, 2)."""
    shadows = np.sort(project_points(guesses_m, along.shape[1]).T, axis=0)
    n = len(along)
    m = len(shadows)
    # breakpoints of both quantiles, in 1 / (n m)
    ends = np.union1d(np.arange(1, n + 1) * m, np.arange(1, m + 1) * n)
    gaps = np.abs(along[(ends - 1) // m] - shadows[(ends - 1) // n])
    return float((np.diff(ends, prepend=0) @ gaps).mean() / (n * m))


def _timed(once: Callable[[], Any], first: bool) -> tuple[float, Any]:
    """Seconds of a piece, and what it returns; the first one is played before, for what it
    loads.
    """
    if first:
        once()
    began = perf_counter()
    found = once()
    return perf_counter() - began, found


LOOPS: dict[str, Callable[[list[Call], int], Loops]] = {
    "training": training,
    "central": centrally,
    "samples": gradients,
    "attacks": attacks,
    "leakage": distances,
}


def _scaled(loop_s: float, chosen: list[Any], every: list[Any], compared: dict[str, Any]) -> Loops:
    return loop_s * len(every) / max(len(chosen), 1), len(chosen), len(every), compared


def rows(bench: Bench, seconds: float) -> Iterator[Row]:
    """Of each scenario the whole run, then its parts."""
    del seconds  # a run takes its time
    for name, settings, bar in bench.runs:
        played(name, settings, CORES)  # loads, compiles and fills caches
        runs = list[tuple[float, float]]()
        alone_s = list[float]()
        ratios = dict[str, list[tuple[float, float]]]()
        for _ in range(bench.turns):
            ours_s = played(name, settings, CORES)
            whole_s, parts = taken_apart(name, settings)
            with use_cores(CORES):
                found = {
                    part: LOOPS[part](kept.calls, bench.pieces)
                    for part, kept in parts.items()
                    if kept.calls
                }
            for part, (loop_s, *_) in found.items():
                ratios.setdefault(part, []).append((parts[part].took_s, loop_s))
            swapped_s = whole_s + sum(found[part][0] - parts[part].took_s for part in found)
            runs.append((ours_s, swapped_s))
            alone_s.append(whole_s)
        one = {"cores": CORES, "one_worker": digits(median(alone_s))}
        yield _row(f"{name}: the whole run", runs, bar) | one
        for part, pairs in ratios.items():
            _, given, of, compared = found[part]
            yield _row(f"{name}: {part}", pairs, None) | {"given": [given, of]} | compared


def _row(work: str, pairs: list[tuple[float, float]], bar: float | None) -> Row:
    ratios = sorted(theirs / max(ours, _TICK_S) for ours, theirs in pairs)
    ours, theirs = (digits(median(each)) for each in zip(*pairs, strict=True))
    return {
        "subject": "whole",
        "work": work,
        "ours": ours,
        "unit": "s",
        "peer": "loops over PyTorch and NumPy",
        "theirs": theirs,
        "ratio": digits(median(ratios)),
        "spread": [digits(ratios[0]), digits(ratios[-1])],
        "bar": bar,
        "met": None if bar is None else median(ratios) >= bar,
    }
