"""Training of a power agent on a scenario, and its comparison with baselines; one folder a seed."""

from __future__ import annotations

import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netsim import __version__
from netsim.checkpoint import save_tree
from netsim.errors import BadInput
from netsim.record import write_json
from netsim.rng import Rng, Streams
from netsim.safe import what_is
from netsim.units import FloatArray
from rl.env import OnlinePower, PowerAllocation, PowerEnv
from rl.policy import Card, Layers, Policy, SharedCard, SharedPolicy, forward, layers_of, save_policy, save_shared
from rl.problem import Outcome, Problem, Seen, references
from rl.recording import steps_of
from rl.settings import AGENT, VISITED, Allocation, DdpgAgent, Online, ScoreFunctionAgent, Train
from rl.train import Course, CurvePoint, Training, Weights, board_of, restored, take_steps
from scenarios.app.results.folder import (
    CHECKPOINT,
    CURVE,
    EPISODE,
    EPISODE_ROUNDS,
    EPISODE_SCENE,
    ERROR,
    EVALUATIONS,
    KIND,
    PAGE,
    STUDY,
    SUMMARY,
    TRAINING,
    Failed,
    no_links,
    read_json,
)
from scenarios.app.run.events import Event, Watch, ignore
from scenarios.app.run.executor import ON_PROCESSES, Engine, OnProcesses, do_all
from scenarios.app.run.how import USUAL, How, one_thread, peak_gb
from scenarios.app.run.job import Job, JobKind, do, input_digests
from scenarios.app.study import Fields
from scenarios.app.study.describe import build
from scenarios.app.study.study import Study, study_yaml
from scenarios.app.study.yaml_document import read_text
from scenarios.app.training.environments import ATTACKED, Stages, check_moves, fitting, n_ues, problems, unrecorded
from scenarios.app.training.evaluate import (
    CHOSEN,
    HELD_OUT,
    Act,
    Evaluation,
    PlayedEpisode,
    RecordedGround,
    baselines,
    episode,
    episode_of,
    live_score,
    played,
    summary_of,
    worlds,
    write_episode,
    write_rows,
)

if TYPE_CHECKING:
    from stable_baselines3.common.logger import Logger


def on_recorded(study: Study) -> bool:
    """Whether rounds are recorded: to train on, or to tune the rules that an agent is compared with."""
    how = study.train or Train()
    return isinstance(how.agent, ScoreFunctionAgent) or (isinstance(how.task, Online) and unrecorded(study) is None)


def trainer_of(study: Study, on: RecordedGround | None, cache: Path | None) -> Trainer:
    """The trainer of a study. on : its recorded rounds; cache : of reference runs."""
    how = study.train or Train()
    if on is not None and isinstance(how.agent, ScoreFunctionAgent):
        return RecordedTrainer(on, how.steps, how.agent)
    if isinstance(how.task, Online):
        return LiveTrainer(study, how, how.task, on)
    return AllocationTrainer(study, how, cache)


class OnlineTrainer(ABC):
    """Compares policies that act in every round of worlds."""

    judge: RecordedGround | BaselineJudge

    @abstractmethod
    def act(self, weights: Weights) -> Act:
        """A policy in live worlds."""

    def evaluated(self, course: Course, evaluations: int, seed: int) -> list[Evaluation]:
        return self.judge.evaluated(self.act(course.weights), evaluations)

    def shown(self, course: Course, rows: list[Evaluation]) -> PlayedEpisode:
        return self.judge.shown(self.act(course.weights), rows)


class RecordedTrainer(OnlineTrainer):
    """Trains policies that all UEs share, on recorded rounds."""

    def __init__(self, judge: RecordedGround, steps: int, agent: ScoreFunctionAgent) -> None:
        self.judge: RecordedGround = judge
        self.steps, self.agent = steps, agent

    def begin(self, seed: int, board: Logger) -> Training:
        from rl.agents import ScoreFunctionTraining

        return ScoreFunctionTraining(self.judge.trained_on, self.judge.rule, self.agent, self.steps, seed)

    def score(self, weights: Weights) -> float:
        return self.judge.chosen_on.score(SharedPolicy(weights, self.judge.rule).power_w)

    def act(self, weights: Weights) -> Act:
        return played(SharedPolicy(weights, self.judge.rule).power_w)

    def save(self, course: Course, seed: int, folder: Path) -> None:
        rule = self.judge.rule
        card = SharedCard(
            program=__version__, limits=self.judge.task.limits, rule=rule.law.name,
            parameters=tuple(rule.parameters.tolist()), scenario=self.judge.study.title, seed=seed, steps=course.steps,
        )  # fmt: skip
        save_shared(SharedPolicy(course.weights, rule), card, folder)


