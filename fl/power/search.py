r"""Power vectors that make the bound small: one smooth problem for each possible switch, or
differential evolution.

L jumps where T_th changes and falls with power in between, so optima sit on the edges of plateaus.
For a fixed T_th = j what is left is smooth in log power::

    min sum_k cost_k / x_k    subject to    T_th(x) <= j,   x_min <= x_k <= x_max,   P_min <= sum_k
    x_k <= P_max
"""

from dataclasses import replace
from math import inf

import numpy as np
from pydantic import Field, PositiveFloat

from fl.power.bound import PowerLoss
from netsim.columns import frozen, no_floats
from netsim.part import Part
from netsim.record import Row
from netsim.rng import Rng
from netsim.units import FloatArray

_SCALES = 2000  # of the rule by amplitude that are tried
_BISECTIONS = 60  # of a shift of powers: to the last digit
_MARGIN = 1e-9  # by which a plateau's edge is kept, so that rounding does not fall over it


class Limits(Part):
    """Limits of power vectors: the power of each UE and the total power, in watts; by default the
    total has none.
    """

    each_min_w: PositiveFloat = 0.05
    """smallest power of a UE, W (0.25 P0); without it an optimum may use one UE at low power as
    noise for all"""
    each_max_w: PositiveFloat = 0.2
    """largest power of a UE, W (P0)"""
    total_min_w: float = Field(0.0, ge=0)
    """smallest total power, W; the default is no limit"""
    total_max_w: PositiveFloat = 1000000.0
    """largest total power, W; the default is no limit"""

    def check(self, k: int) -> None:
        """Raise ValueError where no vector of k UEs keeps the limits."""
        if k * self.each_min_w > self.total_max_w:
            raise ValueError(
                f"each_min_w: {k} UEs of {self.each_min_w:g} W exceed total_max_w "
                f"{self.total_max_w:g}; take at most {self.total_max_w / k:.4g}"
            )
        if k * self.each_max_w < self.total_min_w:
            raise ValueError(
                f"each_max_w: {k} UEs of {self.each_max_w:g} W stay below total_min_w "
                f"{self.total_min_w:g}; take at least {self.total_min_w / k:.4g}"
            )

    def compute_max_total_w(self, k: int) -> float:
        """The largest total power of k UEs, W."""
        return min(self.total_max_w, k * self.each_max_w)

    def split_equally(self, total_w: float, k: int) -> FloatArray:
        """The same power for each of k UEs, of this total where the limits allow it (1, K)."""
        return self.project(np.full((1, k), total_w / k))

    def project(self, power_w: FloatArray) -> FloatArray:
        """The nearest vectors within the limits (n, K), in Euclidean distance of power.

        The nearest vector of a given total is clip(x + s, x_min, x_max) for one shift s, with which
        its total grows.
        """
        self.check(power_w.shape[1])
        low = self.each_min_w
        high = self.each_max_w
        inside = np.clip(power_w, low, high)
        total = inside.sum(axis=1, keepdims=True)
        target = np.clip(total, self.total_min_w, self.total_max_w)
        below = low - power_w.max(axis=1, keepdims=True)
        above = high - power_w.min(axis=1, keepdims=True)
        for _ in range(_BISECTIONS):
            middle = (below + above) / 2
            short = np.clip(power_w + middle, low, high).sum(axis=1, keepdims=True) < target
            below = np.where(short, middle, below)
            above = np.where(short, above, middle)
        return np.where(total == target, inside, np.clip(power_w + above, low, high))


@frozen
class PowerPlan:
    """A power vector (K,), what L is there, after how many rounds artificial noise ends, and what
    finding it took.
    """

    power_w: FloatArray
    value: float
    switch: int
    evaluations: int


def pick_best_plan(
    objective: PowerLoss, limits: Limits, power_w: FloatArray, evaluations: int
) -> PowerPlan:
    """The best of power vectors (n, K), once they keep the limits."""
    kept = limits.project(power_w)
    values = objective(kept)
    best = np.argmin(values)
    switch = objective.find_switch(kept[best : best + 1])[0]
    return PowerPlan(kept[best], float(values[best]), int(switch), evaluations)


