"""Recorded rounds: worlds are played once, rules are tuned there, and all is judged live."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from netsim import __version__
from netsim.checkpoint import from_tree_as, load_tree, save_tree, to_tree
from netsim.errors import BadInput
from netsim.rng import Streams
from netsim.safe import what_is
from netsim.units import FloatArray, w_from_dbm
from rl.env import OnlinePower
from rl.look import Look
from rl.oracle import best_multipliers, best_powers
from rl.radio_records import Rounds, air_of
from rl.recording import recorded
from rl.rules import LAWS, Known, Law, Tuned, best_of_random, tuned, untuned
from rl.settings import ONE_STEP, ORACLE, RANDOM, ScoreFunctionAgent
from rl.train import SAVE_EVERY_S, check_finite
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.job import input_digests, read_lines
from scenarios.app.study import Fields
from scenarios.app.study.study import Study, study_yaml
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
_SHARE = 20.0  # of the time that writing took, at least, passes until findings are written again


class RecordedGround:
    """What agents of a study are trained and judged on: recorded rounds, and rules tuned on worlds of their own.

    All of it is made when it is asked for, once for all seeds of a training. watch : gets an event of every world.
    """

    def __init__(self, study: Study, watch: Watch, file: Path | None = None) -> None:
        """file : keeps what an interrupted training need not find again; when it is written changes no result."""
        if (reason := unrecorded(study)) is not None:
            raise BadInput(f"{reason}; change that, or take train.agent: {{kind: ddpg}}")
        how, self.task = settings(study)
        self.study, self.watch, self.file, self.name = study, watch, file, how.agent.kind
        self.air = air_of(study.world.radio.uplink, study.round_s)
        self.env, self.watched = (
            OnlinePower(Stages(study, watched), n_ues(study), self.task) for watched in (False, True)
        )
        self.numbers = {TUNED: self.task.tune_worlds, HELD_OUT: self.task.held_out}
        if isinstance(how.agent, ScoreFunctionAgent):
            self.numbers |= {TRAINED: how.agent.worlds, CHOSEN: self.task.eval_worlds}
        self._saved_s = time.perf_counter()
        self._every_s = SAVE_EVERY_S

    @property
    def text(self) -> str:
        """What findings depend on; those of another text are forgotten."""
        return f"{__version__}\n{read_lines(input_digests(self.study))}{study_yaml(self.study)}"

    @cached_property
    def _found(self) -> Fields:
        """Trees of plain values and arrays by name."""
        if self.file is None or not what_is(self.file):
            return {}
        try:
            tree: Any = load_tree(self.file)
            if tree["text"] != self.text:
                return {}
            check_finite(tree)
            return dict(tree["found"])
        except (KeyError, TypeError, ValueError) as error:
            said = " ".join(str(error).removeprefix(f"{self.file}: ").split())[:120]
            raise BadInput(f"{self.file}: cannot be read ({said}); delete it to start again") from None

    def once(self, name: str, find: Callable[[], Any]) -> Any:
        """The finding of a name: the kept one, or the tree that `find` returns."""
        if name not in self._found:
            self._found[name] = find()
            began_s = time.perf_counter()
            if self.file is not None and began_s - self._saved_s >= self._every_s:
                save_tree(self.file, {"text": self.text, "found": self._found})
                self._saved_s = time.perf_counter()
                self._every_s = max(SAVE_EVERY_S, _SHARE * (self._saved_s - began_s))
        return self._found[name]

    def _each(self, purpose: str, what: str) -> Iterator[int]:
        """Worlds of a purpose; each is reported once it is done with."""
        of = self.numbers[purpose]
        for i, world in enumerate(worlds(self.study, purpose, of), 1):
            yield world
            self.watch(Event("world", i, of, i == of, {"label": what}))

    @cached_property
    def rules(self) -> list[Tuned]:
        """All rules, tuned."""
        rng = Streams(self.study.seed).at("rules")
        n = self.task.tune_evaluations
        return [self._tuned(law.name, law, lambda law: tuned(law, self._tuned_on, n, rng)) for law in LAWS]

    @cached_property
    def random(self) -> Tuned:
        """Random search over the parameters of the widest rule, with as many evaluations as each rule had."""
        law = max(LAWS, key=lambda law: len(law.start))
        n = self.rules[0].evaluations
        rng = Streams(self.study.seed).at("rules")
        return self._tuned(RANDOM, law, lambda law: best_of_random(law, self._tuned_on, n, rng))

    def _tuned(self, name: str, law: Law, tune: Callable[[Law], Tuned]) -> Tuned:
        """A rule, tuned once."""

        def find() -> list[Any]:
            of = tune(law)
            return [of.parameters, of.cost, of.evaluations]

        return Tuned(law, *self.once(f"rules/{name}", find))

    @property
    def rule(self) -> Tuned:
        """The best of them, where they were tuned."""
        return min(self.rules, key=lambda rule: rule.cost)

    @property
    def _first(self) -> Tuned:
        return next(rule for rule in self.rules if rule.law.name == FIRST)

    @cached_property
    def _tuned_on(self) -> Known:
        """Rounds to tune on, played with the first rule as it is before any tuning."""
        return self._known(TUNED, untuned(FIRST))

    @cached_property
    def trained_on(self) -> Known:
        """Rounds to train on."""
        return self._known(TRAINED, self._first)

    @cached_property
    def chosen_on(self) -> Known:
        """Rounds by which the best policy is chosen."""
        return self._known(CHOSEN, self._first)

    def _known(self, purpose: str, rule: Tuned) -> Known:
        """Worlds played with a rule."""
        rounds = list[Rounds]()
        looks = list[Look]()
        most_w = float(w_from_dbm(self.study.world.ues.max_power_dbm))
        for world in self._each(purpose, _RECORDED[purpose]):
            find = partial(self._recorded, rule, world)
            of_radio, seen = self.once(f"{purpose}/{world}", find)
            look = from_tree_as(seen, Look)
            rounds.append(from_tree_as(of_radio, Rounds))
            looks.append(replace(look, air=self.air, limits=self.task.limits, max_power_w=most_w))
        return Known(Rounds.stack(rounds), Look.stack(looks), self.air, self.task.reward)

    def _recorded(self, rule: Tuned, world: int) -> Any:

        return to_tree(recorded(self.env, rule.power_w, world))

    @cached_property
    def held_out(self) -> list[Evaluation]:
        """All rules, the one-step optimiser and the oracle, live in worlds that no policy was made from."""
        judged = {rule.law.name: rule for rule in self.rules} | {RANDOM: self.random}
        rows = list[Evaluation]()
        for world in self._each(HELD_OUT, "judged live under all rules"):
            rows += [self._judged(n, played(r.power_w), world, r.evaluations) for n, r in judged.items()]
            rows.append(self._planned(world))
        return rows + self._oracle()

    def _planned(self, world: int) -> Evaluation:
        """The one-step optimiser in a world; its evaluations are those of this world."""

        def find() -> Fields:
            act = OneStep(self.air, self.rule, self._multipliers)
            return asdict(replace(episode(self.watched, ONE_STEP, act, world), evaluations=act.judged))

        return Evaluation(**self.once(f"planned/{world}", find))

    def _oracle(self) -> list[Evaluation]:
        """The best powers of every round, found in these worlds as recorded with the first rule, and played live."""
        known = self._known(HELD_OUT, self._first)
        best = sorted(self.rules, key=lambda rule: rule.cost)[:_STARTS]

        def find() -> list[Any]:
            found = best_powers(known.at(self._multipliers), [rule.dbw(known.look) for rule in best])
            return [found.power_w, found.judged // self.numbers[HELD_OUT]]

        power_w, judged = self.once("oracle", find)
        parts = (np.split(values, np.flatnonzero(known.look.first)[1:]) for values in (power_w, known.look.progress))
        of_world = zip(*parts, strict=True)
        each = self._each(HELD_OUT, "judged live under the oracle")
        return [self._judged(ORACLE, planned(*next(of_world)), world, judged) for world in each]

    @cached_property
    def _multipliers(self) -> FloatArray:
        """Prices of the reward's bounds for the oracle, found where rules are tuned; none without bounds."""
        if not self.task.reward.bounds():
            return np.zeros(0)
        known = self._tuned_on
        rng = Streams(self.study.seed).at("oracle")
        found: FloatArray = self.once(
            "multipliers", lambda: best_multipliers(known, self.rule.dbw(known.look), rng)
        )  # fmt: skip
        return found

    def evaluated(self, act: Act, evaluations: int, seed: int) -> list[Evaluation]:
        """An agent of a training's seed beside the others, in the same worlds."""
        rows = list(self.held_out)
        for world in self._each(HELD_OUT, "judged live under the agent"):
            rows.append(self._judged(self.name, act, world, evaluations, f"seed {seed}"))
        return rows

    def _judged(self, name: str, act: Act, world: int, evaluations: int, of: str = "rules") -> Evaluation:
        """An episode under a policy, judged once. of : tells policies of one name apart."""
        find = lambda: asdict(episode(self.watched, name, act, world, evaluations))  # noqa: E731
        return Evaluation(**self.once(f"judged/{of}/{name}/{world}", find))

    def shown(self, act: Act, rows: list[Evaluation]) -> PlayedEpisode:
        """An episode of that comparison."""
        rules = {rule.law.name: played(rule.power_w) for rule in self.rules}
        return episode_of(self.watched, self.study, (self.name, act), rules, rows)
