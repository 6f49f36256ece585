"""`netsim/PowerAllocation-v0`: the study's problem, one vector of powers for a whole training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from rl.problem import STEPS, Outcome, Problem, Seen, checked_options


class PowerAllocation(gymnasium.Env[Seen, Seen]):
    """Power of K UEs for a whole federated training, judged by its convergence bound.

    Description
        A frozen reference run says what artificial noise its budgets ask for in each round, how much each UE counts,
        and over which channel. An action is a power vector; the answer is the bound L and T_th, the round from which
        the channel's own noise is enough. With several channels each episode draws one of them.

    Action space
        Box(-1, 1, (K,)): log-power between the least and the most of a UE, then projected onto the limits of the
        total (exact, Euclidean in watts). Numbers beyond the box are refused.

    Observation space
        Box(-1, 1, (n,)), see `Problem.seen`.

    Rewards
        -5 ln(L / L at average power).

    Starting state
        Average power in the first episode, afterwards random power within the limits; `options={"power": "average"}`
        asks for the former, `options={"draw": i}` for a channel. Other options and values are refused.

    Episode end
        Truncated after 20 steps; nothing ever terminates it. A step before a reset or after the end is refused.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        if not problems:
            raise ValueError("PowerAllocation: no problem is given")
        self.problems, self.problem = problems, problems[0]
        k = self.problem.n_ue
        self.action_space = spaces.Box(-1.0, 1.0, (k,), np.float32)
        self.observation_space = spaces.Box(-1.0, 1.0, (self.problem.n_seen,), np.float32)
        self.last: Outcome = self.problem.start
        self.steps = self.episodes = self.draw = 0
        self.over = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        given = checked_options(options, {"draw": len(self.problems), "power": "average"})
        super().reset(seed=seed)
        if seed is not None:
            self.episodes = 0
        drawn, action = int(self.np_random.integers(len(self.problems))), self.np_random.uniform(-1, 1, self._k)
        self.draw = int(given.get("draw", drawn))
        self.problem = self.problems[self.draw]
        at_average = self.episodes == 0 or "power" in given
        self.last = self.problem.start if at_average else self.problem.act(action)
        self.steps, self.episodes, self.over = 0, self.episodes + 1, False
        return self.problem.seen(self.last), self._info()

    def step(self, action: Seen) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        if self.over:
            raise ResetNeeded("step: no episode is going on; reset the environment first")
        self.last = self.problem.act(action)
        self.steps += 1
        self.over = self.steps >= STEPS
        return self.problem.seen(self.last), self.problem.reward(self.last), False, self.over, self._info()

    def memory(self) -> dict[str, Any]:
        """The state that continues this environment elsewhere, after a reset and before the first step."""
        if self.steps:
            raise ValueError("an episode is kept at its beginning only")
        return {
            "generator": self.np_random.bit_generator.state, "episodes": self.episodes, "draw": self.draw,
            "power_w": [float(x) for x in self.last.power_w],
        }  # fmt: skip

    def resume(self, memory: dict[str, Any]) -> Seen:
        """Continue from a memory; returns the observation that its reset returned."""
        self.np_random.bit_generator.state = memory["generator"]
        self.episodes, self.draw, self.steps = int(memory["episodes"]), int(memory["draw"]), 0
        self.over = False
        self.problem = self.problems[self.draw]
        self.last = self.problem.tried(np.array(memory["power_w"], dtype=np.float64))
        return self.problem.seen(self.last)

    @property
    def residual(self) -> bool:
        """Whether actions are added to a rule."""
        return self.problem.acts == "residual"

    @property
    def _k(self) -> int:
        return self.problem.n_ue

    def _info(self) -> dict[str, Any]:
        return {
            "objective": self.last.value, "t_th": self.last.switch, "power_w": self.last.power_w.copy(),
            "draw": self.draw,
        }  # fmt: skip