def plan_by_amplitude(objective: PowerLoss, limits: Limits) -> PowerPlan:
    """x_k = s G_k / ||h_k|| within the limits, with the best s; G_k the mean weight, ||h_k|| from
    the mean gain.

    The noise of a UE counts with G_k^2 / (x_k ||h_k||^2), and so for powers of a given total the
    sum is least there.
    """
    t = objective.trajectory
    with np.errstate(divide="ignore", invalid="ignore"):
        shape = t.weight.mean(axis=0) / np.sqrt(t.gain.mean(axis=0))
    shape = np.nan_to_num(shape, posinf=0.0)
    shape = np.maximum(shape / max(shape.max(), 1e-300), 1e-12)
    scales = np.geomspace(limits.each_min_w, limits.each_max_w / shape.min(), _SCALES)
    return pick_best_plan(objective, limits, limits.project(scales[:, None] * shape), _SCALES)


def plan_average(objective: PowerLoss, limits: Limits) -> PowerPlan:
    """Equal split of the middle of the allowed total."""
    k = len(objective.cost_w)
    middle_w = (limits.total_min_w + limits.compute_max_total_w(k)) / 2
    return pick_best_plan(objective, limits, limits.split_equally(middle_w, k), 1)


def plan_full(objective: PowerLoss, limits: Limits) -> PowerPlan:
    """Equal split of the largest total."""
    k = len(objective.cost_w)
    largest_w = limits.compute_max_total_w(k)
    return pick_best_plan(objective, limits, limits.split_equally(largest_w, k), 1)


def plan_by_evolution(
    objective: PowerLoss, limits: Limits, rng: Rng, generations: int = 150
) -> PowerPlan:
    """Differential evolution over log power, every candidate projected onto the limits; 8 vectors a
    UE.
    """
    from scipy.optimize import differential_evolution

    k = len(objective.cost_w)
    limits.check(k)
    bounds = (np.log(limits.each_min_w), np.log(limits.each_max_w))
    seed = int(rng.uniform("seed", 0)[0] * 2**32)
    evaluations = 0

    def evaluate(log_power: FloatArray) -> FloatArray:  # (K, n)
        nonlocal evaluations
        evaluations += log_power.shape[1]
        return objective(limits.project(np.exp(log_power.T)))

    optimum = differential_evolution(
        evaluate,
        [bounds] * k,
        maxiter=generations,
        popsize=8,
        init="sobol",
        tol=0.0,
        polish=False,
        vectorized=True,
        updating="deferred",
        seed=seed,
    )
    return pick_best_plan(objective, limits, np.exp(optimum.x)[None], evaluations)


def plan_by_plateaus(objective: PowerLoss, limits: Limits) -> PowerPlan:
    """Each plateau's own problem by SLSQP from a few starts, and the best of all; those that cannot
    win are skipped. Not with top-up, where nothing switches.
    """
    k = len(objective.cost_w)
    equal = limits.split_equally(limits.compute_max_total_w(k), k)
    free, evaluations = _solve_plateau(objective, limits, None, [equal[0]])
    power = free
    best = pick_best_plan(objective, limits, free[None], 0)
    lowest = (objective.cost_w / free).sum()  # no plateau has less channel noise than this
    for j in range(objective.find_switch(free[None])[0]):
        edge = _find_edge(objective, j)
        if lowest + objective.artificial[j] >= best.value or edge is None:
            continue
        starts = [power, np.full(k, limits.each_min_w), _shrink_to_edge(free, edge, limits)]
        power, more = _solve_plateau(objective, limits, edge, starts)
        evaluations += more
        plan = pick_best_plan(objective, limits, power[None], 0)
        if plan.value < best.value:
            best = plan
    return replace(best, evaluations=evaluations)


