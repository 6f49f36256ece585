"""What an agent decides and how it is trained: the `train:` of a scenario."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fl.power.bound import Convergence, Criterion
from fl.power.search import Limits
from netsim.part import OneOf, Part

AGENT, VISITED, OPTIMUM = "ddpg", "ddpg, best visited", "optimum"
"""What comparisons call the agent, the best vector that its training tried, and the best of the optimisers."""


class Agent(Part):
    """Deep deterministic policy gradient: an actor and a critic, each with a slow copy.

    Learning starts after `learning_starts` random steps. With discount 0 only the reward of the action itself counts.
    """

    learning_rate: float = Field(default=1e-3, gt=0, le=1)
    """of Adam, for actor and critic"""
    batch_size: int = Field(default=128, ge=1, le=65_536)
    """transitions of a gradient step"""
    buffer_size: int = Field(default=20_000, ge=1, le=10_000_000)
    """transitions that are remembered"""
    learning_starts: int = Field(default=300, ge=1, le=1_000_000)
    """steps before learning starts"""
    gradient_steps: int = Field(default=1, ge=1, le=1000)
    """gradient steps after each step in the environment"""
    tau: float = Field(default=0.01, gt=0, le=1)
    """how fast the slow copies follow"""
    discount: float = Field(default=0.0, ge=0, lt=1)
    """gamma"""
    exploration_noise_std: float = Field(default=0.2, ge=0, le=2)
    """of the Gaussian noise on actions while training"""
    exploration_noise_final_std: float | None = Field(default=None, ge=0, le=2)
    """what it falls to, in a straight line over the training; none: it stays"""
    hidden: tuple[int, ...] = Field(default=(128, 128), min_length=1, max_length=8)
    """units of the hidden layers of actor and critic"""

    renamed: ClassVar[dict[str, str]] = {
        "step_size": "learning_rate",
        "random_steps": "learning_starts",
        "noise_std": "exploration_noise_std",
        "noise_last_std": "exploration_noise_final_std",
    }
    reference: ClassVar[str] = "Lillicrap et al., Continuous control with deep reinforcement learning, 2015"
    example: ClassVar[dict[str, Any]] = {}

    @model_validator(mode="after")
    def _sized(self) -> Self:
        if any(not 1 <= n <= 4096 for n in self.hidden):
            raise ValueError("hidden: a layer has 1 to 4096 units")
        if self.batch_size > self.buffer_size:
            raise ValueError(f"batch_size {self.batch_size} is above buffer_size {self.buffer_size}; exchange them")
        return self


class Reward(Part):
    """What a round costs an agent that acts online: a weighted sum, whose negative is its reward.

    noise compares the round's increment of the bound with what the required noise alone would add, as a logarithm, so
    that one UE behind a building does not drown all others:

        A^(T-1-t) ln( sum_k G_k^2 (sigma_k^2 + sigma_ch,k^2) / sum_k G_k^2 sigma_required,k^2 )

    It is 0 where artificial and channel noise together are exactly what budgets ask for.
    """

    noise: float = Field(default=1.0, ge=0, le=1e6)
    """weight of the bound's increment"""
    loss: float = Field(default=0.0, ge=0, le=1e6)
    """weight of the model's held-out loss after the round: cross-entropy in nats, or the map's error in dB"""
    leakage: float = Field(default=0.0, ge=0, le=1e6)
    """weight of the share of estimates that come within `leakage_within_m` of the truth, mean over attacks"""
    leakage_within_m: float = Field(default=50.0, gt=0, le=1e6)
    """how near an attacker must come"""
    energy_per_j: float = Field(default=0.0, ge=0, le=1e9)
    """weight of a joule of all UEs together"""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.noise == self.loss == self.leakage == self.energy_per_j == 0:
            raise ValueError("reward: all weights are 0; nothing could be learnt")
        return self


class Task(Part):
    """What an agent decides, and by what it is judged."""

    kind: str
    limits: Limits = Limits()
    """what powers may be"""
    bound: Convergence = Convergence()
    """the constants of the convergence bound"""


class Allocation(Task):
    """One power vector for a whole training, judged by the bound on a frozen reference run."""

    kind: Literal["allocation"] = "allocation"
    observe: Literal["paper", "channel"] = "paper"
    """what is seen: the last powers, T_th and objective, or besides these the gains and the requirements"""
    criterion: Criterion = "aggregate"
    """when the channel's noise is enough: for the sum over UEs, for each device, or artificial noise tops it up"""
    draws: int = Field(default=1, ge=1, le=100_000)
    """channels to train on; 1: the scenario's own"""
    eval_worlds: int = Field(default=16, ge=1, le=10_000)
    """channels by which the best policy is chosen while training; it is not trained on them"""
    held_out: int = Field(default=16, ge=1, le=10_000)
    """channels on which it is compared at the end; neither trained nor chosen on them. With one draw all is that one"""

    renamed: ClassVar[dict[str, str]] = {"judged_on": "eval_worlds", "criterion: device": "per-device"}
    reference: ClassVar[str] = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 28-36"
    example: ClassVar[dict[str, Any]] = {"kind": "allocation"}


class Online(Task):
    """A power vector for every round of a live world, judged round by round."""

    kind: Literal["online"] = "online"
    reward: Reward = Reward()
    """what a round costs"""
    eval_worlds: int = Field(default=2, ge=1, le=1000)
    """worlds by which the best policy is chosen while training; it is not trained on them"""
    held_out: int = Field(default=10, ge=1, le=1000)
    """worlds on which it is compared at the end; neither trained nor chosen on them"""

    renamed: ClassVar[dict[str, str]] = {"judged_on": "eval_worlds"}
    reference: ClassVar[str] = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Sec. IV"
    example: ClassVar[dict[str, Any]] = {"kind": "online"}


TASKS = OneOf("power-task", Allocation, Online)


class Train(Part):
    """What `netsim train` learns, and how."""

    task: Annotated[Task, TASKS] = Allocation()
    """what is decided"""
    agent: Agent = Agent()
    """who learns it"""
    steps: int = Field(default=3000, ge=1, le=100_000_000)
    """steps of the training"""
    eval_every: int = Field(default=250, ge=1, le=100_000_000)
    """steps between judgements of the policy, of which the best is kept"""

    renamed: ClassVar[dict[str, str]] = {"judge_every": "eval_every"}