class BaselineJudge:
    """Compares an agent with untuned policies, live in worlds that no policy was made from."""

    def __init__(self, study: Study, task: Online) -> None:
        self.study, self.name = study, AGENT
        self.env = OnlinePower(Stages(study), n_ues(study), task)
        self.worlds = worlds(study, HELD_OUT, task.held_out)
        self.rules = baselines(task)

    def evaluated(self, act: Act, evaluations: int) -> list[Evaluation]:
        acts = [*self.rules.items(), (self.name, act)]
        return [episode(self.env, name, own, world) for world in self.worlds for name, own in acts]

    def shown(self, act: Act, rows: list[Evaluation]) -> PlayedEpisode:
        return episode_of(self.env, self.study, (self.name, act), self.rules, rows)


def check_admitted(study: Study, task: Online) -> None:
    """Raise BadInput where a privacy budget admits no round of the study's own world, at the highest powers, or the
    buffer of its agent does not hold an episode whose means are bounded.
    """
    bounds = task.reward.bounds()
    if study.learned.privacy_budget is None and not bounds:
        return
    judge = BaselineJudge(study, task)
    next(steps_of(judge.env, judge.rules["full"], study.seed))
    if bounds and study.train and isinstance(study.train.agent, DdpgAgent):
        from rl.agents import check_holds

        check_holds(study.train.agent.buffer_size, judge.env.rounds)


class DdpgTrainer:
    """Trains networks of DDPG. own : the problem of a policy of a whole training."""

    def __init__(self, study: Study, how: Train, env: PowerEnv, own: Problem | None = None) -> None:
        self.study, self.how, self.env, self.own = study, how, env, own

    def begin(self, seed: int, board: Logger) -> Training:
        from rl.agents import DdpgTraining

        if not isinstance(self.how.agent, DdpgAgent):
            raise TypeError("another agent")
        return DdpgTraining(self.env, self.how.agent, self.how.steps, seed, board)

    def save(self, course: Course, seed: int, folder: Path) -> None:
        save_policy(policy_of(self.study, layers_of(course.weights), self.own, seed, course.steps), folder)


class LiveTrainer(DdpgTrainer, OnlineTrainer):
    """DDPG in live worlds. on : compared with the rules that are tuned on recorded rounds, else with baselines."""

    def __init__(self, study: Study, how: Train, task: Online, on: RecordedGround | None) -> None:
        stages = Stages(study, bool(ATTACKED & {*task.reward.reads}))
        n = n_ues(study)
        super().__init__(study, how, OnlinePower(stages, n, task))
        self.other = OnlinePower(stages, n, task)
        self.judge = on or BaselineJudge(study, task)
        self.chosen_on = worlds(study, CHOSEN, task.eval_worlds)

    def act(self, weights: Weights) -> Act:
        layers = layers_of(weights)
        return lambda env, seen: forward(layers, seen.astype(np.float32))

    def score(self, weights: Weights) -> float:
        act = self.act(weights)
        rows = [episode(self.other, AGENT, act, world) for world in self.chosen_on]
        return live_score(self.other.task.reward, rows)


class AllocationTrainer(DdpgTrainer):
    """DDPG on the bound of a whole training."""

    def __init__(self, study: Study, how: Train, cache: Path | None) -> None:
        self.sets = problems(study, cache)
        super().__init__(study, how, PowerAllocation(self.sets.trained_on), self.sets.own)

    def score(self, weights: Weights) -> float:
        return float(np.mean([p.ratio(_settled(p, weights)) for p in self.sets.chosen_on]))

    def evaluated(self, course: Course, evaluations: int, seed: int) -> list[Evaluation]:
        held = self.sets.held_out
        layers = layers_of(course.weights)
        rows = beside_references(held, lambda seen: forward(layers, seen), evaluations, Streams(seed).at("references"))
        if len(held) == 1:
            rows.append(Evaluation(VISITED, 0, float(np.exp(-course.best_reward / 5.0)), -1, evaluations=evaluations))
        return rows

    def shown(self, course: Course, rows: list[Evaluation]) -> None:
        return None


