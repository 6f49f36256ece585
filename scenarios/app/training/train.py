"""Training of a power agent on a scenario, and its comparison with baselines; one folder a seed."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netsim import __version__
from netsim.checkpoint import save_tree
from netsim.errors import BadInput
from netsim.fit import refuse_broken
from netsim.record import write_json
from netsim.rng import Rng, Streams
from netsim.safe import what_is
from netsim.units import FloatArray
from rl.env import OnlinePower
from rl.policy import (
    Card,
    Layers,
    Policy,
    SharedCard,
    SharedPolicy,
    forward,
    hidden_of,
    layers_of,
    save_policy,
    save_shared,
)
from rl.problem import Problem, Seen, references
from rl.recording import costs_of
from rl.reward import Weighted
from rl.rules import Known
from rl.settings import AGENT, VISITED, Allocation, DdpgAgent, Online, Train, Weights
from rl.train import Course, CurvePoint, restored, take_steps
from rl.ue import UeRounds
from scenarios.app.results.folder import (
    CHECKPOINT,
    CURVE,
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
from scenarios.app.study.study import Study
from scenarios.app.training.environments import (
    Stages,
    check_moves,
    fitting,
    n_ues,
    problems,
    task_of,
    unrecorded,
)
from scenarios.app.training.evaluate import (
    COLUMNS,
    Act,
    Evaluation,
    RecordedGround,
    decisions_ms,
    played,
    steady,
    summary_of,
    write_rows,
)

if TYPE_CHECKING:
    from rl.agents import DdpgTraining


class UeTrainer:
    """DDPG of one actor for every UE, on rounds that are recorded before, or played while it
    learns.
    """

    def __init__(self, ground: RecordedGround, how: Train) -> None:
        self.ground = ground
        self.steps = how.steps
        self.agent = agent_of(how)

    def begin(self, seed: int) -> DdpgTraining:
        from rl.agents import UeTraining

        ground = self.ground
        agent = self.agent
        first = ground.one_world(0, ground.rule.power_w) if agent.live else ground.trained_on
        rounds = UeRounds(first, ground.rule, agent.passes, agent.probes)
        self.scale = rounds.scale
        if not agent.live:
            return UeTraining(rounds, agent, self.steps, seed)

        def grow(weights: Weights, i: int) -> Known:
            return ground.one_world(i, self.policy(weights).power_w)

        return UeTraining(rounds, agent, self.steps, seed, grow, ground.task.train_worlds)

    def policy(self, weights: Weights) -> SharedPolicy:
        """The policy of these weights of an actor."""
        probes = self.ground.task.reward if self.agent.probes else None
        return SharedPolicy(
            layers_of(weights), self.ground.rule, *self.scale, self.agent.passes, probes
        )

    def act(self, weights: Weights) -> Act:
        return played(self.policy(weights).power_w)

    def score(self, weights: Weights) -> float:
        return self.ground.chosen_on.score(self.policy(weights).power_w)

    def evaluated(self, course: Course, evaluations: int, seed: int) -> list[Evaluation]:
        return self.ground.evaluated(self.act(course.weights), evaluations)

    def save(self, course: Course, seed: int, folder: Path) -> None:
        policy = self.policy(course.weights)
        save_shared(policy, shared_card(self.ground.study, policy, seed, course.steps), folder)


def agent_of(how: Train) -> DdpgAgent:
    """The agent of a training that this program can play."""
    if not isinstance(how.agent, DdpgAgent):
        raise BadInput(
            f"train.agent: {how.agent.kind_name()!r} has no training here; take kind: ddpg"
        )
    return how.agent


def shared_card(study: Study, policy: SharedPolicy, seed: int = 0, steps: int = 0) -> SharedCard:
    """The description of a policy for every UE of a study."""
    rule = policy.rule
    return SharedCard(
        limits=task_of(study, Online).limits,
        rule=rule.law.name,
        parameters=tuple(rule.parameters.tolist()),
        passes=policy.passes,
        cut=policy.cut,
        probes=policy.probes if isinstance(policy.probes, Weighted) else None,
        **_origin(study, policy.layers, seed, steps),
    )


def _origin(study: Study, layers: Layers, seed: int, steps: int) -> Fields:
    """What cards say of where a policy comes from."""
    hidden = hidden_of(layers)
    return {
        "program": __version__,
        "scenario": study.title,
        "seed": seed,
        "steps": steps,
        "hidden": hidden,
    }


def check_playable(study: Study, task: Online) -> None:
    """Raise BadInput where rounds of a study cannot be recorded, its agent asks for what its reward
    has not, or as `check_admitted`.
    """
    if reason := unrecorded(study):
        raise BadInput(
            f"{reason}; change that, or train an agent of your own in netsim/OnlinePower-v0"
        )
    agent_of(study.train or Train())
    refuse_broken(study, "agent for every UE")
    check_admitted(study, task)


def check_admitted(study: Study, task: Online) -> None:
    """Raise BadInput where a privacy budget admits no round of the study's own world, at the
    highest powers.
    """
    if study.learned.privacy_budget is not None:
        env = OnlinePower(Stages(study), n_ues(study), task)
        next(
            costs_of(
                env, steady(np.full(env.n_ue, task.limits.each_max_w), task.limits), study.seed
            )
        )


class AllocationTrainer:
    """DDPG on the bound of a whole training."""

    def __init__(self, study: Study, how: Train, cache: Path | None) -> None:
        self.study = study
        self.how = how
        self.sets = problems(study, cache)

    def begin(self, seed: int) -> DdpgTraining:
        from rl.agents import allocation_training

        return allocation_training(self.sets.trained_on, agent_of(self.how), self.how.steps, seed)[
            0
        ]

    def save(self, course: Course, seed: int, folder: Path) -> None:
        save_policy(
            policy_of(self.study, layers_of(course.weights), self.sets.own, seed, course.steps),
            folder,
        )

    def score(self, weights: Weights) -> float:
        act = partial(forward, layers_of(weights))
        return float(np.mean([p.ratio(p.rollout(act)[-1]) for p in self.sets.chosen_on]))

    def evaluated(self, course: Course, evaluations: int, seed: int) -> list[Evaluation]:
        held = self.sets.held_out
        act = partial(forward, layers_of(course.weights))
        rows = beside_references(held, act, evaluations, Streams(seed).at("references"))
        if len(held) == 1:
            rows.append(
                Evaluation(
                    VISITED, 0, np.exp(-course.best_reward / 5.0), -1, evaluations=evaluations
                )
            )
        return rows


Trainer = UeTrainer | AllocationTrainer
"""begin: a training before its first step; score: the figure of a policy by which the best one is
kept, small is good; save: write it; evaluated: it beside others, in cases that it was not made
from"""


def beside_references(
    held: Sequence[Problem],
    act: Callable[[Seen], FloatArray],
    evaluations: int,
    rng: Rng,
    name: str = AGENT,
) -> list[Evaluation]:
    """A policy for a whole training beside the rules and optimisers, on each of these problems."""
    rows = []
    for i, problem in enumerate(held):
        last = problem.rollout(act)[-1]
        plans = references(problem, evaluations, rng, thorough=len(held) == 1)
        each = [*plans.items(), (name, replace(last, evaluations=evaluations))]
        rows += [
            Evaluation(n, i, problem.ratio(p), p.switch, evaluations=p.evaluations) for n, p in each
        ]
    return rows


def policy_of(study: Study, layers: Layers, own: Problem, seed: int = 0, steps: int = 0) -> Policy:
    """A policy for a whole training. own : the problem of the study's own channel."""
    task = task_of(study, Allocation)
    card = Card(
        task="allocation",
        ues=n_ues(study),
        bound=task.bound,
        observe=task.observe,
        limits=own.limits,
        criterion=task.criterion,
        **_origin(study, layers, seed, steps),
    )
    return Policy(card, layers, own.objective.trajectory)


