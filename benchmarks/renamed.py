"""What a tracker costs where every update comes under a new name: a round early and late, and
hindsight.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from time import process_time

import numpy as np

from benchmarks.world import Row, row
from fl.attacks.base import Attack, View
from fl.attacks.tracker import Tracker
from fl.types import Estimates, Public, RoundContext
from netsim.geometry import Area
from netsim.rng import Rng, Streams

_SIDE_M = 10_000.0
_ROUND_S = 1_800.0
_SIGMA_M = 300.0


class _Near(Attack):
    """Says where the senders (n,) of a round live, with a Gaussian error."""

    kind: str = "near"
    home_m: object = None

    def run(self, view: View, facts: RoundContext, state: None, rng: Rng) -> tuple[Estimates, None]:
        every = np.arange(len(view.ue))
        error_m = _SIGMA_M * rng.normal("error", every, (2,), item=facts.round)
        return view.build_estimates(
            "centroid", every, np.clip(self.home_m + error_m, 1.0, _SIDE_M - 1.0)
        ), None


def rows(ues: int, rounds: int, cells: int) -> Iterator[Row]:
    """Each when it is measured."""
    every = np.arange(ues)
    rng = Streams(0).derive_rng("benchmark")
    area = Area(0.0, 0.0, _SIDE_M, _SIDE_M)
    told = _Near.model_construct(home_m=area.sample(rng.uniform("home", every, (2,))))
    given = Tracker(sigma_m=_SIGMA_M, outlier=0.1, cell_m=_SIDE_M / cells)
    attack = Tracker.model_construct(**(given.__dict__ | {"of": told}))
    state = attack.start()
    took = list[float]()
    for t in range(rounds):
        facts = RoundContext(
            t, t * _ROUND_S, Public(area, 1), round_s=_ROUND_S, week_s=t * _ROUND_S
        )
        view = View(
            "updates",
            "all",
            np.zeros((ues, 1)),
            every * 0,
            t * ues + every,
            every * 0,
            every,
            None,
            None,
            None,
            renames=True,
        )  # type: ignore[arg-type]
        started = process_time()
        _, state = attack.run(view, facts, state, rng)
        took.append(process_time() - started)
    started = process_time()
    for _ in attack.smooth_beliefs(state, facts):
        pass
    tenth = max(rounds // 10, 1)
    for what, value, unit in (
        ("filter, a round of the second tenth", median(took[tenth : 2 * tenth]), "s"),
        ("filter, a round of the last tenth", median(took[-tenth:]), "s"),
        ("names that are followed at the end", float(len(state.sender)), "1"),
        ("hindsight", process_time() - started, "s"),
    ):
        work = f"names of one round: {what}, {ues} UEs, {rounds} rounds, {cells**2} cells"
        yield {**row(work, value, unit), "subject": "tracking"}