Trainer = RecordedTrainer | LiveTrainer | AllocationTrainer
"""begin: a training before its first step; score: the figure of a policy by which the best one is kept, small is good;
save: write it; evaluated: it beside others, in cases that it was not made from; shown: an episode of that comparison"""


def beside_references(
    held: Sequence[Problem], act: Callable[[Seen], FloatArray], evaluations: int, rng: Rng, name: str = AGENT
) -> list[Evaluation]:
    """A policy for a whole training beside the rules and optimisers, on each of these problems."""
    rows = []
    for i, problem in enumerate(held):
        optima = references(problem, evaluations, rng, thorough=len(held) == 1)
        rows += [Evaluation(n, i, problem.ratio(p), p.switch, evaluations=p.evaluations) for n, p in optima.items()]
        last = problem.rollout(act)[-1]
        rows.append(Evaluation(name, i, problem.ratio(last), last.switch, evaluations=evaluations))
    return rows


def _settled(problem: Problem, weights: Weights) -> Outcome:
    layers = layers_of(weights)
    return problem.rollout(lambda seen: forward(layers, seen))[-1]


def policy_of(study: Study, layers: Layers, own: Problem | None, seed: int = 0, steps: int = 0) -> Policy:
    """A policy for the task of a study. own : the problem of its own channel, for a policy of a whole training."""
    task = (study.train or Train()).task
    common: Fields = {
        "program": __version__, "task": task.kind_name(), "ues": n_ues(study), "bound": task.bound, "seed": seed,
        "hidden": tuple(len(bias) for _, bias in layers[:-1]), "scenario": study.title, "steps": steps,
    }  # fmt: skip
    if own is None or not isinstance(task, Allocation):
        return Policy(Card(observe="online", limits=task.limits, **common), layers)
    card = Card(observe=task.observe, acts=task.acts, limits=own.limits, criterion=task.criterion, **common)
    return Policy(card, layers, own.objective.trajectory)


def play(job: Job, watch: Watch = ignore) -> Fields:
    """One training, from its environment to its page's figures; returns its summary."""
    study = build(Study, read_text(job.spec, str(job.folder / STUDY)))
    watch = job.options.get("watch", watch)
    how = job.options.get("how", USUAL)
    on: RecordedGround | None = job.options.get("ground")
    if on is None and on_recorded(study):
        on = RecordedGround(study, watch)
    with how.within(), job.hold(), one_thread():
        for name in (SUMMARY, ERROR, *_EPISODE):
            (job.folder / name).unlink(missing_ok=True)
        found = _play(job, study, on, watch)
        job.settle()
    return found


def _play(job: Job, study: Study, on: RecordedGround | None, watch: Watch) -> Fields:
    began = time.perf_counter()
    folder = job.folder
    how = study.train or Train()
    manifest = _manifest(job, study, how)
    write_json(folder / TRAINING, manifest)
    trainer = trainer_of(study, on, job.options.get("cache"))
    resumes = bool(what_is(folder / CHECKPOINT))
    board = board_of(job.options.get("board"), job.seed, fresh=not resumes)
    training = trainer.begin(job.seed, board)
    course = job.resume(partial(restored, training))
    if course is None and resumes:  # what was restored of it is forgotten
        training = trainer.begin(job.seed, board)

    def tell(point: CurvePoint, last: bool) -> None:
        watch(Event("step", point.step, how.steps, last, {"seed": job.seed, "cost": point.score}, f"seed {job.seed}"))

    def save(tree: Fields) -> None:
        save_tree(folder / CHECKPOINT, job.checkpoint(**tree))

    course = take_steps(training, trainer.score, how.eval_every, course or Course(), tell, save, board)
    board.close()
    trainer.save(course, job.seed, folder)
    trained_s = time.perf_counter() - began
    rows = trainer.evaluated(course, training.evaluations, job.seed)
    bounds = how.task.reward.bounds() if isinstance(how.task, Online) else {}
    curve = [asdict(point) for point in course.curve]
    for row in curve:  # one column for the multiplier of each bound
        multipliers = row.pop("multipliers") or (0.0,) * len(bounds)
        row |= {f"multiplier.{name}": x for name, x in zip(bounds, multipliers, strict=True)}
    write_rows(folder / CURVE, curve)
    write_rows(folder / EVALUATIONS, [asdict(row) for row in rows])
    if (shown := trainer.shown(course, rows)) is not None:
        write_episode(folder, shown)
    found = {"steps.best": course.steps, "cost.best": course.score} | summary_of(how.agent.kind, rows, bounds)
    write_json(folder / SUMMARY, found)
    timing = {"trained_s": trained_s, "wall_s": time.perf_counter() - began, "peak_memory_gb": peak_gb()}
    write_json(folder / TRAINING, {**manifest, "finished": True, "timing": timing})
    return read_json(folder / SUMMARY)


