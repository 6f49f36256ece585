"""`netsim/OnlinePower-v0`: the live world, one federated round a step."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from fl.power.search import Limits
from fl.round.power_context import power_context
from fl.round.round import next_round, play
from fl.round.setup import Setup
from fl.round.state import RoundOutcome, RoundState
from fl.round.transmit import Transmitter
from netsim.columns import no_ints
from netsim.radio.power import Power, PowerContext
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray
from netsim.world import World
from rl.cost import Costs, costs
from rl.observation import seen_online, seen_online_size
from rl.powers import Decision, kept, start_w
from rl.problem import Seen, checked_action, checked_options, log_power
from rl.settings import Online

WORLDS = 2**63  # seeds that a world may have; those of episodes are drawn from the first 2**40


def drawn_world(generator: np.random.Generator) -> int:
    """The seed of an episode's world."""
    return int(generator.integers(2**40))


@dataclass(frozen=True)
class Stage:
    """A world at time 0 and the rounds that will be played in it."""

    world: World
    setup: Setup
    state: RoundState


class Held(Power):
    """Sends with the powers that an agent put into the state, projected onto the limits for those that send, `ue`."""

    kind: Literal["held"] = "held"
    limits: Limits
    ue: tuple[int, ...] = ()

    def start(self, n_ue: int) -> Decision:
        return Decision()

    def of(self, ue: IntArray) -> Power:
        return self.model_copy(update={"ue": tuple(ue.tolist())})

    def power_w(
        self, gain: FloatArray, serving: IntArray, max_power_w: float, state: Decision, rng: Rng
    ) -> tuple[FloatArray, Decision]:
        if state.wanted_w is None:
            raise ValueError("held: no powers are set; step the environment")
        sends = np.array(self.ue, dtype=np.int64)
        power_w = kept(state.wanted_w, sends, self.limits)
        return np.minimum(power_w[sends], max_power_w), replace(state, power_w=power_w, sends=sends)


