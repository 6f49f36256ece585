"""The attack `tracker` told of places each round, in place of an attack on updates: three UEs at
known homes."""

from collections.abc import Iterator

import numpy as np

from fl.attacks.base import Attack, View
from fl.attacks.tracker import Tracker, TrackerState
from fl.types import Estimates, Public, RoundContext
from netsim.geometry import Area
from netsim.rng import Rng, Streams

AREA = Area(0.0, 0.0, 4000.0, 3000.0)
RNG = Streams(0).at("attack.test")
HOME_M = np.array([[1030.0, 970.0], [3010.0, 2220.0], [620.0, 2540.0]])
ROUND_S = 1800.0


class Told(Attack):
    """Says what it was told of each round: centroids (n, 2) of UEs 0 ... n - 1."""

    kind: str = "told"
    said: tuple[tuple[tuple[float, float], ...], ...] = ()

    def run(self, view: View, facts: RoundContext, state: None, rng: Rng) -> tuple[Estimates, None]:
        place = np.array(self.said[facts.round])[view.ue]
        return view.spread("centroid", np.arange(len(view.ue)), place), None


def view_of(ue: np.ndarray) -> View:
    every = np.arange(len(ue))
    return View(
        "updates", "all", np.zeros((len(ue), 1)), every * 0, ue, every * 0, every, None, None, None
    )  # type: ignore[arg-type]


def facts_of(number: int) -> RoundContext:
    time_s = number * ROUND_S
    return RoundContext(number, time_s, Public(AREA, 1), round_s=ROUND_S, week_s=time_s)


def tracker(said: np.ndarray, **settings: object) -> Tracker:
    told = Told(
        said=tuple(tuple(map(tuple, each)) for each in np.nan_to_num(said, nan=-1e9).tolist())
    )
    given = {"sigma_m": 300.0, "outlier": 0.1, "cell_m": 100.0, **settings}
    return Tracker.model_construct(**(Tracker(**given).__dict__ | {"of": told}))  # type: ignore[arg-type]


def played(
    attack: Tracker, said: np.ndarray, state: TrackerState | None = None, start: int = 0
) -> Iterator[tuple[int, Estimates, TrackerState]]:
    state = attack.start() if state is None else state
    for t in range(start, len(said)):
        there = np.flatnonzero(np.isfinite(said[t]).all(axis=1))
        estimates, state = attack.run(view_of(there), facts_of(t), state, RNG)
        yield t, estimates, state


def noisy(rounds: int, seed: int = 0, sigma_m: float = 300.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.clip(HOME_M + rng.normal(0, sigma_m, (rounds, 3, 2)), 1.0, [3999.0, 2999.0])


def away_m(estimates: Estimates, what: str) -> np.ndarray:
    mine = np.array([w == what for w in estimates.what])
    return np.asarray(
        np.linalg.norm(estimates.position_m[mine] - HOME_M[estimates.ue[mine]], axis=1)
    )
