"""A policy of one's own beside the rules: the comparison at the end of `netsim train`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from netsim.errors import BadInput
from netsim.rng import Streams
from netsim.units import FloatArray
from rl.env import PowerAllocation, PowerEnv
from rl.problem import Seen
from rl.settings import Allocation
from scenarios.app.run.events import ignore
from scenarios.app.run.how import one_thread
from scenarios.app.training.environments import Source, online, online_task, problems, study_of, unrecorded
from scenarios.app.training.evaluate import RecordedGround, summary_of
from scenarios.app.training.train import BaselineJudge, beside_references

if TYPE_CHECKING:
    import pandas


def judge(
    scenario: Source, policy: Callable[[Seen], npt.ArrayLike], name: str = "mine", cache: str | Path | None = None
) -> pandas.DataFrame:
    """Costs of a policy in the held-out worlds of a scenario, beside those of the rules and of the oracle or optimum.

    policy : observation (n,) -> action (K,) in [-1, 1]. cache : of reference runs, for the task `allocation`.

    A row for each policy, the cheapest first, named by the index. `cost` : mean over worlds, without unit;
    `difference`, `half_width` : cost of `policy` less that of the row in the same world, mean and half of its 95 %
    interval (Student's t; NaN of one world); `wins` : worlds in which `policy` costs less; and a column
    for each world, by its seed: the cost there (of `allocation` by its number).

    Raises BadInput: a scenario that trains nothing, or a name that a rule has; ValueError: an action that the
    environment refuses.
    """
    import pandas

    study = study_of(scenario)

    def act(seen: Seen) -> FloatArray:
        return np.asarray(policy(seen), dtype=float)

    with one_thread():
        if study.train is not None and isinstance(study.train.task, Allocation):
            sets = problems(study, cache)
            _try(PowerAllocation(sets.trained_on), act)
            rows = beside_references(sets.held_out, act, study.train.steps, Streams(0).at("references"), name)
        else:
            task = online_task(study)
            _try(online(study), act)
            ground = BaselineJudge(study, task) if unrecorded(study) else RecordedGround(study, ignore)
            ground.name = name
            rows = ground.evaluated(lambda env, seen: act(seen), 1)
    if len({(row.policy, row.case) for row in rows}) < len(rows):
        raise BadInput(f"name: {name!r:.40} is the name of a rule; take another")
    found = summary_of(name, rows)
    costs = pandas.DataFrame([vars(row) for row in rows]).pivot(index="policy", columns="case", values="cost")
    against = {"difference": "cost.mean", "half_width": "cost.half_width", "wins": "wins"}
    keys = {"cost": "policy.{}.cost.mean", **{column: f"against.{{}}.{key}" for column, key in against.items()}}
    columns = {column: [found.get(key.format(own)) for own in costs.index] for column, key in keys.items()}
    return pandas.DataFrame(columns, costs.index, dtype=float).join(costs).sort_values("cost")


def _try(env: PowerEnv, act: Callable[[Seen], FloatArray]) -> None:
    """One step, so that an action of no use is refused before rules are tuned."""
    seen, _ = env.reset(seed=0)
    env.step(act(seen).astype(np.float32))
