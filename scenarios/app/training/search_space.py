"""What a search of hyper-parameters may choose, for each agent on recorded rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netsim.errors import BadInput
from rl.agents import Agent, CriticAgent, SacAgent, ScoreFunctionAgent, Td3Agent

if TYPE_CHECKING:
    from optuna import Trial

_BATCHES, _WARM_STEPS, _DELAYS = [64, 128, 256], [100, 300, 600], [1, 2, 4]
_SITUATIONS, _ACTIONS = [12, 24, 48], [8, 12, 24]


def chosen(trial: Trial, agent: Agent) -> Agent:
    """The agent with the settings of a trial; all others stay."""
    found: dict[str, Any] = {"learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True)}
    if isinstance(agent, ScoreFunctionAgent):
        found |= {
            "situations": trial.suggest_categorical("situations", _SITUATIONS),
            "actions": trial.suggest_categorical("actions", _ACTIONS),
            "exploration_noise_std": trial.suggest_float("exploration_noise_std", 0.1, 1.0, log=True),
            "exploration_noise_final_std": trial.suggest_float("exploration_noise_final_std", 0.03, 0.3, log=True),
        }
    elif isinstance(agent, CriticAgent) and agent.on_recorded:
        found |= {
            "batch_size": trial.suggest_categorical("batch_size", [n for n in _BATCHES if n <= agent.buffer_size]),
            "learning_starts": trial.suggest_categorical("learning_starts", _WARM_STEPS),
            "exploration_noise_std": trial.suggest_float("exploration_noise_std", 0.05, 0.6, log=True),
        }
        if isinstance(agent, Td3Agent):
            found["policy_delay"] = trial.suggest_categorical("policy_delay", _DELAYS)
        if isinstance(agent, SacAgent):
            found["target_std"] = trial.suggest_float("target_std", 0.03, 0.3, log=True)
    return type(agent).model_validate(agent.model_dump() | found)


def searchable(agent: Agent) -> None:
    """BadInput for an agent whose hyper-parameters are not searched."""
    if not agent.on_recorded:
        raise BadInput(
            f"--search: agents on recorded rounds are searched, {agent.kind} learns in the environment itself; take "
            "train.agent: {kind: score-function}, or network: shared"
        )
