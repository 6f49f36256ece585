"""Settings of reinforcement learning: the section `train:` of a scenario."""

from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from fl.power.bound import Convergence, Criterion
from fl.power.search import Limits
from netsim.part import Count, OneOf, Part, Share
from netsim.units import Ints
from rl.reward import REWARDS, Reward, Weighted

Weights = dict[str, npt.NDArray[np.float32]]
Tree = dict[str, Any]
"""plain values and arrays, of a checkpoint"""
AGENT = "ddpg"
"""Name of the agent DDPG in comparisons."""
CARD = "policy.json"
WEIGHTS = "policy.safetensors"
"""Files of a policy."""
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Agent(Part):
    """Learning method of an agent."""

    kind: str = ""


class DdpgAgent(Agent, kind="ddpg"):
    """Deep deterministic policy gradient (DDPG): an actor and a critic, each with a target network.

    For the task `allocation` an action is a power vector, and a step is one of them. For `online`
    one actor serves every UE: in some passes all move their powers from those of the best tuned
    rule, and each is paid for what its own move saves (see `rl.ue`); a step is one move of every UE
    in `situations` recorded rounds, whose cost must depend on the radio alone. Learning starts
    after `learning_starts` random steps. With discount 0 only the immediate reward counts.
    """

    learning_rate: Share = 0.001
    """learning rate of Adam, for the critic"""
    actor_rate: float = Field(0.2, gt=0, le=10)
    """learning rate of the actor over that of the critic; with equal rates the actor follows a
    critic that is not there yet, and may end where tanh is flat"""
    final_rate: Share = 0.01
    """both rates at the end of training over those at the beginning; they fall linearly"""
    batch_size: int = Field(512, ge=1, le=65_536)
    """number of transitions in a gradient step"""
    buffer_size: int = Field(200_000, ge=1, le=10_000_000)
    """size of the replay buffer in transitions"""
    learning_starts: Count = 20
    """random steps before learning starts"""
    gradient_steps: int = Field(2, ge=1, le=1000)
    """gradient steps after each step in the environment"""
    tau: Share = 0.01
    """soft update coefficient of the target networks"""
    discount: float = Field(0.0, ge=0, lt=1)
    """discount factor (gamma)"""
    exploration_noise_std: float = Field(0.2, ge=0, le=2)
    """standard deviation of the Gaussian noise on actions during training; a unit is half of the
    range of powers in decibels for `allocation`, and 10 dB for `online`"""
    exploration_noise_final_std: float | None = Field(0.05, ge=0, le=2)
    """its value at the end of training, reached linearly; none: constant"""
    hidden: Ints = Field((128, 128), min_length=1, max_length=8)
    """units of the hidden layers of actor and critic"""
    live: bool = False
    """whether the worlds that are trained on are played while it learns, each with the policy as it
    is then, instead of all before with a rule; of `online`"""
    situations: int = Field(16, ge=1, le=65_536)
    """number of rounds in a step, of `online`"""
    passes: int = Field(3, ge=1, le=100)
    """number of moves of all UEs in a round, of `online`"""
    probes: bool = False
    """whether a UE sees what moves of its own by -6, -2, 2 and 6 dB would cost in the expected
    round, of `online`: 4 K + 1 power vectors a pass"""

    reference = "Lillicrap et al., Continuous control with deep reinforcement learning, 2015"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if any(not 1 <= n <= 4096 for n in self.hidden):
            raise ValueError("hidden: a layer has 1 to 4096 units")
        return self


AGENTS = OneOf("power-agent", DdpgAgent, default=AGENT)
"""The agent slot: the learning method."""

VISITED = f"{AGENT}, best visited"
OPTIMUM = "optimum"
ORACLE = "oracle"
"""Names in comparisons of the best vector that a training tried, the best of the optimisers, and
the best powers of each round that a search finds with everything known."""
RANDOM = "random search"
BEST_RESPONSES = {
    "best response, 9 a UE": tuple((0.0, -step_db, step_db) for step_db in (8.0, 4.0, 2.0)),
    "best response, 20 a UE": tuple(
        (0.0, -2 * step_db, -step_db, step_db, 2 * step_db) for step_db in (6.0, 3.0, 2.0, 1.0)
    ),
}
"""Comparisons besides the rules: the best of random parameters, and a search in every round with
prior knowledge by the steps in dB of each of its sweeps, whose numbers add up to the power vectors
a UE that stand in its name."""


class Task(Part):
    """The action space of an agent and its objective."""

    kind: str = ""
    limits: Limits = Limits()
    """limits of the transmit powers"""
    bound: Convergence = Convergence()
    """constants of the convergence bound"""


class Allocation(Task, kind="allocation"):
    """One power vector for a whole training, evaluated by the bound on a recorded reference run."""

    observe: Literal["paper", "channel"] = "paper"
    """observation: the last powers, T_th and objective; channel: additionally gains and required
    noise"""
    criterion: Criterion = "aggregate"
    """when channel noise is sufficient: for the sum over UEs, for each UE, or with artificial noise
    added (top-up)"""
    draws: int = Field(1, ge=1, le=100_000)
    """number of channel realisations for training; 1: that of the scenario"""
    eval_worlds: int = Field(16, ge=1, le=10_000)
    """number of channel realisations for the evaluations during training, which select the best
    policy"""
    held_out: int = Field(16, ge=1, le=10_000)
    """number of held-out channel realisations for the final comparison; with `draws: 1` one is used
    for all"""

    reference = (
        "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 28-36"
    )


class Online(Task, kind="online"):
    """A power vector for every round of a simulated world, with a reward in each round."""

    reward: Annotated[Reward, REWARDS] = Weighted()
    """cost of a round; without a kind: weighted"""
    eval_worlds: int = Field(2, ge=1, le=1000)
    """number of worlds for the evaluations during training, which select the best policy"""
    held_out: int = Field(10, ge=1, le=1000)
    """number of held-out worlds for the final comparison"""
    train_worlds: int = Field(48, ge=1, le=10_000)
    """number of worlds whose rounds are recorded to train on"""
    tune_worlds: int = Field(4, ge=1, le=1000)
    """number of other worlds, on whose recorded rounds the rules of the comparison are tuned"""
    tune_evaluations: int = Field(86_400, ge=1, le=1_000_000_000)
    """number of power vectors that are judged to tune each rule: as many whole generations of 48
    vectors for each recorded round as fit, at least one"""

    reference = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Sec. IV"


TASKS = OneOf("power-task", Allocation, Online)


class Train(Part):
    """Task and training of `netsim train`."""

    task: Annotated[Task, TASKS] = Allocation()
    """action space and objective"""
    agent: Annotated[Agent, AGENTS] = DdpgAgent()
    """the agent; without a kind: ddpg"""
    steps: int = Field(3000, ge=1, le=100_000_000)
    """number of environment steps of the training"""
    eval_every: int = Field(250, ge=1, le=100_000_000)
    """number of steps between evaluations of the policy; the best policy is kept"""
