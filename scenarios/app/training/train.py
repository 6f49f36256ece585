"""Training of a power agent on a scenario, and its comparison with baselines; one folder a seed."""

from __future__ import annotations

import platform
import time
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
from rl.env import OnlinePower, PowerAllocation
from rl.policy import Card, Layers, Policy, SharedCard, SharedPolicy, forward, layers_of, save_policy, save_shared
from rl.problem import Outcome, Problem, Seen, references
from rl.recording import steps_of
from rl.settings import AGENT, VISITED, Allocation, DdpgAgent, Online, Train
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
from scenarios.app.training.environments import Stages, fitting, n_ues, problems, task_of, unrecorded
from scenarios.app.training.evaluate import (
    COLUMNS,
    HELD_OUT,
    Act,
    Evaluation,
    PlayedEpisode,
    RecordedGround,
    baselines,
    decisions_ms,
    episode,
    episode_of,
    played,
    summary_of,
    worlds,
    write_episode,
    write_rows,
)

if TYPE_CHECKING:
    from stable_baselines3.common.logger import Logger


def on_recorded(study: Study) -> bool:
    """Whether rounds are recorded: to train on, and to tune the rules that an agent is compared with."""
    return isinstance((study.train or Train()).task, Online) and unrecorded(study) is None


def trainer_of(study: Study, on: RecordedGround | None, cache: Path | None) -> Trainer:
    """The trainer of a study. on : its recorded rounds; cache : of reference runs."""
    how = study.train or Train()
    if not isinstance(how.task, Online):
        return AllocationTrainer(study, how, cache)
    if on is None:
        raise NotImplementedError("a training in live rounds alone")
    return RecordedTrainer(on)


class RecordedTrainer:
    """Trains policies that all UEs share, on recorded rounds."""

    def __init__(self, judge: RecordedGround) -> None:
        self.judge = judge

    def begin(self, seed: int, board: Logger) -> Training:
        raise NotImplementedError("a training on recorded rounds")

    def policy(self, weights: Weights) -> SharedPolicy:
        """The policy of these weights of an actor."""
        return SharedPolicy(layers_of(weights), self.judge.rule, *self.judge.scale)

    def score(self, weights: Weights) -> float:
        return self.judge.chosen_on.score(self.policy(weights).power_w)

    def evaluated(self, course: Course, evaluations: int, seed: int) -> list[Evaluation]:
        return self.judge.evaluated(played(self.policy(course.weights).power_w), evaluations)

    def shown(self, course: Course, rows: list[Evaluation]) -> PlayedEpisode:
        return self.judge.shown(played(self.policy(course.weights).power_w), rows)

    def save(self, course: Course, seed: int, folder: Path) -> None:
        policy = self.policy(course.weights)
        card = SharedCard(
            program=__version__, limits=self.judge.task.limits, rule=policy.rule.law.name,
            hidden=tuple(len(bias) for _, bias in policy.layers[:-1]),
            parameters=tuple(policy.rule.parameters.tolist()), scenario=self.judge.study.title, seed=seed,
            steps=course.steps,
        )  # fmt: skip
        save_shared(policy, card, folder)


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
    """Raise BadInput where a privacy budget admits no round of the study's own world, at the highest powers."""
    if study.learned.privacy_budget is not None:
        judge = BaselineJudge(study, task)
        next(steps_of(judge.env, judge.rules["full"], study.seed))


class AllocationTrainer:
    """DDPG on the bound of a whole training."""

    def __init__(self, study: Study, how: Train, cache: Path | None) -> None:
        self.study, self.how = study, how
        self.sets = problems(study, cache)

    def begin(self, seed: int, board: Logger) -> Training:
        from rl.agents import DdpgTraining

        if not isinstance(self.how.agent, DdpgAgent):
            raise TypeError("another agent")
        return DdpgTraining(PowerAllocation(self.sets.trained_on), self.how.agent, self.how.steps, seed, board)

    def save(self, course: Course, seed: int, folder: Path) -> None:
        save_policy(policy_of(self.study, layers_of(course.weights), self.sets.own, seed, course.steps), folder)

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


Trainer = RecordedTrainer | AllocationTrainer
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


def policy_of(study: Study, layers: Layers, own: Problem, seed: int = 0, steps: int = 0) -> Policy:
    """A policy for a whole training. own : the problem of the study's own channel."""
    task = task_of(study, Allocation)
    card = Card(
        program=__version__, task="allocation", ues=n_ues(study), bound=task.bound, seed=seed,
        hidden=tuple(len(bias) for _, bias in layers[:-1]), scenario=study.title, steps=steps,
        observe=task.observe, acts=task.acts, limits=own.limits, criterion=task.criterion,
    )  # fmt: skip
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
    write_rows(folder / CURVE, [asdict(point) for point in course.curve])
    write_rows(folder / EVALUATIONS, [{name: getattr(row, name) for name in COLUMNS} for row in rows])
    if (shown := trainer.shown(course, rows)) is not None:
        write_episode(folder, shown)
    found = {"steps.best": course.steps, "cost.best": course.score} | summary_of(how.agent.kind, rows)
    write_json(folder / SUMMARY, found)
    wall_s = time.perf_counter() - began
    timing = {
        "trained_s": trained_s, "wall_s": wall_s, "peak_memory_gb": peak_gb(), "decision_ms": decisions_ms(rows),
    }  # fmt: skip
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
