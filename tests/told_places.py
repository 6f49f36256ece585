"""The attack `tracker` told of places each round, in place of an attack on updates: three UEs at
known homes."""

import numpy as np
from tracked import Told, view_of

from fl.attacks.tracker import Tracker
from fl.types import Public, RoundContext
from netsim.geometry import Area
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 4000.0, 3000.0)
RNG = Streams(0).derive_rng("attack.test")
HOME_M = np.array([[1030.0, 970.0], [3010.0, 2220.0], [620.0, 2540.0]])
ROUND_S = 1800.0


def facts_of(number):
    time_s = number * ROUND_S
    return RoundContext(number, time_s, Public(AREA, 1), round_s=ROUND_S, week_s=time_s)


def tracker(rows, **settings):
    places = Told(said=np.nan_to_num(rows, nan=-1e9))
    part = Tracker(**{"sigma_m": 300.0, "outlier": 0.1, "cell_m": 100.0} | settings)
    return Tracker.model_construct(**part.__dict__ | {"of": places})


def played(attack, said, state=None, start=0):
    state = attack.start() if state is None else state
    for t in range(start, len(said)):
        is_named = np.flatnonzero(np.isfinite(said[t]).all(axis=1))
        estimates, state = attack.run(view_of(is_named), facts_of(t), state, RNG)
        yield t, estimates, state


def noisy(rounds, seed=0, sigma_m=300.0):
    rng = np.random.default_rng(seed)
    return np.clip(HOME_M + rng.normal(0, sigma_m, (rounds, 3, 2)), 1.0, [3999.0, 2999.0])


def away_m(estimates, quantity):
    rows = np.array([w == quantity for w in estimates.what])
    return np.linalg.norm(estimates.position_m[rows] - HOME_M[estimates.ue[rows]], axis=1)
