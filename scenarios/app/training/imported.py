"""A policy for a scenario from layers that were trained elsewhere."""

from __future__ import annotations

from pathlib import Path

from netsim.errors import BadInput
from rl.policy import Layers, Policy
from rl.settings import Allocation
from scenarios.app.study.study import Study
from scenarios.app.training.environments import own_problem
from scenarios.app.training.trainers import policy_of


def imported(study: Study, layers: Layers, source: str, cache: Path | None) -> Policy:
    """The policy of these layers for the task of a study, its reference run included if it is for a whole training.

    source : the file of the layers, named in complaints. Raises BadInput if shapes are not those of the scenario.
    """
    whole = study.train is not None and isinstance(study.train.task, Allocation)
    policy = policy_of(study, layers, own_problem(study, cache) if whole else None)
    found, card = [weight.shape for weight, _ in layers], policy.card
    for i, (has, wanted) in enumerate(zip(found, card.shapes, strict=True)):
        if has != wanted:
            raise BadInput(
                f"{source}: layer {i} has shape {has}, the scenario takes {wanted}: {card.n_seen} numbers are observed "
                f"of {card.ues} UEs ({card.observe}); train on its environment"
            )
    return policy
