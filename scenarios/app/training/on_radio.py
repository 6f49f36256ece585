"""Recorded rounds: worlds are played once, rules are tuned there, shared policies are trained, and all judged live."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fl.defenses.budgeted import Budgeted
from fl.defenses.noise_switch import NoiseSwitch
from fl.server.synchronous import Synchronous
from netsim import __version__
from netsim.checkpoint import save_tree
from netsim.errors import BadInput
from netsim.radio.noma import Noma
from netsim.rng import Streams
from netsim.units import FloatArray
from rl.agents import CriticAgent, RecordedAgent, ScoreFunctionAgent
from rl.resumed import SAVE_EVERY_S, resumed
from rl.settings import ONE_STEP, ORACLE, RANDOM, Online, Train
from scenarios.app.study.dump import study_yaml
from scenarios.app.study.study import Study
from scenarios.app.training.environments import Stages, n_ues
from scenarios.app.training.episode import Episode, episode_of
from scenarios.app.training.evaluate import Act, Evaluation, episode, worlds
from scenarios.app.training.kept_worlds import KeptWorlds
from scenarios.app.training.one_step import OneStep

if TYPE_CHECKING:
    from stable_baselines3.common.logger import Logger

    from rl.env_online import OnlinePower
    from rl.lagrangian import Prices
    from rl.look import Look
    from rl.rules import Known, Law, Tuned
    from rl.shared_policy import SharedPolicy, Weights
    from rl.train import CurvePoint

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


class Training(Protocol):
    """A training on recorded rounds that has begun: takes steps, and can be written down after each."""

    steps: int
    done: int

    @property
    def prices(self) -> Prices: ...

    @property
    def evaluations(self) -> int: ...

    def policy(self) -> SharedPolicy: ...

    def figures(self) -> dict[str, float]: ...

    def step(self) -> None: ...

    def memory(self) -> dict[str, Any]: ...

    def resume(self, memory: dict[str, Any]) -> None: ...


@dataclass
class Best:
    """The curve of a training, and its best policy: weights, cost, after how many steps."""

    curve: list[CurvePoint] = field(default_factory=list)
    weights: Weights = field(default_factory=dict)
    score: float = np.inf
    steps: int = 0


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
        return KeptWorlds(self.file, f"{__version__}\n{study_yaml(self.study)}")

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
        for i, world in enumerate(worlds(self.study, purpose, of), 1):
            find = partial(self._recorded, rule, world)
            read = partial(recording_of, limits=self.task.limits)
            played, seen = self._kept.once(f"{purpose}/{world}", find, read)
            rounds.append(played)
            looks.append(seen)
            self.tell(Recorded(i, of, _RECORDED[purpose]))
        return Known(Rounds.stack(rounds), Look.stack(looks), self.air, self.task.reward)

    def _recorded(self, rule: Tuned, world: int) -> dict[str, Any]:
        from rl.recording import recorded, recording_tree

        return recording_tree(*recorded(self.env, rule.power_w, world))


def score(policy: SharedPolicy, known: Known) -> float:
    """Mean over worlds of the cost of an episode, on recorded rounds, after how well bounds on means are kept."""
    from rl.lagrangian import penalty

    figures = known.figures(policy.power_w(known.look))
    return float(known.reward.cost(figures).sum() / known.look.worlds) + penalty(known.reward, figures)


def begun(on: Ground, how: Train, seed: int, told: Logger | None = None) -> Training:
    """A training on recorded rounds, before its first step. told : gets losses."""
    from rl.actor_critic import ActorCriticTraining
    from rl.score_function import ScoreFunctionTraining

    if isinstance(how.agent, ScoreFunctionAgent):
        return ScoreFunctionTraining(on.trained_on, on.rule, how.agent, how.steps, seed)
    if isinstance(how.agent, CriticAgent):
        return ActorCriticTraining(on.trained_on, on.rule, how.agent, how.steps, seed, told)
    raise TypeError("another agent")


def learn(
    training: Training, chosen_on: Known, every: int, checkpoint: Path, text: str,
    tell: Callable[[CurvePoint, bool], None], told: Logger | None = None,
) -> Best:  # fmt: skip
    """Take all steps, or those that are left. text says what is trained: a checkpoint of another text is not gone on
    with. told : gets figures at every evaluation.
    """
    from rl import board
    from rl.train import CurvePoint

    best = resumed(checkpoint, text, partial(_restored, training)) or Best()
    saved = time.perf_counter()

    def look() -> None:
        policy = training.policy()
        cost, last = score(policy, chosen_on), training.done == training.steps
        if cost < best.score:
            best.weights, best.score, best.steps = policy.weights, cost, training.done
        multipliers = tuple(training.prices.multipliers.tolist())
        best.curve.append(CurvePoint(training.done, cost, np.nan, -best.score, multipliers))
        if told is not None and told.output_formats:
            board.tell(told, {"judged/cost": cost, **training.figures()}, training.done)
        tell(best.curve[-1], last)

    if not best.curve:
        look()
    while training.done < training.steps:
        training.step()
        if training.done % every == 0 or training.done == training.steps:
            look()
        if time.perf_counter() - saved >= SAVE_EVERY_S:
            save_tree(checkpoint, _tree(training, best, text))
            saved = time.perf_counter()
    return best


def _tree(training: Training, best: Best, text: str) -> dict[str, Any]:
    curve = [[p.step, p.score, p.best_reward, *p.multipliers] for p in best.curve]
    kept = {"curve": curve, "weights": best.weights, "score": best.score, "steps": best.steps}
    return {"text": text, "training": training.memory(), "best": kept}


def _restored(training: Training, tree: Any) -> Best:
    """The course so far, and the training set to where it was."""
    from rl.train import CurvePoint

    kept = tree["best"]
    curve = [
        CurvePoint(int(step), float(cost), np.nan, float(reward), tuple(map(float, multipliers)))
        for step, cost, reward, *multipliers in kept["curve"]
    ]
    found = Best(curve, {n: np.array(w) for n, w in kept["weights"].items()}, kept["score"], kept["steps"])
    training.resume(tree["training"])
    return found


def played(power_w: Callable[[Look], FloatArray]) -> Act:
    """A rule as actions of the live environment."""
    from rl.problem import as_action
    from rl.recording import look_now

    return lambda env, seen: as_action(power_w(look_now(env))[0], env.task.limits)


def planned(power_w: FloatArray, progress: FloatArray) -> Act:
    """Powers (S, K) of rounds at these shares (S,) of an episode, as actions; the least power in any other round."""
    from rl.problem import as_action

    of = dict(zip(progress.tolist(), power_w, strict=True))

    def act(env: OnlinePower, seen: Any) -> FloatArray:
        limits = env.task.limits
        least = np.full(env.n_ue, limits.each_min_w)
        return as_action(of.get(env.now.progress, least), limits)

    return act


def kept(on: Ground, best: Best, seed: int, folder: Path) -> SharedPolicy:
    """The best policy, written into a folder."""
    from rl.shared_folder import SharedCard, save_shared
    from rl.shared_policy import SharedPolicy

    policy = SharedPolicy(best.weights, on.rule)
    card = SharedCard(
        program=__version__, limits=on.task.limits, rule=on.rule.law.name,
        parameters=tuple(on.rule.parameters.tolist()), scenario=on.study.title, seed=seed, steps=best.steps,
    )  # fmt: skip
    save_shared(policy, card, folder)
    return policy


def settings(study: Study) -> tuple[Train, Online]:
    """What is trained."""
    how = study.train or Train()
    if not isinstance(how.task, Online):
        raise TypeError("another task")
    return how, how.task


def unrecorded(study: Study) -> str | None:
    """Why rounds of a study cannot be judged again at other powers; None where the radio alone decides what they cost,
    by the laws of `rl.radio_records`.
    """
    uplink, learning, (_, task) = study.world.radio.uplink, study.learned, settings(study)
    noisy = [d for d in learning.defenses if isinstance(d, Budgeted | NoiseSwitch)]
    server = learning.server
    if not isinstance(uplink, Noma) or uplink.decoding != "noisy":
        return "world.radio.uplink: recorded rounds need kind: noma with decoding: noisy"
    if study.world.radio.air is not None:
        return "world.radio.air: recorded rounds need transmissions that are planned"
    if not isinstance(server, Synchronous) or server.first is not None or server.deadline_s is not None:
        return "learning.server: recorded rounds need a server that waits for all, until the uplink's deadline"
    if len(noisy) > 1 or any(not isinstance(d, NoiseSwitch) or d.mode != "top-up" for d in noisy):
        return "learning.defenses: recorded rounds need budgets of one noise-switch with mode: top-up, or none"
    if task.reward.beyond_radio:
        return f"train.task.reward.{task.reward.beyond_radio[0]}: recorded rounds do not tell it"
    return None
