"""Evaluations of policies in worlds: what an episode costs, and what a comparison of policies
says.
"""

import logging
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
from netsim.units import FloatArray, Floats
from rl.env import OnlinePower
from rl.look import Look
from rl.powers import compute_start_w
from rl.problem import Seen, convert_to_action
from rl.radio_records import Rounds, build_air
from rl.recording import Rule, observe_next_round, play_costs, record_world
from rl.reward import FIGURES
from rl.rules import (
    LAWS,
    KnownRounds,
    TunedRule,
    build_rule,
    draw_best_random,
    plan_best_responses,
    search_best_powers,
    tune_rule,
)
from rl.settings import AGENT, BEST_RESPONSES, OPTIMUM, ORACLE, RANDOM, VISITED, Online
from scenarios.app.results.folder import (
    to_csv_text,
)
from scenarios.app.results.statistics import compute_ci95_half_width, group_by_label
from scenarios.app.results.trainings import estimate_win_probability
from scenarios.app.run.events import Event, Watch
from scenarios.app.study import Fields, Record
from scenarios.app.study.notice import notice
from scenarios.app.study.study import Study
from scenarios.app.training.environments import FIRST, Stages, count_ues, get_task

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


def average_decisions_ms(rows: Sequence[Evaluation]) -> dict[str, float]:
    """Return policy -> mean wall time of a decision over worlds; without those that decide nothing
    in play.
    """
    times_ms = group_by_label((row.policy, row.decision_ms) for row in rows)
    means = {name: float(np.mean(waited_ms)) for name, waited_ms in times_ms.items()}
    return {name: ms for name, ms in means.items() if np.isfinite(ms)}


def draw_world_seeds(study: Study, purpose: str, n: int) -> list[int]:
    """Return the seeds of worlds; those of two purposes differ."""
    return [
        int(x * 2**40) + 2**41
        for x in Streams(study.seed).derive_rng(f"worlds.{purpose}").uniform("seed", np.arange(n))
    ]


def play_episode(
    env: OnlinePower, policy: str, act: Act, world: int, evaluations: int = 1
) -> Evaluation:
    """Return a whole training in one world under one policy. evaluations : power vectors that were
    judged to find it.
    """
    costs, waited_ms = zip(*play_costs(env, act, world), strict=True)
    n = len(costs)
    sums = {name: np.sum([cost.figures[name] for cost in costs]).item() for name in FIGURES}
    total = np.sum([cost.total for cost in costs]) * (1.0 + env.unplayed / n)
    return Evaluation(
        policy,
        world,
        total,
        env.t_th,
        evaluations=evaluations,
        rounds=n,
        noise=sums["noise"],
        energy_j=sums["energy_j"],
        loss=env.figures["loss"],
        loss_mean=sums["loss"] / n,
        leakage=sums["leakage"] / n,
        lost=sums["lost"] / n,
        leak=sums["leak"] / n,
        named=[cost.figures["named"] for cost in costs if cost.rows is not None][-1],
        decision_ms=np.mean(waited_ms),
        **find_largest_epsilons(env.state.ledger),
    )


def find_largest_epsilons(ledger: Ledger) -> dict[str, float]:
    """Return the largest epsilon of a UE, and with the channel's noise, of the account that states
    least; nothing without.
    """
    stated = ledger.list_statements()
    if not stated:
        return {}
    return {
        "epsilon": min(s.epsilon.max() for s in stated),
        "with_channel": min(np.fmin(s.epsilon, s.with_channel).max() for s in stated),
    }


def make_rule_act(power_w: Rule) -> Act:
    """Return a rule as actions of the live environment."""
    return lambda env, seen: convert_to_action(power_w(observe_next_round(env))[0], env.task.limits)


def make_planned_act(power_w: FloatArray, progress: FloatArray) -> Act:
    """Return powers (S, K) of rounds at these shares (S,) of an episode, as actions; the least
    power in any other round.
    """
    power_at = dict(zip(progress.tolist(), power_w, strict=True))

    def act(env: OnlinePower, seen: Seen) -> FloatArray:
        return convert_to_action(
            power_at.get(env.context.progress, np.full(env.n_ue, env.task.limits.each_min_w)),
            env.task.limits,
        )

    return act