def trains_online(study: Study) -> bool:
    """Whether powers are of rounds."""
    return isinstance((study.train or Train()).task, Online)


def play(job: Job, watch: Watch = ignore) -> Fields:
    """One training, from its environment to its page's figures; returns its summary."""
    study = job.study
    watch = job.options.get("watch", watch)
    how = job.options.get("how", USUAL)
    on: RecordedGround | None = job.options.get("ground")
    if on is None and trains_online(study):
        on = RecordedGround(study, watch)
    with how.within(), job.hold(), one_thread():
        for name in (SUMMARY, ERROR):
            (job.folder / name).unlink(missing_ok=True)
        found = _play(job, study, on, watch)
        job.settle()
    return found


def _play(job: Job, study: Study, on: RecordedGround | None, watch: Watch) -> Fields:
    began = time.perf_counter()
    folder = job.folder
    how = study.train or Train()
    manifest: Fields = {
        "kind": KIND,
        "title": study.title,
        "paper": study.paper,
        "task": how.task.kind_name(),
        "seed": job.seed,
        "agent": how.agent.kind,
        "steps": how.steps,
        "program": __version__,
        "study": job.key,
        "learning_starts": how.agent.learning_starts if isinstance(how.agent, DdpgAgent) else 0,
        "python": platform.python_version(),
        "finished": False,
    }
    write_json(folder / TRAINING, manifest)
    trainer = (
        AllocationTrainer(study, how, job.options.get("cache"))
        if on is None
        else UeTrainer(on, how)
    )
    resumes = what_is(folder / CHECKPOINT)
    training = trainer.begin(job.seed)
    course = job.resume(partial(restored, training))
    if course is None and resumes:  # what was restored of it is forgotten
        training = trainer.begin(job.seed)

    def tell(point: CurvePoint, last: bool) -> None:
        watch(
            Event(
                "step",
                point.step,
                how.steps,
                last,
                {"seed": job.seed, "cost": point.score},
                f"seed {job.seed}",
            )
        )

    def save(tree: Fields) -> None:
        save_tree(folder / CHECKPOINT, job.checkpoint(**tree))

    course = take_steps(training, trainer.score, how.eval_every, course or Course(), tell, save)
    trainer.save(course, job.seed, folder)
    trained_s = time.perf_counter() - began
    rows = trainer.evaluated(course, training.evaluations, job.seed)
    write_rows(folder / CURVE, [asdict(point) for point in course.curve])
    write_rows(
        folder / EVALUATIONS, [{name: getattr(row, name) for name in COLUMNS} for row in rows]
    )
    found = {"steps.best": course.steps, "cost.best": course.score} | summary_of(
        how.agent.kind, rows
    )
    write_json(folder / SUMMARY, found)
    wall_s = time.perf_counter() - began
    timing = {
        "trained_s": trained_s,
        "wall_s": wall_s,
        "peak_memory_gb": peak_gb(),
        "decision_ms": decisions_ms(rows),
    }
    write_json(folder / TRAINING, {**manifest, "finished": True, "timing": timing})
    return read_json(folder / SUMMARY)


