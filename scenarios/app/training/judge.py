"""A policy of one's own: the environment of a UE that it is trained in, and its comparison with the
rules.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from netsim.errors import BadInput
from netsim.rng import Streams
from netsim.units import FloatArray
from rl.env import PowerAllocation
from rl.look import Look
from rl.policy import Act, plan_dbw
from rl.problem import Seen
from rl.rules import limit_to_w
from rl.settings import Allocation, Train
from rl.ue import UePower, UeRounds
from scenarios.app.run.events import ignore_event
from scenarios.app.run.how import use_one_thread
from scenarios.app.study.describe import build_model
from scenarios.app.study.study import Study, to_study_yaml
from scenarios.app.study.yaml_document import parse_document
from scenarios.app.training.environments import (
    Cache,
    Source,
    build_problems,
    explain_unrecorded,
    get_online_task,
    load_study,
    refuse_render_mode,
)
from scenarios.app.training.evaluate import (
    Evaluation,
    RecordedGround,
    make_rule_act,
    summarise_evaluations,
)
from scenarios.app.training.train import evaluate_beside_references

if TYPE_CHECKING:
    import pandas

_SCENARIO = "power/city"


def make_ue_power(
    scenario: Source = _SCENARIO, cache: Cache = None, render_mode: None = None
) -> UePower:
    """Return the recorded rounds of a scenario for one UE; `cache` is not needed, all environments
    are made alike.

    The first time in a process rules are tuned and rounds recorded, which a line on stderr says.
    render_mode : None.
    """
    refuse_render_mode(render_mode)
    ground = get_ground(load_study(scenario))
    return UePower(UeRounds(ground.trained_on, ground.rule))


def get_ground(study: Study) -> RecordedGround:
    """Return the recorded rounds and tuned rules of a study, made once in a process. BadInput: it
    cannot be recorded.
    """
    get_online_task(study)
    if reason := explain_unrecorded(study):
        raise BadInput(
            f"{reason}; change that, or take netsim/OnlinePower-v0, which plays live rounds"
        )
    return _record_ground(to_study_yaml(study))


@lru_cache(maxsize=4)
def _record_ground(spec: str) -> RecordedGround:
    ground = RecordedGround(build_model(Study, parse_document(spec, "study")), ignore_event)
    logging.getLogger("netsim").warning(
        "recording rounds and tuning rules, once in this process: about a minute"
    )
    with use_one_thread():
        _ = ground.trained_on, ground.rule
    return ground


def judge(
    scenario: Source,
    policy: Act,
    name: str = "mine",
    cache: Cache = None,
    passes: int = 1,
) -> pandas.DataFrame:
    """Return costs of a policy in the held-out worlds of a scenario, beside those of the rules and
    of the oracle or optimum.

    policy : observations (n, F) of UEs -> actions (n,) or (n, 1) in [-1, 1], as in
    `netsim/UePower-v0`; it moves all UEs in each of the passes. For the task `allocation`
    observation (n,) -> action (K,). cache : of its reference runs.

    A row for each policy, the cheapest first, named by the index. `cost` : mean over worlds,
    without unit; `difference`, `half_width` : cost of `policy` less that of the row in the same
    world, mean and half of its 95 % interval (Student's t; NaN of one world); `wins` : worlds in
    which `policy` costs less; and a column for each world, by its seed: the cost there (of
    `allocation` by its number).

    Raises BadInput: a scenario that trains nothing, or a name that a rule has; ValueError: an
    action that the environment refuses.
    """
    import pandas

    study = load_study(scenario)
    if not isinstance(passes, int) or not 1 <= passes <= 100:
        raise BadInput(f"passes: {passes!r:.40}; take 1 to 100")
    with use_one_thread():
        if study.train is not None and isinstance(study.train.task, Allocation):
            rows = _judge_in_problems(study, policy, name, cache)
        else:
            ground = get_ground(study)

            def power_w(look: Look) -> FloatArray:
                return limit_to_w(plan_dbw(look, ground.rule, policy, passes), look.limits)

            power_w(ground.trained_on.look)  # so that actions of no use are refused at once
            rows = ground.evaluate(make_rule_act(power_w), 1, name)
    pairs = {(row.policy, row.case) for row in rows}
    if len(pairs) < len(rows):
        raise BadInput(f"name: {name!r:.40} is the name of a rule; take another")
    summary = summarise_evaluations(name, rows)
    table = pandas.DataFrame([vars(row) for row in rows])
    costs = table.pivot(index="policy", columns="case", values="cost")
    keys = {
        "cost": "policy.{}.cost.mean",
        "difference": "against.{}.cost.mean",
        "half_width": "against.{}.cost.half_width",
        "wins": "against.{}.wins",
    }
    columns = {
        column: [summary.get(key.format(label)) for label in costs.index]
        for column, key in keys.items()
    }
    return pandas.DataFrame(columns, costs.index, dtype=float).join(costs).sort_values("cost")


def _judge_in_problems(study: Study, policy: Act, name: str, cache: Cache) -> list[Evaluation]:
    def act(seen: Seen) -> FloatArray:
        return np.asarray(policy(seen), dtype=float)

    sets = build_problems(study, cache)
    env = PowerAllocation(sets.trained_on)
    seen, _ = env.reset(seed=0)
    env.step(act(seen).astype(np.float32))  # so that an action of no use is refused at once
    steps = (study.train or Train()).steps
    return evaluate_beside_references(
        sets.held_out, act, steps, Streams(0).derive_rng("references"), name
    )