def make_response_act(rule: TunedRule, steps_db: Sequence[Floats]) -> Act:
    """Return best responses in every round, from the powers of a rule."""

    def act(env: OnlinePower, seen: Seen) -> FloatArray:
        look = observe_next_round(env)
        task = env.task
        contraction = task.bound.compute_contraction(np.full((1, env.n_ue), 1.0 / env.n_ue))
        factor = np.array([contraction ** (env.rounds - env.state.played - 1)])
        return convert_to_action(
            plan_best_responses(look, rule.dbw(look), steps_db, task.reward, factor)[0], task.limits
        )

    return act


def make_steady_act(power_w: FloatArray, limits: Limits) -> Act:
    """Return the same powers (K,) in all rounds, as actions."""
    action = convert_to_action(power_w, limits)
    return lambda env, seen: action


def summarise_evaluations(agent_name: str, rows: Sequence[Evaluation]) -> Fields:
    """Flat: the mean over cases of every figure of every policy; and the paired difference of the
    agent's cost to that of each of the others.
    """
    groups = group_by_label((row.policy, row) for row in rows)
    summary: Fields = {"cases": len({row.case for row in rows})}
    for name, policy_rows in groups.items():
        for figure in COLUMNS[2:]:
            values = [getattr(row, figure) for row in policy_rows]
            summary[f"policy.{name}.{figure}.mean"] = np.mean(values)
    agent = {row.case: row.cost for row in groups[agent_name]}
    for name, policy_rows in groups.items():
        if name not in (agent_name, VISITED):
            ours, other_costs = np.array([[agent[row.case], row.cost] for row in policy_rows]).T
            summary |= {
                f"against.{name}.{key}": value
                for key, value in _compare_costs(ours, other_costs).items()
            }
    if VISITED in groups:
        summary["visited.percent"] = 100 * (
            groups[VISITED][-1].cost / groups[OPTIMUM][-1].cost - 1.0
        )
    return summary


def _compare_costs(ours: FloatArray, other_costs: FloatArray) -> Fields:
    """Return costs (n,) beside others in the same cases; percent of the size of the others, NaN
    where one is 0.
    """
    gaps = ours - other_costs
    with np.errstate(all="ignore"):
        percent = 100 * (ours / other_costs - 1.0) * np.sign(other_costs)
    mean, low, high = estimate_win_probability(ours[None], other_costs[None])
    return {
        "cost.mean": gaps.mean(),
        "percent.mean": percent.mean(),
        "percent.max": percent.max(),
        "cost.half_width": compute_ci95_half_width(gaps),
        "wins": (gaps < 0).sum(),
        "improvement.mean": mean,
        "improvement.low": low,
        "improvement.high": high,
    }