FILES = (
    STUDY,
    SUMMARY,
    TRAINING,
    CURVE,
    EVALUATIONS,
    CHECKPOINT,
    PAGE,
    ERROR,
    "policy.json",
    "policy.safetensors",
)
TRAINED = JobKind("training", FILES, TRAINING, play)


def jobs_of(
    study: Study, seeds: Sequence[int], out: Path, replace: bool = False, **options: object
) -> list[Job]:
    """The trainings of a study: one seed into `out`, several into `out/seed-N`. Refuses what cannot
    be trained, or not there; nothing is written. options : of `play`.
    """
    how = study.train or Train()
    plain = study.model_copy(update={"vary": None, "train": how})
    inputs = input_digests(plain)
    jobs = []
    for seed in seeds:
        folder = out if len(seeds) == 1 else out / f"seed-{seed}"
        notes = [f"seed of the training: {seed}"]
        jobs.append(
            Job(TRAINED, plain, seed, inputs, folder, f"seed {seed}", replace, notes, options)
        )
    own = {job.folder for job in jobs}
    others = sorted(
        path.parent.name for path in out.glob(f"seed-*/{TRAINING}") if path.parent not in own
    )
    if others and not what_is(out / TRAINING):
        names = ", ".join(others[:9])
        raise BadInput(
            f"{out}: holds trainings of other seeds ({names}); name them too, or give "
            f"--out another folder"
        )
    for job in jobs:
        job.admit()
    if len(seeds) > 1:
        no_links(out, [job.folder.name for job in jobs])
    if isinstance(how.task, Online):
        check_playable(plain, fitting(plain, how.task))
        check_moves(plain, how.task)
    return jobs


def train(
    study: Study,
    seeds: Sequence[int],
    out: Path,
    watch: Watch = ignore,
    cache: Path | None = None,
    replace: bool = False,
    engine: Engine = ON_PROCESSES,
    at_once: int = 1,
    how: How = USUAL,
) -> list[Fields]:
    """Train once for each seed; one seed into `out`, several into `out/seed-N`. Returns the
    summaries.

    A finished training of the same study is not made again, an unfinished one goes on where it was.
    The training of another study is refused, unless `replace`. Of several, one that fails stays
    open and is listed in failures.csv; all others are made. Of a single one the error is raised.
    at_once : trainings at a time; one after another in this process they share the rounds that they
    record. how : of the memory of each.
    """
    options: Fields = {"cache": cache, "how": how}
    jobs = jobs_of(study, seeds, out, replace, **options)
    if len(jobs) == 1:
        return [do(jobs[0], watch)]
    if any(job.done() is None for job in jobs):
        engine.check()
    if at_once == 1 and isinstance(engine, OnProcesses):
        shared: Fields = {"watch": watch}
        if trains_online(study):
            shared["ground"] = RecordedGround(jobs[0].study, watch)
        jobs = [job.played(**shared) for job in jobs]
    return [one for one in do_all(jobs, engine, at_once, out, watch) if not isinstance(one, Failed)]
