"""A policy of one's own: the environment of a UE that it is trained in, and its comparison with the
rules.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netsim import __version__
from netsim.errors import BadInput
from netsim.rng import Streams
from netsim.safe import open_own_file
from netsim.units import FloatArray
from rl.env import PowerAllocation
from rl.look import Look
from rl.policy import Act, plan_dbw
from rl.problem import Seen
from rl.rules import limit_to_w
from rl.settings import OPTIMUM, ORACLE, Allocation, Train
from rl.ue import UePower, UeRounds
from scenarios.app.results.folder import to_csv_text
from scenarios.app.results.statistics import compute_ci95_half_width
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
)
from scenarios.app.training.train import evaluate_beside_references

if TYPE_CHECKING:
    import pandas

_SCENARIO = "power/city"
_LOG = logging.getLogger("netsim")
_HEADING = b"when,version,agent,scenario,study,cost,rival,difference,half_width,wins\n"


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
    _LOG.warning("recording rounds and tuning rules, once in this process: about a minute")
    with use_one_thread():
        _ = ground.trained_on, ground.rule
    return ground


def judge(
    scenario: Source,
    policy: Act | Mapping[str, Act],
    name: str = "mine",
    cache: Cache = None,
    passes: int = 1,
    leaderboard: str | Path | None = None,
) -> pandas.DataFrame:
    """Return costs of a policy in the held-out worlds of a scenario, beside those of the rules and
    of the oracle or optimum; several policies are given by their names, instead of `name`.

    policy : observations (n, F) of UEs -> actions (n,) or (n, 1) in [-1, 1], as in
    `netsim/UePower-v0`; it moves all UEs in each of the passes. For the task `allocation`
    observation (n,) -> action (K,). cache : of its reference runs. leaderboard : a CSV that gets a
    row of each policy, beside the cheapest rule that does not know the future.

    A row for each policy, the cheapest first, named by the index. `cost` : mean over worlds,
    without unit; `difference`, `half_width` : cost of the first policy less that of the row in the
    same world, mean and half of its 95 % interval (Student's t; NaN of one world); `wins` : worlds
    in which the first policy costs less; and a column for each world, by its seed: the cost there
    (of `allocation` by its number).

    Raises BadInput: a scenario that trains nothing, a name that a rule has, or a file that is no
    leaderboard; ValueError: an action that the environment refuses.
    """
    import pandas

    if isinstance(policy, Mapping):
        tables = [
            judge(scenario, act, label, cache, passes, leaderboard) for label, act in policy.items()
        ]
        costs = pandas.concat(tables).iloc[:, 4:]
        return _compare_costs(costs[~costs.index.duplicated()], next(iter(policy)))
    study = load_study(scenario)
    if not isinstance(passes, int) or not 1 <= passes <= 100:
        raise BadInput(f"passes: {passes!r:.40}; take 1 to 100")
    if leaderboard:
        _append_rows(Path(leaderboard))
    with use_one_thread():
        if study.train is not None and isinstance(study.train.task, Allocation):
            rows = _judge_in_problems(study, policy, name, cache)
        else:
            ground = get_ground(study)

            def power_w(look: Look) -> FloatArray:
                return limit_to_w(plan_dbw(look, ground.rule, policy, passes), look.limits)

            power_w(ground.trained_on.look)  # so that actions of no use are refused at once
            rows = ground.evaluate(make_rule_act(power_w), 1, name)
    cost_of = {(row.policy, row.case): row.cost for row in rows}
    if len(cost_of) < len(rows):
        raise BadInput(f"name: {name!r:.40} is the name of a rule; take another")
    costs = pandas.Series(cost_of).unstack().rename_axis("policy")
    if len(costs.columns) == 1:
        _LOG.warning("one world has no interval: half_width is NaN; raise train.task.held_out")
    table = _compare_costs(costs, name)
    if leaderboard:
        rivals = table.iloc[:, 1:4].drop([name, ORACLE, OPTIMUM], errors="ignore")
        entry = [
            datetime.now(UTC).isoformat(timespec="seconds"),
            __version__,
            name,
            study.title,
            hashlib.sha256(to_study_yaml(study).encode()).hexdigest()[:16],
            table.cost[name],
            *next(rivals.itertuples()),
        ]
        _append_rows(Path(leaderboard), entry)
    return table


def _compare_costs(costs: pandas.DataFrame, own: str) -> pandas.DataFrame:
    """Put costs of policies in worlds beside those of one policy, the cheapest first."""
    gaps = costs.loc[own] - costs.drop(own)
    table = costs.iloc[:, :0].assign(
        cost=costs.mean(axis=1),
        difference=gaps.mean(axis=1),
        half_width=gaps.apply(compute_ci95_half_width, axis=1),
        wins=(gaps < 0).sum(axis=1),
    )
    return table.join(costs).sort_values("cost")


def _append_rows(path: Path, *rows: list[object]) -> None:
    """Append rows to a leaderboard, which is made with its heading if need be.

    BadInput: it is another file; OSError: it cannot be written.
    """
    with os.fdopen(open_own_file(path, create=True), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = file.read(len(_HEADING))
        if found not in (b"", _HEADING):
            raise BadInput(f"{path}: does not begin as a leaderboard; give another file")
        file.write(_HEADING[len(found) :] + to_csv_text(rows).encode())


def _judge_in_problems(study: Study, policy: Act, name: str, cache: Cache) -> list[Evaluation]:
    def act(seen: Seen) -> FloatArray:
        return np.asarray(policy(seen), dtype=float)

    sets = build_problems(study, cache)
    env = PowerAllocation(sets.trained_on)
    seen, _ = env.reset(seed=0)
    env.step(act(seen).astype(np.float32))  # so that an action of no use is refused at once
    return evaluate_beside_references(
        sets.held_out,
        act,
        (study.train or Train()).steps,
        Streams(0).derive_rng("references"),
        name,
    )
