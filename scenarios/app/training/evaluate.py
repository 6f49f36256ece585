"""Evaluations of policies in worlds: what an episode costs, and what a comparison of policies
says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import nan
from pathlib import Path

import numpy as np

from fl.power.search import Limits
from fl.privacy.ledger import Ledger
from netsim.record import write_text
from netsim.rng import Streams
from netsim.units import FloatArray
from rl.env import OnlinePower
from rl.look import Look
from rl.powers import start_w
from rl.problem import Seen, as_action
from rl.radio_records import Rounds, air_of
from rl.recording import Rule, costs_of, look_now, recorded
from rl.reward import FIGURES
from rl.rules import LAWS, Known, Tuned, best_of_random, best_powers, best_response, tuned, untuned
from rl.settings import AGENT, BEST_RESPONSES, OPTIMUM, ORACLE, RANDOM, VISITED, Online
from scenarios.app.results.folder import (
    csv_text,
)
from scenarios.app.results.statistics import half_width
from scenarios.app.results.trainings import probability_of_improvement
from scenarios.app.run.events import Event, Watch
from scenarios.app.study import Fields, Record
from scenarios.app.study.study import Study
from scenarios.app.training.environments import FIRST, Stages, n_ues, task_of

Act = Callable[[OnlinePower, Seen], FloatArray]
"""An action in the live environment, of what it shows"""
TUNED = "tuned"
TRAINED = "trained"
CHOSEN = "judged"
HELD_OUT = "held-out"
"""Purposes of worlds: to tune rules, to train on, to choose the best policy by, to report."""


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of a policy in one case (a channel or a world).

    cost : what is minimised: the bound L over that of average power, or minus the sum of rewards,
    in which rounds that a privacy budget leaves unplayed cost the mean of the others. t_th : rounds
    until the last artificial noise. noise, loss, leakage, energy_j, lost, leak : of the rounds that
    were played (see `rl.reward`), NaN for the problem of the study. evaluations : power vectors
    that were tried to find the policy. rounds : that were played. loss_mean : over rounds, where
    `loss` is that of the last one. named : share of homes after the last round in which UEs sent.
    epsilon, with_channel : of the UE that spent most, in the account that states least. decision_ms
    : wall time of a decision, which no table of results has.
    """

    policy: str
    case: int
    cost: float
    t_th: int
    noise: float = nan
    loss: float = nan
    leakage: float = nan
    energy_j: float = nan
    lost: float = nan
    leak: float = nan
    evaluations: int = 1
    rounds: int = 1
    loss_mean: float = nan
    named: float = nan
    epsilon: float = nan
    with_channel: float = nan
    decision_ms: float = field(default=nan, compare=False)


COLUMNS = tuple(f.name for f in fields(Evaluation) if f.compare)
"""of the table of evaluations: what a repetition finds again"""


def decisions_ms(rows: Sequence[Evaluation]) -> dict[str, float]:
    """Policy -> mean wall time of a decision over worlds; without those that decide nothing in
    play.
    """
    means = {
        name: float(np.mean([row.decision_ms for row in own]))
        for name, own in by_policy(rows).items()
    }
    return {name: ms for name, ms in means.items() if np.isfinite(ms)}


def by_policy(rows: Sequence[Evaluation]) -> dict[str, list[Evaluation]]:
    """Rows of each policy."""
    of: dict[str, list[Evaluation]] = {}
    for row in rows:
        of.setdefault(row.policy, []).append(row)
    return of


def worlds(study: Study, purpose: str, n: int) -> list[int]:
    """Seeds of worlds; those of two purposes differ."""
    return [
        int(x * 2**40) + 2**41
        for x in Streams(study.seed).at(f"worlds.{purpose}").uniform("seed", np.arange(n))
    ]


def episode(
    env: OnlinePower, policy: str, act: Act, world: int, evaluations: int = 1
) -> Evaluation:
    """A whole training in one world under one policy. evaluations : power vectors that were judged
    to find it.
    """
    costs, waited_ms = zip(*costs_of(env, act, world), strict=True)
    n = len(costs)
    of = {name: np.sum([cost.figures[name] for cost in costs]).item() for name in FIGURES}
    total = np.sum([cost.total for cost in costs]) * (1.0 + env.unplayed / n)
    return Evaluation(
        policy,
        world,
        total,
        env.t_th,
        evaluations=evaluations,
        rounds=n,
        noise=of["noise"],
        energy_j=of["energy_j"],
        loss=env.figures["loss"],
        loss_mean=of["loss"] / n,
        leakage=of["leakage"] / n,
        lost=of["lost"] / n,
        leak=of["leak"] / n,
        named=[cost.figures["named"] for cost in costs if cost.rows is not None][-1],
        decision_ms=np.mean(waited_ms),
        **spent_by(env.state.ledger),
    )


