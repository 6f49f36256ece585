"""`netsim/PowerAllocation-v0` many times in one process: all power vectors of a step are judged at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from netsim.units import FloatArray, IntArray
from rl import kernel
from rl.env_allocation import PowerAllocation, beginning
from rl.problem import STEPS, Problem, Seen, checked_options
from rl.specs import SpecifiedVector
from rl.vectors import checked_actions, own_seeds


class PowerAllocations(SpecifiedVector):
    """n environments `PowerAllocation`, with its spaces, rewards and episodes, stepped as arrays.

    Each has a generator and episodes of its own; a seed s gives them s, s + 1, ..., a list one each. One whose episode
    ended begins a new one at the next step (`AutoresetMode.NEXT_STEP`): its action is ignored there, its reward is 0.
    Values of `info` are arrays with an entry for each, and a mask `_name` as Gymnasium has them. An action that is not
    finite is refused, and then no environment steps.

    The problems may differ in their channels only.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, problems: Sequence[Problem], num_envs: int = 1) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs: {num_envs}; take 1 or more")
        one = PowerAllocation(problems)
        self.num_envs, self.problems = num_envs, problems
        self.single_action_space, self.single_observation_space = one.action_space, one.observation_space
        self.action_space = batch_space(one.action_space, num_envs)
        self.observation_space = batch_space(one.observation_space, num_envs)
        self.shape = (num_envs, problems[0].n_ue)
        self.generators = [np_random(None)[0] for _ in range(num_envs)]
        self.steps, self.episodes = np.full(num_envs, STEPS), np.zeros(num_envs, dtype=np.int64)
        self.draw = np.zeros(num_envs, dtype=np.int64)
        self.seen = np.zeros((num_envs, problems[0].n_seen), dtype=np.float32)
        self.over = np.zeros(num_envs, dtype=np.bool_)
        self.begun = False
        self._limits, self._channels, self._laws, self._criterion = _laws(problems)
        self._reach = problems[0].middle[1]
        self._all, self._never = np.ones(num_envs, dtype=np.bool_), np.zeros(num_envs, dtype=np.bool_)
        for mask in (self._all, self._never):
            mask.flags.writeable = False  # they are handed out

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        n, given = self.num_envs, checked_options(options, {"draw": len(self.problems), "power": "average"})
        for i, own in enumerate(own_seeds(seed, n)):
            if own is not None:
                self.generators[i], self.episodes[i] = np_random(own)[0], 0
        action, average = np.zeros(self.shape), []
        for i in range(n):
            began = self._begin(i, given)
            average += [i] if began is None else []
            action[i] = 0.0 if began is None else began
        power_w, value, switch, _ = self._act(action)
        for i in average:
            problem = self.problems[self.draw[i]]
            power_w[i], value[i], switch[i] = problem.start.power_w, problem.start.value, problem.start.switch
            self.seen[i] = problem.seen(problem.start)
        self.begun, self.over = True, np.zeros(n, dtype=np.bool_)
        return self.seen.copy(), self._info(power_w, value, switch)

    def step(self, actions: Seen) -> tuple[Seen, FloatArray, Any, Any, dict[str, Any]]:
        if not self.begun:
            raise ResetNeeded("step: no episode is going on; reset the environment first")
        action = checked_actions(actions, self.shape, self.over)
        again = self.over.nonzero()[0]
        for i in again.tolist():
            action[i] = self._begin(i, {})
        power_w, value, switch, log_ratio = self._act(action)
        reward = -5.0 * log_ratio
        self.steps += 1
        if len(again):
            self.steps[again], reward[again] = 0, 0.0
        self.over = self.steps >= STEPS
        return self.seen.copy(), reward, self._never, self.over.copy(), self._info(power_w, value, switch)

    def _begin(self, i: int, options: dict[str, Any]) -> FloatArray | None:
        """A new episode of environment i; the action that it begins with, None for average power."""
        first = bool(self.episodes[i] == 0)
        draw, action = beginning(self.generators[i], len(self.problems), self.shape[1], options, first)
        self.draw[i], self.steps[i], self.episodes[i] = draw, 0, self.episodes[i] + 1
        problem = self.problems[draw]
        if problem.observe == "channel":
            self.seen[i] = problem.seen(problem.start)  # what no action changes of it stays
        return action

    def _act(self, action: FloatArray) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
        """Powers, L, T_th and ln(L / L at average power) of all, which are seen then."""
        power_w, value, switch, log_ratio, seen = kernel.act_all(
            action, self._limits, self._channels, self._reach, self.draw, self._laws, self._criterion
        )
        self.seen[:, : seen.shape[1]] = seen
        return power_w, value, switch, log_ratio

    def _info(self, power_w: FloatArray, value: FloatArray, switch: IntArray) -> dict[str, Any]:
        info = {"objective": value, "t_th": switch, "power_w": power_w, "draw": self.draw.copy()}
        return info | {f"_{name}": self._all for name in info}


def _laws(problems: Sequence[Problem]) -> tuple[Any, Any, Any, int]:
    """What `kernel.act_all` takes: limits; of each channel its noise, costs and L at average power; what is common."""
    first = problems[0]
    limits, own = first.limits, first.objective
    for p in problems:
        o = p.objective
        same = (p.limits, p.observe, p.acts, o.law, o.criterion) == (
            limits, first.observe, first.acts, own.law, own.criterion
        )  # fmt: skip
        t, mine = o.trajectory, own.trajectory
        if not (same and np.array_equal(t.std, mine.std) and np.array_equal(t.weight, mine.weight)):
            raise ValueError("problems: they differ in more than their channels; step them one by one")
        if len(p.laws[0]) != len(first.laws[0]):
            raise ValueError("problems: some channels are the same in all rounds and some not; step them one by one")
    channels = (
        np.stack([p.laws[0] for p in problems]),
        np.stack([p.laws[2] for p in problems]),
        np.array([p.start.value for p in problems]),
        np.stack([p.middle[0] for p in problems]),
    )
    _, std, _, artificial, round_weight, weight, criterion = first.laws
    watts = (limits.each_min_w, limits.each_max_w, limits.total_min_w, limits.total_max_w)
    return watts, channels, (std, artificial, round_weight, weight), criterion
