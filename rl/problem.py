"""The problem of the study for an agent: input is a vector of powers, output the bound of a whole
training.

Everything here is numpy, so that a trained policy can be used without a training library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from fl.power.bound import PowerLoss, Trajectory
from fl.power.search import (
    Limits,
    PowerPlan,
    pick_best_plan,
    plan_average,
    plan_by_amplitude,
    plan_by_evolution,
    plan_by_plateaus,
    plan_full,
)
from netsim.compiled import compiled
from netsim.rng import Rng
from netsim.units import FloatArray
from rl.settings import OPTIMUM

Observe = Literal["paper", "channel"]
Seen = npt.NDArray[np.float32]
STEPS = 20  # of an episode
PROFILE = (0.1, 0.3, 0.5, 0.7, 0.9)  # shares of the rounds at which requirements are shown
_WIDE = 3.0  # natural logarithms that fill half of the range of an observation


def convert_to_power_w(action: FloatArray, limits: Limits) -> FloatArray:
    """Power in watts of actions in [-1, 1]: equal steps are equal ratios, -1 the least power of a
    UE and 1 the most.

    Ignores the limits on the total.
    """
    inside = np.minimum(np.maximum(action, -1.0), 1.0)  # in half the time of `clip`
    return limits.each_min_w * (limits.each_max_w / limits.each_min_w) ** ((inside + 1.0) / 2.0)


def convert_to_action(power_w: FloatArray, limits: Limits) -> FloatArray:
    """The action in [-1, 1] that asks for these powers."""
    span = np.log(limits.each_max_w / limits.each_min_w)
    if span > 0:
        action = 2.0 * np.log(power_w / limits.each_min_w) / span - 1.0
    else:
        action = np.zeros_like(power_w)
    return np.minimum(np.maximum(action, -1.0), 1.0)


def find_nearest_w(power_w: FloatArray, limits: Limits) -> FloatArray:
    """The nearest power vector (K,) within the limits: all change by as much, up to the limits of a
    UE.

    ValueError for powers that are not finite.
    """
    if not np.isfinite(power_w).all():
        raise ValueError("power_w must be finite")
    inside = np.minimum(np.maximum(power_w, limits.each_min_w), limits.each_max_w)
    total_w = inside.sum()
    want_w = min(max(total_w, limits.total_min_w), limits.total_max_w)
    if want_w == total_w:
        return inside
    return _shift_to_total(
        power_w, np.ones_like(power_w), want_w, limits.each_min_w, limits.each_max_w
    )


@compiled
def _shift_to_total(
    power_w: FloatArray, slope: FloatArray, total_w: float, low_w: float, high_w: float
) -> FloatArray:
    """clip(x + s slope) within the limits of a UE (K,), with the s that comes nearest to a total.

    The total rises with s, in straight lines between the corners where a UE leaves its least or
    meets its most power.
    """
    corners = np.concatenate(((low_w - power_w) / slope, (high_w - power_w) / slope))
    order = corners.argsort()
    shift = corner = corners[order[0]]
    total = least = len(slope) * low_w  # at a corner
    rise = grown = 0.0
    for i in range(len(order) - 1):
        k = order[i]
        rise += slope[k] if k < len(slope) else -slope[k - len(slope)]
        after = corners[order[i + 1]]
        grown += rise * (after - corner)
        total_after = least + grown
        if total_w >= total_after:
            shift = after
        elif total_w >= total:
            shift = (after - corner) / (total_after - total) * (total_w - total) + corner
        corner = after
        total = total_after
    return np.minimum(np.maximum(power_w + shift * slope, low_w), high_w)


@dataclass(frozen=True)
class Problem:
    """One objective, the limits of its power, and how it is shown.

    observe : `paper`, the last powers, T_th and the last objective; `channel`, besides these the
    gains and what noise is required.
    """

    objective: PowerLoss
    limits: Limits
    observe: Observe = "paper"

    @property
    def n_ue(self) -> int:
        return int(self.objective.trajectory.std.shape[1])

    @property
    def n_seen(self) -> int:
        return count_observed_values(self.observe, self.n_ue)

    @cached_property
    def start(self) -> PowerPlan:
        """Average power: where every comparison begins."""
        return plan_average(self.objective, self.limits)

    def act(self, action: FloatArray) -> PowerPlan:
        """The outcome of an action."""
        return self._judge(find_nearest_w(convert_to_power_w(action, self.limits), self.limits))

    def evaluate(self, power_w: FloatArray) -> PowerPlan:
        """The bound at a power vector that keeps the limits."""
        if len(power_w) != self.n_ue:
            raise ValueError("power_w must have one power for each UE")
        if not 0.0 < power_w.min() <= power_w.max() < np.inf:
            raise ValueError("power_w must be finite and above 0")
        return self._judge(power_w)

    def _judge(self, power_w: FloatArray) -> PowerPlan:
        powers_w = power_w[None]
        switch = self.objective.find_switch(powers_w)
        return PowerPlan(power_w, float(self.objective(powers_w, switch)[0]), int(switch[0]), 1)

    def ratio(self, outcome: PowerPlan) -> float:
        """L over that of average power."""
        return outcome.value / self.start.value

    def reward(self, outcome: PowerPlan) -> float:
        """-5 ln(L / L at average power): falls with L, and does not depend on its unit."""
        return -5.0 * np.log(self.ratio(outcome))

    def observe_outcome(self, last: PowerPlan) -> Seen:
        """The observation after an outcome, float32 in [-1, 1].

        paper : powers on the scale of actions (K), 2 T_th / T - 1, ln(L / L_average) / 5. channel :
        besides them ln gain of each UE (K), what the channel brings at average power against what
        each UE requires on average (K), and against what all require at five times of the training,
        all in logarithms.
        """
        k = self.n_ue
        observation = np.empty(self.n_seen, np.float32)
        observation[:k] = convert_to_action(last.power_w, self.limits)
        observation[k] = 2.0 * last.switch / len(self.objective.trajectory.std) - 1.0
        observation[k + 1] = min(max(np.log(self.ratio(last)), -5.0), 5.0) / 5.0
        if self.observe == "channel":
            observation[k + 2 :] = self._channel_seen
        return observation

    def play_episode(self, act: Callable[[Seen], FloatArray]) -> list[PowerPlan]:
        """The outcomes of a policy in an episode that begins at average power."""
        outcomes = []
        last = self.start
        for _ in range(STEPS):
            last = self.act(act(self.observe_outcome(last)))
            outcomes.append(last)
        return outcomes

    def with_gain(self, gain: FloatArray) -> Problem:
        """The same requirements and weights over another channel, gain (K,) in every round."""
        o = self.objective
        t = o.trajectory
        moved = Trajectory(t.std, t.weight, np.tile(gain, (len(t.std), 1)), t.scale)
        return Problem(PowerLoss(moved, o.law, o.criterion), self.limits, self.observe)

    @cached_property
    def _channel_seen(self) -> Seen:
        t = self.objective.trajectory
        brought = t.channel_std * (1.0 / np.sqrt(self.start.power_w))  # (T, K)
        profile_round = (np.array(PROFILE) * (len(t.std) - 1)).astype(int)
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = (
                np.log(t.gain.mean(axis=0) * self.limits.each_max_w),
                np.log(brought.mean(axis=0) / t.std.mean(axis=0)),
                np.log(brought.sum(axis=1)[profile_round] / t.std.sum(axis=1)[profile_round]),
            )
        levels = np.nan_to_num(np.concatenate(parts) / _WIDE, nan=0.0, posinf=1.0, neginf=-1.0)
        return np.clip(levels, -1.0, 1.0).astype(np.float32)


def count_observed_values(observe: Observe, n_ue: int) -> int:
    """Number of values of an observation for n_ue UEs."""
    if observe == "paper":
        return n_ue + 2
    return 3 * n_ue + 2 + len(PROFILE)


ALPHA = (0.8, 1.0)  # shares of the path loss that fractional power makes up for


def plan_references(
    problem: Problem, evaluations: int, rng: Rng, thorough: bool = True
) -> dict[str, PowerPlan]:
    """Name -> plan: average, full, the rule by amplitude, fractional power, random search, and two
    optimisers.

    evaluations : of the random search. `optimum` is the better optimiser; top-up has no plateaus.
    Without `thorough` evolution is left out where there are plateaus, which agree with it to a few
    tenths of a percent.
    """
    o = problem.objective
    limits = problem.limits
    plans = {
        "average": plan_average(o, limits),
        "full": plan_full(o, limits),
        "amplitude": plan_by_amplitude(o, limits),
    }
    for alpha in ALPHA:
        plans[f"fractional {alpha:g}"] = pick_best_plan(
            o, limits, plan_fractional(problem, alpha)[None], 1
        )
    tries = convert_to_power_w(
        2.0 * rng.uniform("tries", np.arange(evaluations), (problem.n_ue,)) - 1.0, limits
    )
    plans["random"] = pick_best_plan(o, limits, tries, evaluations)
    if o.criterion != "top-up":
        plans["plateaus"] = plan_by_plateaus(o, limits)
    if thorough or o.criterion == "top-up":
        plans["evolution"] = plan_by_evolution(o, limits, rng)
    best = min((plans[n] for n in ("plateaus", "evolution") if n in plans), key=lambda p: p.value)
    return plans | {OPTIMUM: best}


def plan_fractional(problem: Problem, alpha: float) -> FloatArray:
    """Open loop: x_k = P0 gain_k^-alpha within the limits of a UE, P0 as large as the limit on the
    total allows.

    gain_k is the mean over rounds, small-scale fading included.
    """
    shape = problem.objective.trajectory.gain.mean(axis=0) ** -alpha
    return _shift_to_total(
        np.zeros(len(shape)),
        shape / shape.mean(),
        problem.limits.total_max_w,
        problem.limits.each_min_w,
        problem.limits.each_max_w,
    )
