"""Settings of power agents: the slot `train.agent` of a scenario."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from netsim.part import OneOf, Part

AGENT = "ddpg"
"""What comparisons call the agent DDPG."""


class Agent(Part):
    """What learns, and how."""

    kind: str

    @property
    def on_recorded(self) -> bool:
        """Whether it learns on recorded rounds, a policy that all UEs share."""
        return False

    @property
    def keeps_bounds(self) -> bool:
        """Whether its training keeps bounds on means over rounds."""
        return False


class RecordedAgent(Agent):
    """One that learns on recorded rounds a policy that all UEs share, as a residual on the best tuned rule."""

    worlds: int = Field(default=48, ge=1, le=10_000)
    """number of worlds whose rounds are recorded for training (shared network)"""

    @property
    def on_recorded(self) -> bool:
        return True


class CriticAgent(RecordedAgent):
    """One with an actor, a critic, and a replay buffer."""

    situations: int = Field(default=64, ge=1, le=65_536)
    """number of recorded rounds in which one power vector each is judged in a step (shared network)"""
    learning_rate: float = Field(default=1e-3, gt=0, le=1)
    """learning rate of Adam, for actor and critic"""
    batch_size: int = Field(default=128, ge=1, le=65_536)
    """number of transitions in a gradient step"""
    buffer_size: int = Field(default=20_000, ge=1, le=10_000_000)
    """size of the replay buffer in transitions"""
    learning_starts: int = Field(default=300, ge=1, le=1_000_000)
    """steps before learning starts; with a shared network the critic learns alone until then"""
    gradient_steps: int = Field(default=1, ge=1, le=1000)
    """gradient steps after each step in the environment"""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.batch_size > self.buffer_size:
            raise ValueError(f"batch_size {self.batch_size} is above buffer_size {self.buffer_size}; exchange them")
        if self.on_recorded and self.situations > self.buffer_size:
            raise ValueError(f"situations {self.situations} is above buffer_size {self.buffer_size}; exchange them")
        return self


class DdpgAgent(CriticAgent):
    """Deep deterministic policy gradient (DDPG): an actor and a critic, each with a target network.

    Learning starts after `learning_starts` steps: random ones with `network: flat`, near the rule with `shared`.
    With discount 0 only the immediate reward counts.
    """

    kind: Literal["ddpg"] = "ddpg"
    network: Literal["flat", "shared"] = "flat"
    """flat: layers over the observation of all UEs, in the environment itself; shared: one network for every UE, and a
    critic of the same kind, on recorded rounds (task `online`), as a residual on the best tuned rule"""
    tau: float = Field(default=0.01, gt=0, le=1)
    """soft update coefficient of the target networks (flat)"""
    discount: float = Field(default=0.0, ge=0, lt=1)
    """discount factor (gamma) (flat; recorded rounds are judged one by one)"""
    exploration_noise_std: float = Field(default=0.2, ge=0, le=2)
    """standard deviation of the Gaussian noise on actions during training; a unit is half of the range of powers in
    decibels, with a shared network 10 dB"""
    exploration_noise_final_std: float | None = Field(default=None, ge=0, le=2)
    """its value at the end of training, reached linearly; none: constant"""
    hidden: tuple[int, ...] = Field(default=(128, 128), min_length=1, max_length=8)
    """units of the hidden layers of actor and critic (flat)"""

    reference: ClassVar = "Lillicrap et al., Continuous control with deep reinforcement learning, 2015"
    example: ClassVar = {"kind": "ddpg"}

    @property
    def on_recorded(self) -> bool:
        return self.network == "shared"

    @property
    def keeps_bounds(self) -> bool:
        return self.network == "flat"

    @model_validator(mode="after")
    def _sized(self) -> Self:
        if any(not 1 <= n <= 4096 for n in self.hidden):
            raise ValueError("hidden: a layer has 1 to 4096 units")
        other = ("tau", "discount", "hidden") if self.on_recorded else ("worlds", "situations")
        for name in other:
            if getattr(self, name) != type(self).model_fields[name].default:
                means = "flat" if self.on_recorded else "shared"
                raise ValueError(f"{name} belongs to network: {means}, not to {self.network}; leave it out")
        return self


class Td3Agent(CriticAgent):
    """Twin delayed DDPG (TD3) with the shared network: two critics, and an actor that follows more slowly.

    Recorded rounds are episodes of one step, so targets have no next action to be smoothed.
    """

    kind: Literal["td3"] = "td3"
    network: Literal["shared"] = "shared"
    """one network for every UE, on recorded rounds"""
    policy_delay: int = Field(default=2, ge=1, le=1000)
    """gradient steps of the critics for one of the actor"""
    exploration_noise_std: float = Field(default=0.2, ge=0, le=2)
    """standard deviation of the Gaussian noise on actions during training, in units of 10 dB"""
    exploration_noise_final_std: float | None = Field(default=None, ge=0, le=2)
    """its value at the end of training, reached linearly; none: constant"""

    reference: ClassVar = "Fujimoto et al., Addressing Function Approximation Error in Actor-Critic Methods, 2018"
    example: ClassVar = {"kind": "td3"}


class SacAgent(CriticAgent):
    """Soft actor-critic (SAC) with the shared network: a Gaussian policy, paid for its entropy as well.

    What is kept is its mean. The weight of the entropy is learnt, so that the spread of actions comes near
    `target_std` on average.
    """

    kind: Literal["sac"] = "sac"
    network: Literal["shared"] = "shared"
    """one network for every UE, on recorded rounds"""
    exploration_noise_std: float = Field(default=0.2, gt=0, le=2)
    """standard deviation of actions at the beginning, in units of 10 dB"""
    target_std: float = Field(default=0.1, gt=0, le=2)
    """standard deviation of actions whose entropy is aimed at, in units of 10 dB"""

    reference: ClassVar = "Haarnoja et al., Soft Actor-Critic Algorithms and Applications, 2018"
    example: ClassVar = {"kind": "sac"}


class ScoreFunctionAgent(RecordedAgent):
    """The score-function gradient on recorded rounds: a policy of all UEs, as a residual on the best tuned rule.

    The training records rounds of worlds once, and judges powers there without any local training: millions of
    evaluations a minute. `train.steps` are gradient steps. It is evaluated live. For the task `online` over an uplink
    `noma` with noisy decoding, where the cost of a round hangs on its radio alone (weights `loss` and `leakage` 0).
    """

    kind: Literal["score-function"] = "score-function"
    situations: int = Field(default=24, ge=1, le=65_536)
    """number of rounds in a gradient step"""
    actions: int = Field(default=12, ge=2, le=4096, multiple_of=2)
    """number of power vectors that are judged in each of them, half of them mirrored"""
    exploration_noise_std: float = Field(default=0.2, gt=0, le=10)
    """standard deviation of actions at the beginning, in units of 10 dB"""
    exploration_noise_final_std: float = Field(default=0.05, gt=0, le=10)
    """the same at the end, reached linearly"""
    learning_rate: float = Field(default=3e-3, gt=0, le=1)
    """learning rate of Adam at the beginning; it falls linearly to a hundredth"""

    reference: ClassVar = "Williams, Simple Statistical Gradient-Following Algorithms, 1992"
    example: ClassVar = {"kind": "score-function"}

    @property
    def keeps_bounds(self) -> bool:
        return True


AGENTS = OneOf("power-agent", DdpgAgent, Td3Agent, SacAgent, ScoreFunctionAgent, default=AGENT)