_EPISODE = (EPISODE, EPISODE_ROUNDS, EPISODE_SCENE)
FILES = (
    STUDY, SUMMARY, TRAINING, CURVE, EVALUATIONS, CHECKPOINT, PAGE, ERROR, "policy.json", "policy.safetensors",
    *_EPISODE,
)  # fmt: skip
TRAINED = JobKind("training", FILES, TRAINING, play)


def _manifest(job: Job, study: Study, how: Train) -> Fields:
    return {
        "kind": KIND, "title": study.title, "paper": study.paper, "task": how.task.kind_name(), "seed": job.seed,
        "agent": how.agent.kind, "residual": isinstance(how.task, Allocation) and how.task.acts == "residual",
        "steps": how.steps, "program": __version__, "study": job.key,
        "learning_starts": how.agent.learning_starts if isinstance(how.agent, DdpgAgent) else 0,
        "python": platform.python_version(), "finished": False,
    }  # fmt: skip


def jobs_of(study: Study, seeds: Sequence[int], out: Path, replace: bool = False, **options: object) -> list[Job]:
    """The trainings of a study: one seed into `out`, several into `out/seed-N`. Refuses what cannot be trained, or not
    there; nothing is written. options : of `play`.
    """
    how = study.train or Train()
    plain = study.model_copy(update={"vary": None, "train": how})
    spec = study_yaml(plain)
    inputs = input_digests(plain)
    jobs = []
    for seed in seeds:
        folder = out if len(seeds) == 1 else out / f"seed-{seed}"
        notes = [f"seed of the training: {seed}"]
        jobs.append(Job(TRAINED, spec, seed, inputs, folder, f"seed {seed}", replace, notes, options))
    own = {job.folder for job in jobs}
    others = sorted(path.parent.name for path in out.glob(f"seed-*/{TRAINING}") if path.parent not in own)
    if others and not what_is(out / TRAINING):
        names = ", ".join(others[:9])
        raise BadInput(f"{out}: holds trainings of other seeds ({names}); name them too, or give --out another folder")
    for job in jobs:
        job.admit()
    if len(seeds) > 1:
        no_links(out, [job.folder.name for job in jobs])
    if isinstance(how.task, Online):
        check_admitted(plain, fitting(plain, how.task))
        check_moves(plain, how.task)
    if on_recorded(plain):
        RecordedGround(plain, ignore)
    return jobs


def train(
    study: Study, seeds: Sequence[int], out: Path, watch: Watch = ignore, cache: Path | None = None,
    board: str | None = None, replace: bool = False, engine: Engine = ON_PROCESSES, at_once: int = 1, how: How = USUAL,
) -> list[Fields]:  # fmt: skip
    """Train once for each seed; one seed into `out`, several into `out/seed-N`. Returns the summaries.

    A finished training of the same study is not made again, an unfinished one goes on where it was. The training of
    another study is refused, unless `replace`. Of several, one that fails stays open and is listed in failures.csv;
    all others are made. Of a single one the error is raised. at_once : trainings at a time; one after another in this
    process they share the rounds that they record. how : of the memory of each.
    """
    options: Fields = {"cache": cache, "board": board, "how": how}
    jobs = jobs_of(study, seeds, out, replace, **options)
    if len(jobs) == 1:
        return [do(jobs[0], watch)]
    if any(job.done() is None for job in jobs):
        engine.check()
    if at_once == 1 and isinstance(engine, OnProcesses):
        shared: Fields = {"watch": watch}
        if on_recorded(study):
            shared["ground"] = RecordedGround(build(Study, read_text(jobs[0].spec, str(out))), watch)
        jobs = [job.played(**shared) for job in jobs]
    return [one for one in do_all(jobs, engine, at_once, out, watch) if not isinstance(one, Failed)]
