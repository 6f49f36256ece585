"""Settings of reinforcement learning: the section `train:` of a scenario."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fl.power.bound import Convergence, Criterion
from fl.power.search import Limits
from netsim.part import OneOf, Part
from rl.agents import AGENT, AGENTS, Agent, DdpgAgent, ScoreFunctionAgent
from rl.reward import REWARDS, Reward, Weighted

VISITED, OPTIMUM, ORACLE = f"{AGENT}, best visited", "optimum", "oracle"
"""What comparisons call the best vector that a training tried, the best of the optimisers, and the best powers of each
round that a search finds with everything known."""
RANDOM, ONE_STEP = "random search", "optimiser, gains only"
"""Comparisons besides the rules: the best of random parameters, and a search in every round by what is known before."""


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

    reference: ClassVar = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eqs. 28-36"
    example: ClassVar = {"kind": "allocation"}


class Online(Task):
    """A power vector for every round of a simulated world, with a reward in each round."""

    kind: Literal["online"] = "online"
    reward: Annotated[Reward, REWARDS] = Weighted()
    """cost of a round; without a kind: weighted"""
    eval_worlds: int = Field(default=2, ge=1, le=1000)
    """number of worlds for the evaluations during training, which select the best policy"""
    held_out: int = Field(default=10, ge=1, le=1000)
    """number of held-out worlds for the final comparison"""
    tune_worlds: int = Field(default=4, ge=1, le=1000)
    """number of other worlds, on whose recorded rounds the rules of the comparison are tuned"""
    tune_evaluations: int = Field(default=86_400, ge=1, le=1_000_000_000)
    """number of power vectors that are judged to tune each rule: as many whole generations of 48 vectors for each
    recorded round as it has room for, and one where it has room for none"""

    reference: ClassVar = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Sec. IV"
    example: ClassVar = {"kind": "online"}


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

    @model_validator(mode="after")
    def _of_radio_alone(self) -> Self:
        if not isinstance(self.agent, ScoreFunctionAgent):
            return self
        name = self.agent.kind
        if not isinstance(self.task, Online):
            raise ValueError(
                f"agent: {name} acts in every round, task is {self.task.kind_name()!r}; take task: "
                "{kind: online}, or agent: {kind: ddpg}"
            )
        for key in self.task.reward.beyond_radio:
            raise ValueError(
                f"task.reward.{key}: asks for what recorded rounds do not tell (loss, leakage), and agent {name} "
                "learns there; take leak, which has the shape of leakage, or noise, or agent: {kind: ddpg}"
            )
        return self
