"""Environments of Gymnasium: one power vector for a whole training, or one for every round of a
world.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from fl.power.search import Limits, PowerPlan
from fl.round.send import build_power_context
from fl.round.server import LearningServer
from fl.round.setup import Setup
from fl.round.state import RoundOutcome, RoundState
from netsim.columns import frozen, no_ints
from netsim.radio.power import PowerContext
from netsim.units import FloatArray
from netsim.world.world import World
from rl.policy import count_online_values, observe_online
from rl.powers import Decided, Decision, compute_start_w, limit_sent_w
from rl.problem import STEPS, Problem, Seen, convert_to_power_w
from rl.radio_records import Costs, compute_round_costs
from rl.reward import FIGURES
from rl.settings import Online

WORLDS = 2**63  # seeds that a world may have; those of episodes are drawn from the first 2**40
_END = 1.0 + float(np.finfo(np.float32).eps)  # of the range of actions, rounding included
Info = dict[str, Any]
"""plain values by name: what an episode begins with, what a step found"""
Played = tuple[float, bool, bool]
"""the reward of a step, whether a budget discarded its round, and whether the episode is over"""


class PowerEnv(gymnasium.Env[Seen, Seen]):
    """Base of the environments: the order of resets and steps, and what they accept.

    rounds : of an episode of rounds; unplayed : those of them that a privacy budget leaves, once it
    ended the episode.
    """

    def __init__(
        self, n_ue: int, n_seen: int, options: Mapping[str, int | str], most_seen: float = 1.0
    ) -> None:
        """options : name -> the integers from 0 that are below a number, or the only text;
        most_seen : size of an observed number.
        """
        self.n_ue = n_ue
        self.options = options
        self.action_space = spaces.Box(-1.0, 1.0, (n_ue,), np.float32)
        self.observation_space = spaces.Box(-most_seen, most_seen, (n_seen,), np.float32)
        self.steps = self.episodes = 0
        self.over = True

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Seen, Info]:
        if not isinstance(options, Mapping | None):
            raise ValueError(
                f"reset: options {options!r:.40}; give a dict of "
                f"{' and '.join(self.options)}, or None"
            )
        for name, value in (options or {}).items():
            self._check_option(name, value)
        super().reset(seed=seed)
        if seed is not None:
            self.episodes = 0
        self._restart(self._start(options or {}), self.episodes + 1)
        return self._observe(), self._build_info()

    def step(self, action: Seen) -> tuple[Seen, float, bool, bool, Info]:
        if self.over:
            raise ResetNeeded("step: no episode is going on; reset the environment first")
        reward, stopped, ended = self._play(self._check_action(action))
        if stopped:  # a budget discarded the round
            self.unplayed = max(self.rounds - self.steps, 1)
            reward = self.paid / (self.steps or 1) * self.unplayed
        self.steps += 1
        self.paid += reward
        self.over = stopped or ended
        return self._observe(), reward, stopped, ended, self._build_info()

    def memory(self) -> Info:
        """The state that continues this environment elsewhere, after a reset and before the first
        step.
        """
        if self.steps:
            raise ValueError("an episode is kept at its beginning only")
        return {
            "generator": self.np_random.bit_generator.state,
            "episodes": self.episodes,
            "start": self.start,
        }

    def resume(self, memory: Info) -> Seen:
        """Continue from a memory; returns the observation that its reset returned."""
        self.np_random.bit_generator.state = memory["generator"]
        self._restart(memory["start"], int(memory["episodes"]))
        return self._observe()

    def _restart(self, start: Info, episodes: int) -> None:
        self.start = start
        self._begin(start)
        self.episodes = episodes
        self.over = False
        self.paid = self.steps = self.unplayed = 0

    start: Info
    rounds: int
    paid: float

    @abstractmethod
    def _start(self, options: Info) -> Info:
        """The beginning of the next episode, drawn or asked for."""

    @abstractmethod
    def _begin(self, start: Info) -> None: ...

    @abstractmethod
    def _play(self, action: FloatArray) -> Played:
        """Reward, and whether the episode terminated or was truncated."""

    @abstractmethod
    def _observe(self) -> Seen: ...

    @abstractmethod
    def _build_info(self) -> Info: ...

    def _check_option(self, name: str, value: object) -> None:
        if name not in self.options:
            raise ValueError(
                f"reset: no option {name!r:.40}; there is {' and '.join(self.options)}"
            )
        count = self.options[name]
        if isinstance(count, str):
            if value != count:
                raise ValueError(f"reset: {name} {value!r:.40}; give {count!r}")
        elif (
            not isinstance(value, int | np.integer)
            or isinstance(value, bool)
            or not 0 <= int(value) < count
        ):
            expected = f"an integer from 0 to {count - 1}" if count > 1 else "0, the only one"
            raise ValueError(f"reset: {name} {value!r:.40}; give {expected}")

    def _check_action(self, action: object) -> FloatArray:
        """The action as numbers (K,), up to what rounding to float32 may add; ValueError for
        others.
        """
        numbers = np.asarray(action)  # which refuses lists of several lengths
        if numbers.dtype.kind in "fiu" and numbers.shape == (self.n_ue,):
            # the least integer has no absolute value of its own type
            values = numbers.astype(float)
            outside = np.flatnonzero(~(np.abs(values) <= _END))
            if not len(outside):
                return values
            got = f"{numbers[outside[0]]:g} at {outside[0]} is outside"
        else:
            got = f"{numbers.dtype} of shape {numbers.shape}, {numbers!s:.60}"
        raise ValueError(
            f"action: {got}; give {self.n_ue} finite numbers from -1 to 1, one for each UE"
        )


class PowerAllocation(PowerEnv):
    """Power of K UEs for a whole federated training, judged by its convergence bound.

    Description
        A reference run says what artificial noise its budgets ask for in each round, how much each
        UE counts, and over which channel. An action is a power vector; the answer is the bound L
        and T_th, the round from which the channel's own noise is enough. With several channels each
        episode draws one of them.

    Action space
        Box(-1, 1, (K,)): x = each_min_w (each_max_w / each_min_w)^((a + 1) / 2) in W, a the action
        of a UE, projected onto the limits of the total (Euclidean in watts). Numbers beyond the box
        are refused.

    Observation space
        Box(-1, 1, (n,)), n = K + 2 or 3 K + 7, see `Problem.observe`.

    Rewards
        -5 ln(L / L at average power).

    Starting state
        Average power in the first episode, afterwards random power within the limits;
        `options={"power": "average"}` asks for the former, `options={"draw": i}` for a channel.
        Other options and values are refused.

    Episode end
        Truncated after 20 steps. A step before a reset or after the end is refused.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        if not problems:
            raise ValueError("PowerAllocation: no problem is given")
        self.problems = problems
        self.problem = problems[0]
        super().__init__(
            self.problem.n_ue, self.problem.n_seen, {"draw": len(problems), "power": "average"}
        )

    last: PowerPlan

    def _start(self, options: Info) -> Info:
        drawn = self.np_random.integers(len(self.problems))
        action = self.np_random.uniform(-1, 1, self.n_ue)
        draw = int(options.get("draw", drawn))
        problem = self.problems[draw]
        first = problem.start if self.episodes == 0 or "power" in options else problem.act(action)
        return {"draw": draw, "power_w": first.power_w.tolist()}

    def _begin(self, start: Info) -> None:
        self.problem = self.problems[start["draw"]]
        self.last = self.problem.evaluate(np.array(start["power_w"]))

    def _play(self, action: FloatArray) -> Played:
        self.last = self.problem.act(action)
        return self.problem.reward(self.last), False, self.steps + 1 >= STEPS

    def _observe(self) -> Seen:
        return self.problem.observe_outcome(self.last)

    def _build_info(self) -> Info:
        last = self.last
        return {
            "objective": last.value,
            "t_th": last.switch,
            "power_w": last.power_w.copy(),
            "draw": self.start["draw"],
        }


