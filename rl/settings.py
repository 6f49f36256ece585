"""Settings of reinforcement learning: the section `train:` of a scenario."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fl.power.bound import Convergence, Criterion
from fl.power.search import Limits
from netsim.part import OneOf, Part
from rl.agents import AGENT, AGENTS, Agent, CriticAgent, DdpgAgent

VISITED, OPTIMUM, ORACLE = f"{AGENT}, best visited", "optimum", "oracle"
"""What comparisons call the best vector that a training tried, the best of the optimisers, and the best powers of each
round that a search finds with everything known."""


class Reward(Part):
    """Cost of a round for an online agent: a weighted sum, whose negative is the reward.

    noise is the logarithm of the ratio of the round's increment of the bound to the increment by the required noise
    alone, so that one UE with a poor channel does not dominate:

        A^(T-1-t) ln( sum_k G_k^2 (sigma_k^2 + sigma_ch,k^2) / sum_k G_k^2 sigma_required,k^2 )

    It is 0 if artificial and channel noise together equal the required noise. An update that is lost counts as one with
    the required noise and that of the worst link that would have come in time (see `rl.radio_records`).
    """

    noise: float = Field(default=1.0, ge=0, le=1e6)
    """weight of the bound's increment"""
    loss: float = Field(default=0.0, ge=0, le=1e6)
    """weight of the model's held-out loss after the round: cross-entropy in nats, or the map's error in dB"""
    leakage: float = Field(default=0.0, ge=0, le=1e6)
    """weight of the share of estimates that come within `leakage_within_m` of the truth, mean over attacks"""
    lost: float = Field(default=0.0, ge=0, le=1e6)
    """weight of the share of updates that do not arrive"""
    leak: float = Field(default=0.0, ge=0, le=1e6)
    """weight of what noise leaves of updates at the eavesdropper, or at the server without one: mean of z / (1 + z)
    over updates, 1 / z = artificial noise over the numbers sent + 1 / SINR there; the shape of a closed-form attack's
    success without its variance"""
    leakage_within_m: float = Field(default=50.0, gt=0, le=1e6)
    """distance within which an estimate counts, m"""
    energy_per_j: float = Field(default=0.0, ge=0, le=1e9)
    """weight of the energy of all UEs, per joule"""

    @property
    def beyond_radio(self) -> list[str]:
        """Weights that are not 0 of costs that recorded rounds do not tell."""
        return [name for name in ("loss", "leakage") if getattr(self, name)]

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.noise == self.loss == self.leakage == self.lost == self.leak == self.energy_per_j == 0:
            raise ValueError("reward: all weights are 0; nothing could be learnt")
        return self


class Task(Part):
    """The action space of an agent and its objective."""

    kind: str
    limits: Limits = Limits()
    """limits of the transmit powers"""
    bound: Convergence = Convergence()
    """constants of the convergence bound"""


class Allocation(Task):
    """One power vector for a whole training, evaluated by the bound on a recorded reference run."""

    kind: Literal["allocation"] = "allocation"
    observe: Literal["paper", "channel"] = "paper"
    """observation: the last powers, T_th and objective; channel: additionally gains and required noise"""
    criterion: Criterion = "aggregate"
    """when channel noise is sufficient: for the sum over UEs, for each UE, or with artificial noise added (top-up)"""
    acts: Literal["power", "residual"] = "power"
    """actions: powers, on a logarithmic scale; residual: what is added to the best rule s G / ||h||, 1.1 dB at most"""
    draws: int = Field(default=1, ge=1, le=100_000)
    """number of channel realisations for training; 1: that of the scenario"""
    eval_worlds: int = Field(default=16, ge=1, le=10_000)
    """number of channel realisations for the evaluations during training, which select the best policy"""
    held_out: int = Field(default=16, ge=1, le=10_000)
    """number of held-out channel realisations for the final comparison; with `draws: 1` one is used for all"""

    renamed: ClassVar[dict[str, str]] = {"judged_on": "eval_worlds", "criterion: device": "per-device"}
    reference: ClassVar[str] = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 28-36"
    example: ClassVar[dict[str, Any]] = {"kind": "allocation"}


class Online(Task):
    """A power vector for every round of a simulated world, with a reward in each round."""

    kind: Literal["online"] = "online"
    reward: Reward = Reward()
    """cost of a round"""
    eval_worlds: int = Field(default=2, ge=1, le=1000)
    """number of worlds for the evaluations during training, which select the best policy"""
    held_out: int = Field(default=10, ge=1, le=1000)
    """number of held-out worlds for the final comparison"""
    tune_worlds: int = Field(default=4, ge=1, le=1000)
    """number of other worlds, on whose recorded rounds the rules of the comparison are tuned"""
    tune_evaluations: int = Field(default=86_400, ge=1, le=1_000_000_000)
    """number of power vectors that are judged to tune each rule"""

    renamed: ClassVar[dict[str, str]] = {"judged_on": "eval_worlds"}
    reference: ClassVar[str] = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Sec. IV"
    example: ClassVar[dict[str, Any]] = {"kind": "online"}


TASKS = OneOf("power-task", Allocation, Online)


class Train(Part):
    """Task and training of `netsim train`."""

    task: Annotated[Task, TASKS] = Allocation()
    """action space and objective"""
    agent: Annotated[Agent, AGENTS] = DdpgAgent()
    """the agent; without a kind: ddpg"""
    steps: int = Field(default=3000, ge=1, le=100_000_000)
    """number of environment steps of the training"""
    eval_every: int = Field(default=250, ge=1, le=100_000_000)
    """number of steps between evaluations of the policy; the best policy is kept"""

    renamed: ClassVar[dict[str, str]] = {"judge_every": "eval_every"}

    @model_validator(mode="after")
    def _of_radio_alone(self) -> Self:
        if not self.agent.on_recorded:
            return self
        name = self.agent.kind + (" with network: shared" if isinstance(self.agent, CriticAgent) else "")
        if not isinstance(self.task, Online):
            raise ValueError(
                f"agent: {name} acts in every round, task is {self.task.kind_name()!r}; take task: "
                "{kind: online}, or agent: {kind: ddpg}"
            )
        for weight in self.task.reward.beyond_radio:
            raise ValueError(
                f"agent: {name} judges what the radio alone decides, task.reward.{weight} is not; set it to 0 "
                "(leak has the shape of leakage), or take agent: {kind: ddpg}"
            )
        return self
