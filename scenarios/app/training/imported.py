"""A policy for a scenario from layers that were trained elsewhere."""

from __future__ import annotations

from pathlib import Path

from netsim import __version__
from netsim.cache import cache_folder
from netsim.errors import BadInput
from rl.policy import Card, Layers, Policy
from rl.settings import Allocation, Online
from scenarios.app.study.study import Study
from scenarios.app.training.environments import n_ues, problems, task_of


def imported(study: Study, layers: Layers, source: str, cache: Path | None) -> Policy:
    """The policy of these layers for the task of a study, its reference run included if it is for a whole training.

    source : the file of the layers, named in complaints. Raises BadInput if shapes are not those of the scenario.
    """
    hidden = tuple(len(bias) for _, bias in layers[:-1])
    if study.train is not None and isinstance(study.train.task, Online):
        task = task_of(study, Online)
        card = Card(
            program=__version__, task="online", observe="online", ues=n_ues(study), hidden=hidden, limits=task.limits,
            bound=task.bound, scenario=study.title,
        )  # fmt: skip
        return Policy(card, _fitting(layers, card, source))
    whole = task_of(study, Allocation)
    card = Card(
        program=__version__, task="allocation", observe=whole.observe, acts=whole.acts, ues=n_ues(study),
        hidden=hidden, limits=whole.limits, criterion=whole.criterion, bound=whole.bound, scenario=study.title,
    )  # fmt: skip
    fitting = _fitting(layers, card, source)
    one = study.model_copy(
        update={"train": None if study.train is None else study.train.model_copy(
            update={"task": whole.model_copy(update={"draws": 1})}
        )}
    )  # fmt: skip
    (own,) = problems(one, cache_folder() if cache is None else cache).trained_on
    return Policy(card.model_copy(update={"limits": own.limits}), fitting, own.objective.trajectory)


def _fitting(layers: Layers, card: Card, source: str) -> Layers:
    """The layers, whose first takes the scenario's observation and whose last gives its action."""
    found = [weight.shape for weight, _ in layers]
    for i, (has, wanted) in enumerate(zip(found, card.shapes, strict=True)):
        if has != wanted:
            raise BadInput(
                f"{source}: layer {i} has shape {has}, the scenario takes {wanted}: {card.n_seen} numbers are observed "
                f"of {card.ues} UEs ({card.observe}); train on its environment"
            )
    return layers