@frozen
class _Halfspace:
    """T_th <= j: ceiling_w (K,) on each UE's power, or demand (m,) <= root @ noise (m, K) on all,
    root = x^(-1/2).
    """

    ceiling_w: FloatArray
    noise: FloatArray
    demand: FloatArray


def _find_edge(objective: PowerLoss, j: int) -> _Halfspace | None:
    """Powers that meet T_th <= j; None where none does."""
    t = objective.trajectory
    std = t.std[j:]
    noise = t.channel_std[j:]
    k = std.shape[1]
    if objective.criterion == "per-device":
        with np.errstate(divide="ignore", invalid="ignore"):
            ceiling = np.where(std > 0, (noise / std) ** 2, inf).min(axis=0)
        if (ceiling > 0).all():
            return _Halfspace(ceiling * (1.0 - _MARGIN), np.zeros((0, k)), no_floats())
        return None
    channel, channel_of_round = np.unique(noise, axis=0, return_inverse=True)
    demand = np.zeros(len(channel))
    # rounds of the same channel ask for the strictest of them
    np.maximum.at(demand, channel_of_round.ravel(), std.sum(axis=1))
    return _Halfspace(np.full(k, inf), channel, demand * (1.0 + _MARGIN))


def _shrink_to_edge(power_w: FloatArray, edge: _Halfspace, limits: Limits) -> FloatArray:
    """A vector scaled down until it meets the edge."""
    if not len(edge.demand):
        return np.clip(np.minimum(power_w, edge.ceiling_w), limits.each_min_w, limits.each_max_w)
    meets = edge.noise @ power_w**-0.5
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(edge.demand > 0, (meets / edge.demand) ** 2, inf).min()
    return np.clip(power_w * min(scale, 1.0), limits.each_min_w, limits.each_max_w)


def _solve_plateau(
    objective: PowerLoss, limits: Limits, edge: _Halfspace | None, starts: list[FloatArray]
) -> tuple[FloatArray, int]:
    """The best power (K,) that SLSQP finds from the starts, in log power, and how many evaluations
    it took.
    """
    from scipy.optimize import minimize

    cost = objective.cost_w / max(objective.cost_w.sum(), 1e-300)
    ceiling_w = np.full(len(cost), inf)
    if edge is not None:
        ceiling_w = edge.ceiling_w
    top_w = np.clip(ceiling_w, limits.each_min_w, limits.each_max_w)
    bounds = [(np.log(limits.each_min_w), np.log(high)) for high in top_w]

    def evaluate(y: FloatArray) -> tuple[float, FloatArray]:
        terms = cost * np.exp(-y)
        return terms.sum(), -terms

    low_w = limits.total_min_w
    high_w = limits.compute_max_total_w(len(cost))
    below_high: Row = {
        "type": "ineq",
        "fun": lambda y: 1.0 - np.exp(y).sum() / high_w,
        "jac": lambda y: -np.exp(y) / high_w,
    }
    above_low: Row = {"type": "ineq", "fun": lambda y: np.exp(y).sum() - low_w, "jac": np.exp}
    rules = [below_high, above_low]
    if edge is not None and len(edge.demand):
        scale = np.maximum(edge.demand, 1e-300)
        noise = edge.noise / scale[:, None]
        demand = edge.demand / scale
        beyond_edge: Row = {
            "type": "ineq",
            "fun": lambda y: noise @ np.exp(-y / 2) - demand,
            "jac": lambda y: -0.5 * noise * np.exp(-y / 2),
        }
        rules.append(beyond_edge)
    tried = []
    evaluations = 0
    for start in starts:
        y = np.log(np.clip(start, limits.each_min_w, top_w))
        done = minimize(
            evaluate,
            y,
            jac=True,
            method="SLSQP",
            bounds=bounds,
            constraints=rules,
            options={"maxiter": 200},
        )
        tried.append(np.exp(done.x))
        evaluations += done.nfev
    kept = limits.project(np.array(tried))
    return kept[np.argmin(objective(kept))], evaluations
