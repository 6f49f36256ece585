"""What an agent is set beside: powers that nobody learnt, and the best that optimisation finds, for one problem."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fl.power.search import PowerPlan, average, evolution, full, judged, plateaus
from netsim.rng import Rng
from netsim.units import FloatArray
from rl.problem import Problem, log_power
from rl.settings import OPTIMUM

ALPHA = (0.8, 1.0)  # shares of the path loss that fractional power makes up for


def references(problem: Problem, evaluations: int, rng: Rng, thorough: bool = True) -> dict[str, PowerPlan]:
    """Name -> plan: average, full, the rule by amplitude, fractional power, random search, and two optimisers.

    evaluations : of the random search.
    `optimum` is the better of the optimisers; top-up has no plateaus, so there evolution stands alone. Without
    `thorough` evolution is left out where there are plateaus, which agree with it to a few tenths of a percent.
    """
    o, limits = problem.objective, problem.limits
    plans = {"average": average(o, limits), "full": full(o, limits), "amplitude": problem.rule}
    for alpha in ALPHA:
        plans[f"fractional {alpha:g}"] = judged(o, limits, fractional(problem, alpha)[None], 1)
    tries = log_power(2.0 * rng.uniform("tries", np.arange(evaluations), (problem.n_ue,)) - 1.0, limits)
    plans["random"] = judged(o, limits, tries, evaluations)
    if o.criterion != "top-up":
        plans["plateaus"] = plateaus(o, limits)
    if thorough or o.criterion == "top-up":
        plans["evolution"] = evolution(o, limits, rng)
    best = min((plans[n] for n in ("plateaus", "evolution") if n in plans), key=lambda p: p.value)
    return plans | {OPTIMUM: best}


def fractional(problem: Problem, alpha: float) -> FloatArray:
    """Open loop: x_k = P0 gain_k^-alpha within the limits of a UE, P0 as large as the limit on the total allows.

    gain_k is the mean over rounds, small-scale fading included.
    """
    limits = problem.limits
    shape = problem.objective.trajectory.gain.mean(axis=0) ** -alpha
    return _scaled(lambda p0: np.clip(p0 * shape, limits.each_min_w, limits.each_max_w), limits.total_max_w, shape)


def _scaled(power_w: Callable[[float], FloatArray], total_w: float, shape: FloatArray) -> FloatArray:
    """power_w(p0) with the largest p0 whose total keeps total_w, by bisection over its logarithm."""
    low, high = -60.0, 60.0
    middle = -float(np.log(shape).mean())
    for _ in range(100):
        mid = (low + high) / 2
        if power_w(float(np.exp(mid + middle))).sum() <= total_w:
            low = mid
        else:
            high = mid
    return power_w(float(np.exp(low + middle)))