@frozen
class Stage:
    """A world at time 0 and the rounds that will be played in it."""

    world: World
    setup: Setup
    state: RoundState


class HeldPower(Decided, kind="held"):
    """Sends with the powers that an agent put into the state, within the limits of those that
    send.
    """

    limits: Limits

    def update_context(self, context: PowerContext, state: Decision) -> Decision:
        if state.wanted_w is None:
            raise ValueError("held: no powers are set; step the environment")
        return replace(
            state,
            power_w=limit_sent_w(state.wanted_w, context.sends, self.limits),
            sends=context.sends,
        )


class OnlinePower(PowerEnv):
    """Power of K UEs in every round of a federated training that goes on while they move.

    Description
        One step is one round: the world moves to the deadline, the agent sees the links, chooses
        powers, and the round is played with all that the scenario has: learner, defenses, uplink,
        attacks, ledger.

    Action space
        Box(-1, 1, (K,)): x = each_min_w (each_max_w / each_min_w)^((a + 1) / 2) in W, a the action
        of a UE; powers of those that send are projected onto the limits of the total. The action of
        a UE that is away is ignored, but has to be in the box as well.

    Observation space
        Box(-1, 1, (5 K + 2,)), see `rl.policy.observe_online`.

    Rewards
        Minus the cost of the round, see `rl.reward`. The step of a round that a privacy budget
        discards costs as much as this round and all that were to follow, each the mean of the
        rounds before: an episode is not the cheaper for ending early. Figures of `info` stay those
        of the last round that was played. `loss` is that of the last model that was scored: 0
        until something is held out, which no power changes.

    Starting state
        A world of a seed that the environment draws; `options={"world": seed}` asks for one.
        Figures of `info` are 0.

    Copies
        By `copy.deepcopy` and `pickle` before the first reset; afterwards TypeError, since
        processes run in its world.

    Episode end
        Truncated when the world or the planned rounds end; terminated when a privacy budget
        (`learning.privacy_budget`) ends learning. A step before a reset or after the end is
        refused.
    """

    def __init__(self, stage: Callable[[int], Stage], n_ue: int, task: Online) -> None:
        super().__init__(n_ue, count_online_values(n_ue), {"world": WORLDS})
        task.limits.check(n_ue)
        self.stage = stage
        self.task = task

    last_w: FloatArray
    """the last powers (K,)"""
    figures: Mapping[str, float]
    """of the last round"""
    context: PowerContext
    """the context of the coming round"""
    t_th: int
    """rounds until the last artificial noise"""
    world: World
    setup: Setup
    server: LearningServer
    cost: Costs
    outcome: RoundOutcome | None

    @property
    def state(self) -> RoundState:
        """The state after the last round."""
        return self.server.state

    def _start(self, options: Info) -> Info:
        return {"world": int(options.get("world", self.np_random.integers(2**40)))}

    def _begin(self, start: Info) -> None:
        self.t_th = 0
        self.last_w = compute_start_w(self.task.limits, self.n_ue)
        stage = self.stage(int(start["world"]))
        held = HeldPower(limits=self.task.limits)
        self.world = stage.world
        self.setup = replace(stage.setup, power=held, self_tests=False)
        parts = stage.state.parts | {"power": held.start(self.n_ue)}
        self.server = LearningServer(self.world, self.setup, replace(stage.state, parts=parts))
        planned = self.world.clock.count_rounds(self.world.duration_s, self.setup.learning.round_s)
        self.rounds = min(planned, self.setup.learning.rounds or planned)
        self._advance()
        self.outcome = None
        self.figures = dict.fromkeys(FIGURES, 0.0)

    def _play(self, action: FloatArray) -> Played:
        wanted_w = convert_to_power_w(action, self.task.limits)
        state = self.state
        parts = state.parts | {"power": replace(state.parts["power"], wanted_w=wanted_w)}
        self.server.state = replace(state, parts=parts)
        play = self.world.env.process(self.server.play(state.round + 1))
        played = self.world.env.run(until=play)
        self.outcome = played and self.server.judge(played)
        self.world.drain_handovers()  # they are not recorded
        if not (self.state.stopped and self.steps):
            self.cost = compute_round_costs(
                self.task,
                self.setup,
                self.outcome,
                self.context,
                self.rounds,
                self.world.places,
                self.figures["loss"],
            )
            self.figures = self.cost.figures
        if self.cost.artificial:
            self.t_th = self.state.played
        power_w = self.state.parts["power"].power_w
        if power_w is not None:
            self.last_w = power_w
        ended = not self._advance() or self.state.played >= self.rounds
        return -self.cost.total, self.state.stopped, ended and not self.state.stopped

    def _observe(self) -> Seen:
        return observe_online(self.context, self.last_w, self.task.limits)

    def _build_info(self) -> Info:
        return {
            "t_th": self.t_th,
            "power_w": self.last_w.copy(),
            "world": self.start["world"],
            **self.figures,
        }

    def _advance(self) -> bool:
        """To the request of the next round; whether there is one."""
        number = self.server.find_next_window()
        over = self.state.stopped or self.state.played >= self.rounds
        if number is not None and not over:
            self.server.state = replace(self.state, round=number - 1)
            begins_s = self.server.find_end_s(number)
            if begins_s > self.world.env.now:
                self.world.env.run(until=begins_s)
        numbers = self.state.model.parameters.shape[1]
        self.context = build_power_context(
            self.world, self.setup, self.state.parts, numbers, self.state.round + 1, no_ints()
        )
        return number is not None and not over