def write_rows(path: Path, rows: Sequence[Record]) -> None:
    """Rows of the same columns as a CSV file."""
    write_text(path, to_csv_text([rows[0].keys(), *(row.values() for row in rows)]))


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
        self.task = task = get_task(study, Online)
        self.study = study
        self.watch = watch
        self.air = build_air(study.world.radio.uplink, study.round_s)
        self.rng = Streams(study.seed).derive_rng("rules")
        n = count_ues(study)
        self.env = OnlinePower(Stages(study, watched=False), n, task)
        self.watched = OnlinePower(Stages(study), n, task)
        self.numbers = {
            TUNED: task.tune_worlds,
            TRAINED: task.train_worlds,
            CHOSEN: task.eval_worlds,
            HELD_OUT: task.held_out,
        }

    def _watch_worlds(self, purpose: str, label: str) -> Iterator[int]:
        total = self.numbers[purpose]
        for i, world in enumerate(draw_world_seeds(self.study, purpose, total), 1):
            yield world
            self.watch(Event("world", i, total, i == total, {"label": label}))

    @cached_property
    def rules(self) -> list[TunedRule]:
        """All rules, tuned."""
        return [
            tune_rule(law, self._tuned_on, self.task.tune_evaluations, self.rng) for law in LAWS
        ]

    @cached_property
    def random(self) -> TunedRule:
        """Random search over the parameters of the widest rule, with as many evaluations as each
        rule had.
        """
        return draw_best_random(LAWS[-1], self._tuned_on, self.rules[0].evaluations, self.rng)

    @property
    def rule(self) -> TunedRule:
        """The best of them, where they were tuned."""
        return min(self.rules, key=lambda rule: rule.cost)

    @cached_property
    def _tuned_on(self) -> KnownRounds:
        """Rounds to tune on, played with the first rule as it is before any tuning."""
        recorded = self._record_worlds(TUNED, build_rule(FIRST))
        n = self.env.rounds
        says = notice("one-round-episodes").text if n == 1 else f"a world has {n} rounds"
        logging.getLogger("netsim").warning(says)
        return recorded

    @cached_property
    def trained_on(self) -> KnownRounds:
        """Rounds to train on."""
        return self._record_worlds(TRAINED)

    @cached_property
    def chosen_on(self) -> KnownRounds:
        """Rounds by which the best policy is chosen."""
        return self._record_worlds(CHOSEN)

    def _record_worlds(self, purpose: str, rule: TunedRule | None = None) -> KnownRounds:
        """Return worlds played with a rule, by default the first one as it was tuned."""
        rule = rule or next(rule for rule in self.rules if rule.law.name == FIRST)
        worlds = [
            record_world(self.env, rule.power_w, world)
            for world in self._watch_worlds(purpose, _RECORDED[purpose])
        ]
        return self._join_rounds(worlds)

    def _join_rounds(self, worlds: list[tuple[Rounds, Look]]) -> KnownRounds:
        rounds, looks = zip(*worlds, strict=True)
        return KnownRounds(Rounds.stack(rounds), Look.join(looks), self.air, self.task.reward)

    def record_world(self, i: int, power_w: Rule) -> KnownRounds:
        """Return the rounds of world i of those to train on, played with a policy."""
        world = draw_world_seeds(self.study, TRAINED, i + 1)[i]
        return self._join_rounds([record_world(self.env, power_w, world)])

    @cached_property
    def held_out(self) -> list[Evaluation]:
        """All rules, best responses and the oracle, live in worlds that no policy was made from."""
        limits = self.task.limits
        k = self.watched.n_ue
        acts = {
            "average": (make_steady_act(compute_start_w(limits, k), limits), 1),
            "full": (make_steady_act(np.full(k, limits.each_max_w), limits), 1),
        }
        judged = {rule.law.name: rule for rule in self.rules} | {RANDOM: self.random}
        acts |= {
            name: (make_rule_act(rule.power_w), rule.evaluations) for name, rule in judged.items()
        }
        for name, steps_db in BEST_RESPONSES.items():
            acts[name] = make_response_act(self.rule, steps_db), k * sum(map(len, steps_db))
        rows = []
        for world in self._watch_worlds(HELD_OUT, "judged live under all rules"):
            rows += [
                play_episode(self.watched, name, act, world, n) for name, (act, n) in acts.items()
            ]
        return rows + self._play_oracle()

    def _play_oracle(self) -> list[Evaluation]:
        """Return the best powers of every round, found in these worlds as recorded with the first
        rule, and played live.
        """
        recording = self._record_worlds(HELD_OUT)
        best = sorted(self.rules, key=lambda rule: rule.cost)[:_STARTS]
        optimum = search_best_powers(recording, [rule.dbw(recording.look) for rule in best])
        judged = optimum.judged // self.numbers[HELD_OUT]
        starts = np.flatnonzero(recording.look.is_first)[1:]
        power_w = np.split(optimum.power_w, starts)
        progress = np.split(recording.look.progress, starts)
        return [
            replace(
                play_episode(
                    self.watched, ORACLE, make_planned_act(power_w[k], progress[k]), world, judged
                ),
                decision_ms=nan,
            )
            for k, world in enumerate(self._watch_worlds(HELD_OUT, "judged live under the oracle"))
        ]

    def evaluate(self, act: Act, evaluations: int, name: str = AGENT) -> list[Evaluation]:
        """Return an agent beside the others, in the same worlds."""
        return self.held_out + [
            play_episode(self.watched, name, act, world, evaluations)
            for world in self._watch_worlds(HELD_OUT, "judged live under the agent")
        ]