def spent_by(ledger: Ledger) -> dict[str, float]:
    """The largest epsilon of a UE, and with the channel's noise, of the account that states least;
    nothing without.
    """
    stated = ledger.statements()
    if not stated:
        return {}
    return {
        "epsilon": min(s.epsilon.max() for s in stated),
        "with_channel": min(np.fmin(s.epsilon, s.with_channel).max() for s in stated),
    }


def played(power_w: Callable[[Look], FloatArray]) -> Act:
    """A rule as actions of the live environment."""
    return lambda env, seen: as_action(power_w(look_now(env))[0], env.task.limits)


def planned(power_w: FloatArray, progress: FloatArray) -> Act:
    """Powers (S, K) of rounds at these shares (S,) of an episode, as actions; the least power in
    any other round.
    """
    of = dict(zip(progress.tolist(), power_w, strict=True))

    def act(env: OnlinePower, seen: Seen) -> FloatArray:
        return as_action(
            of.get(env.now.progress, np.full(env.n_ue, env.task.limits.each_min_w)), env.task.limits
        )

    return act


def responding(rule: Tuned, steps_db: Sequence[tuple[float, ...]]) -> Act:
    """Best responses in every round, from the powers of a rule."""

    def act(env: OnlinePower, seen: Seen) -> FloatArray:
        look = look_now(env)
        task = env.task
        contraction = task.bound.factor(np.full((1, env.n_ue), 1.0 / env.n_ue))
        factor = np.array([contraction ** (env.rounds - env.state.played - 1)])
        power_w = best_response(look, rule.dbw(look), steps_db, task.reward, factor)
        return as_action(power_w[0], task.limits)

    return act


def steady(power_w: FloatArray, limits: Limits) -> Act:
    """The same powers (K,) in all rounds, as actions."""
    action = as_action(power_w, limits)
    return lambda env, seen: action


def summary_of(agent_name: str, rows: Sequence[Evaluation]) -> Fields:
    """Flat: the mean over cases of every figure of every policy; and the paired difference of the
    agent's cost to that of each of the others.
    """
    of = by_policy(rows)
    summary: Fields = {"cases": len({row.case for row in rows})}
    for name, own in of.items():
        for figure in COLUMNS[2:]:
            summary[f"policy.{name}.{figure}.mean"] = np.mean([getattr(row, figure) for row in own])
    agent = {row.case: row.cost for row in of[agent_name]}
    for name, own in of.items():
        if name not in (agent_name, VISITED):
            ours, theirs = np.array([[agent[row.case], row.cost] for row in own]).T
            summary |= {
                f"against.{name}.{key}": value for key, value in _paired(ours, theirs).items()
            }
    if VISITED in of:
        summary["visited.percent"] = 100 * (of[VISITED][-1].cost / of[OPTIMUM][-1].cost - 1.0)
    return summary


def _paired(ours: FloatArray, theirs: FloatArray) -> Fields:
    """Costs (n,) beside others in the same cases; percent of the size of the others, NaN where one
    is 0.
    """
    gaps = ours - theirs
    with np.errstate(all="ignore"):
        percent = 100 * (ours / theirs - 1.0) * np.sign(theirs)
    mean, low, high = probability_of_improvement(ours[None], theirs[None])
    return {
        "cost.mean": gaps.mean(),
        "percent.mean": percent.mean(),
        "percent.max": percent.max(),
        "cost.half_width": half_width(gaps),
        "wins": (gaps < 0).sum(),
        "improvement.mean": mean,
        "improvement.low": low,
        "improvement.high": high,
    }


def write_rows(path: Path, rows: Sequence[Record]) -> None:
    """Rows of the same columns as a CSV file."""
    write_text(path, csv_text([rows[0].keys(), *(row.values() for row in rows)]))


# -- recorded rounds: worlds are played once, rules are tuned there, and all is judged live

_STARTS = 3  # of the oracle: the best rules
_RECORDED = {
    TUNED: "recorded to tune rules",
    TRAINED: "recorded to train on",
    CHOSEN: "recorded to choose the policy by",
    HELD_OUT: "recorded for the oracle",
}


