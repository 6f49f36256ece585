"""Recorded rounds: worlds are played once, rules are tuned there, and all is judged live."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim import __version__
from netsim.errors import BadInput
from netsim.rng import Streams
from netsim.units import FloatArray, w_from_dbm
from rl.agents import RecordedAgent
from rl.settings import ONE_STEP, ORACLE, RANDOM
from scenarios.app.run.inputs import read_lines
from scenarios.app.study.dump import study_yaml
from scenarios.app.study.study import Study
from scenarios.app.training.acts import planned, played
from scenarios.app.training.environments import Stages, n_ues
from scenarios.app.training.episode import Episode, episode_of
from scenarios.app.training.evaluate import Act, Evaluation, episode, worlds
from scenarios.app.training.kept_worlds import KeptWorlds
from scenarios.app.training.one_step import OneStep
from scenarios.app.training.recordable import settings, unrecorded

if TYPE_CHECKING:
    from rl.env_online import OnlinePower
    from rl.rules import Known, Law, Tuned

TUNED, TRAINED, CHOSEN, HELD_OUT = "tuned", "trained", "judged", "held-out"
"""What worlds are for: to tune rules, to train on, to choose the best policy by, to report."""
_STARTS = 3  # of the oracle: the best rules
FIRST = "fractional"
"""the rule that worlds are recorded with"""


@dataclass(frozen=True)
class Recorded:
    """A world that is done with: how many of how many, and what was done in it."""

    done: int
    of: int
    what: str


_RECORDED = {
    TUNED: "recorded to tune rules", TRAINED: "recorded to train on", CHOSEN: "recorded to choose the policy by",
    HELD_OUT: "recorded for the oracle",
}  # fmt: skip


class Ground:
    """What agents of a study are trained and judged on: recorded rounds, and rules tuned on worlds of their own.

    All of it is made when it is asked for, once for all seeds of a training.
    """

    def __init__(self, study: Study, tell: Callable[[Recorded], None], file: Path | None = None) -> None:
        """tell : gets every world that is done with. file : keeps what an interrupted training need not find again."""
        from rl.env_online import OnlinePower
        from rl.radio_records import air_of

        if (reason := unrecorded(study)) is not None:
            raise BadInput(f"{reason}; change that, or take train.agent: {{kind: ddpg}}")
        how, self.task = settings(study)
        self.study, self.tell, self.file, self.name = study, tell, file, how.agent.kind
        self.planned_s = list[float]()
        """seconds that the one-step optimiser took for a round, mean of each world"""
        self.air = air_of(study.world.radio.uplink, study.round_s)
        self.env = OnlinePower(Stages(study, watched=False), n_ues(study), self.task)
        self.numbers = {TUNED: self.task.tune_worlds, HELD_OUT: self.task.held_out}
        if isinstance(how.agent, RecordedAgent) and how.agent.on_recorded:
            self.numbers |= {TRAINED: how.agent.worlds, CHOSEN: self.task.eval_worlds}

    @cached_property
    def _kept(self) -> KeptWorlds:
        return KeptWorlds(self.file, f"{__version__}\n{read_lines(self.study)}{study_yaml(self.study)}")

    def forget(self) -> None:
        """Remove the file of what was kept, if it was read or written: nothing is left to find."""
        if self.file is not None and "_kept" in vars(self):
            self.file.unlink(missing_ok=True)

    @cached_property
    def rules(self) -> list[Tuned]:
        """All rules, tuned."""
        from rl.rules import LAWS, tuned

        rng, n = Streams(self.study.seed).at("rules"), self.task.tune_evaluations
        return [self._tuned(law.name, law, lambda law: tuned(law, self._tuned_on, n, rng)) for law in LAWS]

    def _tuned(self, name: str, law: Law, tune: Callable[[Law], Tuned]) -> Tuned:
        """A rule, tuned once."""
        from rl.rules import Tuned

        def find() -> list[Any]:
            of = tune(law)
            return [of.parameters, of.cost, of.evaluations]

        return self._kept.once(f"rules/{name}", find, lambda tree: Tuned(law, *tree))

    @cached_property
    def random(self) -> Tuned:
        """Random search over the parameters of the widest rule, with as many evaluations as each rule had."""
        from rl.rules import LAWS, best_of_random

        law = max(LAWS, key=lambda law: len(law.start))
        n, rng = self.rules[0].evaluations, Streams(self.study.seed).at("rules")
        return self._tuned(RANDOM, law, lambda law: best_of_random(law, self._tuned_on, n, rng))

    @cached_property
    def _tuned_on(self) -> Known:
        """Rounds to tune on, played with the first rule as it is before any tuning."""
        from rl.rules import untuned

        return self._known(TUNED, untuned(FIRST))

    @property
    def rule(self) -> Tuned:
        """The best of them, where they were tuned."""
        return min(self.rules, key=lambda rule: rule.cost)

    @cached_property
    def trained_on(self) -> Known:
        """Rounds to train on."""
        return self._known(TRAINED, self._first)

    @cached_property
    def chosen_on(self) -> Known:
        """Rounds by which the best policy is chosen."""
        return self._known(CHOSEN, self._first)

    @cached_property
    def held_out(self) -> list[Evaluation]:
        """All rules and the oracle, live in worlds that nobody has seen."""
        held = worlds(self.study, HELD_OUT, self.task.held_out)
        judged = {rule.law.name: rule for rule in self.rules} | {RANDOM: self.random}
        rows = list[Evaluation]()
        for i, world in enumerate(held, 1):
            for name, rule in judged.items():
                rows.append(self._judged(name, played(rule.power_w), world, rule.evaluations))
            rows.append(self._planned(world))
            self.tell(Recorded(i, len(held), "judged live under all rules"))
        return rows + self._oracle(held)

    def _oracle(self, held: list[int]) -> list[Evaluation]:
        """The best powers of every round, found in these worlds as recorded with the first rule, and played live."""
        from rl.oracle import best_powers

        known = self._known(HELD_OUT, self._first)
        best = sorted(self.rules, key=lambda rule: rule.cost)[:_STARTS]

        def find() -> list[Any]:
            found = best_powers(known.at(self._multipliers), [rule.dbw(known.look) for rule in best])
            return [found.power_w, found.judged // len(held)]

        power_w, judged = self._kept.once("oracle", find, tuple)
        worlds_begin = np.flatnonzero(known.look.first)[1:]
        parts = (np.split(values, worlds_begin) for values in (power_w, known.look.progress))
        rows = list[Evaluation]()
        for i, (world, power, at) in enumerate(zip(held, *parts, strict=True), 1):
            rows.append(self._judged(ORACLE, planned(power, at), world, judged))
            self.tell(Recorded(i, len(held), "judged live under the oracle"))
        return rows

    @cached_property
    def _multipliers(self) -> FloatArray:
        """Prices of the reward's bounds for the oracle, found where rules are tuned; none without bounds."""
        from rl.oracle import best_multipliers

        if not self.task.reward.bounds():
            return np.zeros(0)
        known = self._tuned_on

        def find() -> FloatArray:
            return best_multipliers(known, self.rule.dbw(known.look), Streams(self.study.seed).at("oracle"))

        return self._kept.once("multipliers", find, np.asarray)

    def evaluated(self, act: Act, evaluations: int, seed: int) -> list[Evaluation]:
        """An agent of a training's seed beside the others, in the same worlds."""
        held, rows = worlds(self.study, HELD_OUT, self.task.held_out), list(self.held_out)
        for i, world in enumerate(held, 1):
            rows.append(self._judged(self.name, act, world, evaluations, f"seed {seed}"))
            self.tell(Recorded(i, len(held), "judged live under the agent"))
        return rows

    def _judged(self, name: str, act: Act, world: int, evaluations: int, of: str = "rules") -> Evaluation:
        """An episode under a policy, judged once. of : tells policies of one name apart."""

        def find() -> dict[str, Any]:
            return asdict(episode(self._watched, name, act, world, evaluations))

        return self._kept.once(f"judged/{of}/{name}/{world}", find, lambda tree: Evaluation(**tree))

    def shown(self, act: Act, rows: list[Evaluation]) -> Episode:
        """An episode of that comparison."""
        rules = {rule.law.name: played(rule.power_w) for rule in self.rules}
        return episode_of(self._watched, self.study, (self.name, act), rules, rows)

    def _planned(self, world: int) -> Evaluation:
        """The one-step optimiser in a world; its evaluations are those of this world."""

        def find() -> list[Any]:
            act = OneStep(self.air, self.rule, self._multipliers)
            row = replace(episode(self._watched, ONE_STEP, act, world), evaluations=act.judged)
            return [asdict(row), act.spent_s / max(act.rounds, 1)]

        row, spent_s = self._kept.once(f"planned/{world}", find, lambda tree: (Evaluation(**tree[0]), float(tree[1])))
        self.planned_s.append(spent_s)
        return row

    @property
    def _first(self) -> Tuned:
        return next(rule for rule in self.rules if rule.law.name == FIRST)

    @cached_property
    def _watched(self) -> OnlinePower:
        from rl.env_online import OnlinePower

        return OnlinePower(Stages(self.study), n_ues(self.study), self.task)

    def _known(self, purpose: str, rule: Tuned) -> Known:
        """Worlds played with a rule."""
        from rl.look import Look
        from rl.radio_records import Rounds
        from rl.recording import recording_of
        from rl.rules import Known

        rounds, looks, of = list[Rounds](), list[Look](), self.numbers[purpose]
        most_w = float(w_from_dbm(self.study.world.ues.max_power_dbm))
        for i, world in enumerate(worlds(self.study, purpose, of), 1):
            find = partial(self._recorded, rule, world)
            read = partial(recording_of, limits=self.task.limits, max_power_w=most_w)
            played, seen = self._kept.once(f"{purpose}/{world}", find, read)
            rounds.append(played)
            looks.append(seen)
            self.tell(Recorded(i, of, _RECORDED[purpose]))
        return Known(Rounds.stack(rounds), Look.stack(looks), self.air, self.task.reward)

    def _recorded(self, rule: Tuned, world: int) -> dict[str, Any]:
        from rl.recording import recorded, recording_tree

        return recording_tree(*recorded(self.env, rule.power_w, world))
