"""Recorded rounds: worlds are played once, rules are tuned there, and all is judged live."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from netsim.errors import BadInput
from netsim.rng import Rng, Streams
from netsim.units import FloatArray
from rl.env import OnlinePower
from rl.look import Look
from rl.oracle import best_multipliers, best_powers
from rl.radio_records import Rounds, air_of
from rl.recording import recorded
from rl.rules import LAWS, Known, Tuned, best_of_random, tuned, untuned
from rl.settings import ONE_STEP, ORACLE, RANDOM, ScoreFunctionAgent
from scenarios.app.run.events import Event, Watch
from scenarios.app.study.study import Study
from scenarios.app.training.environments import FIRST, Stages, n_ues, settings, unrecorded
from scenarios.app.training.evaluate import (
    CHOSEN,
    HELD_OUT,
    TRAINED,
    TUNED,
    Act,
    Evaluation,
    OneStep,
    PlayedEpisode,
    episode,
    episode_of,
    planned,
    played,
    worlds,
)

_STARTS = 3  # of the oracle: the best rules
_RECORDED = {
    TUNED: "recorded to tune rules", TRAINED: "recorded to train on", CHOSEN: "recorded to choose the policy by",
    HELD_OUT: "recorded for the oracle",
}  # fmt: skip


class RecordedGround:
    """What agents of a study are trained and judged on: recorded rounds, and rules tuned on worlds of their own.

    All of it is made when it is asked for, once for all seeds of a training. watch : gets an event of every world.
    """

    def __init__(self, study: Study, watch: Watch) -> None:
        if (reason := unrecorded(study)) is not None:
            raise BadInput(f"{reason}; change that, or take train.agent: {{kind: ddpg}}")
        how, self.task = settings(study)
        self.study = study
        self.watch = watch
        self.name = how.agent.kind
        self.air = air_of(study.world.radio.uplink, study.round_s)
        n = n_ues(study)
        self.env = OnlinePower(Stages(study, watched=False), n, self.task)
        self.watched = OnlinePower(Stages(study), n, self.task)
        self.numbers = {TUNED: self.task.tune_worlds, HELD_OUT: self.task.held_out}
        if isinstance(how.agent, ScoreFunctionAgent):
            self.numbers |= {TRAINED: how.agent.worlds, CHOSEN: self.task.eval_worlds}

    def _each(self, purpose: str, what: str) -> Iterator[int]:
        """Worlds of a purpose; each is reported once it is done with."""
        of = self.numbers[purpose]
        for i, world in enumerate(worlds(self.study, purpose, of), 1):
            yield world
            self.watch(Event("world", i, of, i == of, {"label": what}))

    def _rng(self, what: str) -> Rng:
        return Streams(self.study.seed).at(what)

    @cached_property
    def rules(self) -> list[Tuned]:
        """All rules, tuned."""
        n = self.task.tune_evaluations
        return [tuned(law, self._tuned_on, n, self._rng("rules")) for law in LAWS]

    @cached_property
    def random(self) -> Tuned:
        """Random search over the parameters of the widest rule, with as many evaluations as each rule had."""
        law = max(LAWS, key=lambda law: len(law.start))
        return best_of_random(law, self._tuned_on, self.rules[0].evaluations, self._rng("rules"))

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
        rounds = list[Rounds]()
        looks = list[Look]()
        for world in self._each(purpose, _RECORDED[purpose]):
            of_radio, look = recorded(self.env, rule.power_w, world)
            rounds.append(of_radio)
            looks.append(replace(look, air=self.air))
        return Known(Rounds.stack(rounds), Look.stack(looks), self.air, self.task.reward)

    @cached_property
    def held_out(self) -> list[Evaluation]:
        """All rules, the one-step optimiser and the oracle, live in worlds that no policy was made from."""
        judged = {rule.law.name: rule for rule in self.rules} | {RANDOM: self.random}
        rows = list[Evaluation]()
        for world in self._each(HELD_OUT, "judged live under all rules"):
            for name, rule in judged.items():
                rows.append(episode(self.watched, name, played(rule.power_w), world, rule.evaluations))
            act = OneStep(self.air, self.rule, self._multipliers)
            rows.append(replace(episode(self.watched, ONE_STEP, act, world), evaluations=act.judged))
        return rows + self._oracle()

    def _oracle(self) -> list[Evaluation]:
        """The best powers of every round, found in these worlds as recorded with the first rule, and played live."""
        known = self._known(HELD_OUT)
        best = sorted(self.rules, key=lambda rule: rule.cost)[:_STARTS]
        found = best_powers(known.at(self._multipliers), [rule.dbw(known.look) for rule in best])
        judged = found.judged // self.numbers[HELD_OUT]
        starts = np.flatnonzero(known.look.first)[1:]
        power_w = np.split(found.power_w, starts)
        progress = np.split(known.look.progress, starts)
        each = self._each(HELD_OUT, "judged live under the oracle")
        return [
            episode(self.watched, ORACLE, planned(power_w[k], progress[k]), world, judged)
            for k, world in enumerate(each)
        ]

    @cached_property
    def _multipliers(self) -> FloatArray:
        """Prices of the reward's bounds for the oracle, found where rules are tuned; none without bounds."""
        if not self.task.reward.bounds():
            return np.zeros(0)
        known = self._tuned_on
        return best_multipliers(known, self.rule.dbw(known.look), self._rng("oracle"))

    def evaluated(self, act: Act, evaluations: int) -> list[Evaluation]:
        """An agent beside the others, in the same worlds."""
        rows = list(self.held_out)
        for world in self._each(HELD_OUT, "judged live under the agent"):
            rows.append(episode(self.watched, self.name, act, world, evaluations))
        return rows

    def shown(self, act: Act, rows: list[Evaluation]) -> PlayedEpisode:
        """An episode of that comparison."""
        rules = {rule.law.name: played(rule.power_w) for rule in self.rules}
        return episode_of(self.watched, self.study, (self.name, act), rules, rows)