class RecordedGround:
    """What agents of a study are trained and judged on: recorded rounds, and rules tuned on worlds
    of their own.

    All of it is made when it is asked for, once for all seeds of a training. watch : gets an event
    of every world.
    """

    def __init__(self, study: Study, watch: Watch) -> None:
        self.task = task_of(study, Online)
        self.study = study
        self.watch = watch
        self.air = air_of(study.world.radio.uplink, study.round_s)
        self.rng = Streams(study.seed).at("rules")
        n = n_ues(study)
        self.env = OnlinePower(Stages(study, watched=False), n, self.task)
        self.watched = OnlinePower(Stages(study), n, self.task)
        self.numbers = {
            TUNED: self.task.tune_worlds,
            TRAINED: self.task.train_worlds,
            CHOSEN: self.task.eval_worlds,
            HELD_OUT: self.task.held_out,
        }

    def _each(self, purpose: str, what: str) -> Iterator[int]:
        of = self.numbers[purpose]
        for i, world in enumerate(worlds(self.study, purpose, of), 1):
            yield world
            self.watch(Event("world", i, of, i == of, {"label": what}))

    @cached_property
    def rules(self) -> list[Tuned]:
        """All rules, tuned."""
        return [tuned(law, self._tuned_on, self.task.tune_evaluations, self.rng) for law in LAWS]

    @cached_property
    def random(self) -> Tuned:
        """Random search over the parameters of the widest rule, with as many evaluations as each
        rule had.
        """
        return best_of_random(LAWS[-1], self._tuned_on, self.rules[0].evaluations, self.rng)

    @property
    def rule(self) -> Tuned:
        """The best of them, where they were tuned."""
        return min(self.rules, key=lambda rule: rule.cost)

    @cached_property
    def _tuned_on(self) -> Known:
        """Rounds to tune on, played with the first rule as it is before any tuning."""
        return self._known(TUNED, untuned(FIRST))

    @cached_property
    def trained_on(self) -> Known:
        """Rounds to train on."""
        return self._known(TRAINED)

    @cached_property
    def chosen_on(self) -> Known:
        """Rounds by which the best policy is chosen."""
        return self._known(CHOSEN)

    def _known(self, purpose: str, rule: Tuned | None = None) -> Known:
        """Worlds played with a rule, by default the first one as it was tuned."""
        rule = rule or next(rule for rule in self.rules if rule.law.name == FIRST)
        each = [
            recorded(self.env, rule.power_w, world)
            for world in self._each(purpose, _RECORDED[purpose])
        ]
        return self._joined(each)

    def _joined(self, each: list[tuple[Rounds, Look]]) -> Known:
        rounds, looks = zip(*each, strict=True)
        return Known(Rounds.stack(list(rounds)), Look.join(looks), self.air, self.task.reward)

    def one_world(self, i: int, power_w: Rule) -> Known:
        """The rounds of world i of those to train on, played with a policy."""
        world = worlds(self.study, TRAINED, i + 1)[i]
        return self._joined([recorded(self.env, power_w, world)])

    @cached_property
    def held_out(self) -> list[Evaluation]:
        """All rules, best responses and the oracle, live in worlds that no policy was made from."""
        limits = self.task.limits
        k = self.watched.n_ue
        acts = {
            "average": (steady(start_w(limits, k), limits), 1),
            "full": (steady(np.full(k, limits.each_max_w), limits), 1),
        }
        judged = {rule.law.name: rule for rule in self.rules} | {RANDOM: self.random}
        acts |= {name: (played(rule.power_w), rule.evaluations) for name, rule in judged.items()}
        for name, steps_db in BEST_RESPONSES.items():
            acts[name] = responding(self.rule, steps_db), k * sum(map(len, steps_db))
        rows = []
        for world in self._each(HELD_OUT, "judged live under all rules"):
            rows += [episode(self.watched, name, act, world, n) for name, (act, n) in acts.items()]
        return rows + self._oracle()

    def _oracle(self) -> list[Evaluation]:
        """The best powers of every round, found in these worlds as recorded with the first rule,
        and played live.
        """
        known = self._known(HELD_OUT)
        best = sorted(self.rules, key=lambda rule: rule.cost)[:_STARTS]
        found = best_powers(known, [rule.dbw(known.look) for rule in best])
        judged = found.judged // self.numbers[HELD_OUT]
        starts = np.flatnonzero(known.look.first)[1:]
        power_w = np.split(found.power_w, starts)
        progress = np.split(known.look.progress, starts)
        return [
            replace(
                episode(self.watched, ORACLE, planned(power_w[k], progress[k]), world, judged),
                decision_ms=nan,
            )
            for k, world in enumerate(self._each(HELD_OUT, "judged live under the oracle"))
        ]

    def evaluated(self, act: Act, evaluations: int, name: str = AGENT) -> list[Evaluation]:
        """An agent beside the others, in the same worlds."""
        held_out = self._each(HELD_OUT, "judged live under the agent")
        return self.held_out + [
            episode(self.watched, name, act, world, evaluations) for world in held_out
        ]