class OnlinePower(gymnasium.Env[Seen, Seen]):
    """Power of K UEs in every round of a federated training that goes on while they move.

    Description
        One step is one round: the world moves to the deadline, the agent sees the links, chooses powers, and the round
        is played with all that the scenario has: learner, defenses, uplink, attacks, ledger. SimPy is the only clock.

    Action space
        Box(-1, 1, (K,)): log-power between the least and the most of a UE; those that send are projected onto the
        limits of the total. The action of a UE that is away is ignored, but has to be in the box as well.

    Observation space
        Box(-1, 1, (5 K + 2,)), see `rl.observation.seen_online`.

    Rewards
        Minus the cost of the round, see `rl.reward`. Bounds on means over rounds have a price while `multipliers`
        (m,), in their order, are set.

    Starting state
        A world of a seed that the environment draws; `options={"world": seed}` asks for one. `info` has the keys that a
        step returns: no round has been played, so figures are 0.

    Copies
        By `copy` and `pickle` before the first reset; afterwards TypeError, since processes run in its world.

    Episode end
        Truncated when the world or the planned rounds end; terminated when a privacy budget
        (`learning.privacy_budget`) ends learning. A step before a reset or after the end is refused.
    """

    def __init__(self, stage: Callable[[int], Stage], n_ue: int, task: Online) -> None:
        self.stage, self.n_ue, self.task = stage, n_ue, task
        task.limits.check(n_ue)
        self.action_space = spaces.Box(-1.0, 1.0, (n_ue,), np.float32)
        self.observation_space = spaces.Box(-1.0, 1.0, (seen_online_size(n_ue),), np.float32)
        self.world_seed = self.steps = self.t_th = 0
        self.over = True
        self.multipliers: FloatArray | None = None

    world: World
    state: RoundState
    setup: Setup
    transmitter: Transmitter
    rounds: int
    now: PowerContext
    cost: Costs
    outcome: RoundOutcome | None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        given = checked_options(options, {"world": WORLDS})
        super().reset(seed=seed)
        drawn = drawn_world(self.np_random)
        return self._begin(int(given.get("world", drawn))), self._info(self.cost)

    def step(self, action: Seen) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        if self.over:
            raise ResetNeeded("step: no episode is going on; reset the environment first")
        wanted_w = log_power(checked_action(action, self.n_ue), self.task.limits)
        parts = replace(self.state.parts, power=replace(self.state.parts.power, wanted_w=wanted_w))
        playing = play(self.world, self.setup, self.transmitter, replace(self.state, parts=parts))
        self.state, outcome = self.world.env.run(until=self.world.env.process(playing))
        self.world.drain_handovers()  # they are not recorded
        cost = costs(self.task, self.setup, outcome, self.now, self.rounds, self.multipliers)
        self.outcome, self.cost, self.steps = outcome, cost, self.steps + 1
        if cost.artificial:
            self.t_th = self.state.played
        stopped = self.state.stopped
        over = not stopped and (self._next() is None or self.state.played >= self.rounds)
        self.over = stopped or over
        if not self.over:
            self._advance()
        self.now = self._context()
        return self._seen(), -cost.total, stopped, over, self._info(cost)

    def memory(self) -> dict[str, Any]:
        """The state that continues this environment elsewhere, after a reset and before the first step."""
        if self.steps:
            raise ValueError("an episode is kept at its beginning only")
        return {"generator": self.np_random.bit_generator.state, "world": self.world_seed}

    def resume(self, memory: dict[str, Any]) -> Seen:
        """Continue from a memory; returns the observation that its reset returned."""
        self.np_random.bit_generator.state = memory["generator"]
        return self._begin(int(memory["world"]))

    def __getstate__(self) -> dict[str, Any]:
        if "world" in self.__dict__:
            raise TypeError(
                "OnlinePower: the processes that run in its world cannot be copied or pickled; copy before the first "
                "reset, or make another one: gymnasium.make(env.spec), then reset(options={'world': seed})"
            )
        return self.__dict__

    def _begin(self, world_seed: int) -> Seen:
        """A world of a seed, at its first deadline."""
        stage = self.stage(world_seed)
        self.world_seed, self.steps, self.t_th, self.over = world_seed, 0, 0, False
        self.world, self.state = stage.world, stage.state
        held = Held(limits=self.task.limits)
        self.setup = replace(stage.setup, power=held, self_tests=False)
        self.transmitter = Transmitter(self.world, self.setup, stage.state.air)
        self.state = replace(self.state, parts=replace(self.state.parts, power=held.start(self.n_ue)))
        planned = self.world.clock.rounds(self.world.duration_s, self.setup.learning.round_s)
        self.rounds = min(planned, self.setup.learning.rounds or planned)
        self._advance()
        self.now, self.outcome = self._context(), None
        self.cost = costs(self.task, self.setup, None, self.now, self.rounds)
        return self._seen()

    def _next(self) -> int | None:
        """Number of the next round; None where the world ends before."""
        return next_round(self.world, self.setup.learning, self.state)

    def _advance(self) -> None:
        """To the request of the next round."""
        number = self._next()
        if number is None:
            return
        self.state = replace(self.state, round=number - 1)
        begins_s = min(self.world.clock.end_s(number, self.setup.learning.round_s), self.world.duration_s)
        if begins_s > self.world.env.now:
            self.world.env.run(until=begins_s)

    def _context(self) -> PowerContext:
        numbers = int(self.state.model.parameters.shape[1])
        return power_context(self.world, self.setup, self.state.parts, numbers, self.state.round + 1, no_ints())

    def _power_w(self) -> FloatArray:
        """The last powers (K,)."""
        power_w: FloatArray | None = self.state.parts.power.power_w
        return start_w(self.task.limits, self.n_ue) if power_w is None else power_w

    def _seen(self) -> Seen:
        return seen_online(self.now, self._power_w(), self.task.limits)

    def _info(self, cost: Costs) -> dict[str, Any]:
        return {"t_th": self.t_th, "power_w": self._power_w().copy(), "world": self.world_seed, **cost.figures}
