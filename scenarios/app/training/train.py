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
from netsim.safe import describe_file_kind
from netsim.units import FloatArray
from rl.env import OnlinePower
from rl.policy import (
    Card,
    Layers,
    Policy,
    SharedCard,
    SharedPolicy,
    compute_action,
    list_hidden_units,
    pair_layers,
    save_policy,
    save_shared,
)
from rl.problem import Problem, Seen, plan_references
from rl.recording import play_costs
from rl.reward import Weighted
from rl.rules import KnownRounds
from rl.settings import AGENT, VISITED, Allocation, DdpgAgent, Online, Train, Weights
from rl.train import Course, CurvePoint, restore_course, take_steps
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
    read_json,
    refuse_links,
    remove_files,
)
from scenarios.app.run.events import Event, Watch, ignore_event
from scenarios.app.run.executor import ON_PROCESSES, Engine, OnProcesses, do_jobs
from scenarios.app.run.how import (
    DEFAULT_RESOURCES,
    Resources,
    measure_peak_since_limit_gb,
    use_one_thread,
)
from scenarios.app.run.job import Job, JobKind, digest_inputs, do_job
from scenarios.app.study import Fields
from scenarios.app.study.study import Study
from scenarios.app.training.environments import (
    Stages,
    build_problems,
    check_moves,
    check_online_task,
    count_ues,
    explain_unrecorded,
    get_task,
)
from scenarios.app.training.evaluate import (
    COLUMNS,
    Evaluation,
    RecordedGround,
    average_decisions_ms,
    make_rule_act,
    make_steady_act,
    summarise_evaluations,
    write_rows,
)

if TYPE_CHECKING:
    from rl.agents import DdpgTraining


class UeTrainer:
    """DDPG of one actor for every UE, on rounds that are recorded before, or played while it
    learns.
    """

    def __init__(self, ground: RecordedGround, train: Train) -> None:
        self.ground = ground
        self.steps = train.steps
        self.agent = get_agent(train)

    def begin(self, seed: int) -> DdpgTraining:
        from rl.agents import UeTraining

        ground = self.ground
        agent = self.agent
        first = ground.record_world(0, ground.rule.power_w) if agent.live else ground.trained_on
        rounds = UeRounds(first, ground.rule, agent.passes, agent.probes)
        self.scale = rounds.scale
        if not agent.live:
            return UeTraining(rounds, agent, self.steps, seed)

        def grow(weights: Weights, i: int) -> KnownRounds:
            return ground.record_world(i, self.build_policy(weights).power_w)

        return UeTraining(rounds, agent, self.steps, seed, grow, ground.task.train_worlds)

    def build_policy(self, weights: Weights) -> SharedPolicy:
        """Return the policy of these weights of an actor."""
        probes = self.ground.task.reward if self.agent.probes else None
        return SharedPolicy(
            pair_layers(weights), self.ground.rule, *self.scale, self.agent.passes, probes
        )

    def score(self, weights: Weights) -> float:
        return self.ground.chosen_on.compute_episode_cost(self.build_policy(weights).power_w)

    def evaluate(self, course: Course, evaluations: int, seed: int) -> list[Evaluation]:
        policy = self.build_policy(course.weights)
        return self.ground.evaluate(make_rule_act(policy.power_w), evaluations)

    def save(self, course: Course, seed: int, folder: Path) -> None:
        policy = self.build_policy(course.weights)
        save_shared(
            policy, build_shared_card(self.ground.study, policy, seed, course.steps), folder
        )


def get_agent(train: Train) -> DdpgAgent:
    """Return the agent of a training that this program can play."""
    if not isinstance(train.agent, DdpgAgent):
        raise BadInput(
            f"train.agent: {train.agent.kind_name()!r} has no training here; take kind: ddpg"
        )
    return train.agent


def build_shared_card(
    study: Study, policy: SharedPolicy, seed: int = 0, steps: int = 0
) -> SharedCard:
    """Return the description of a policy for every UE of a study."""
    rule = policy.rule
    return SharedCard(
        limits=get_task(study, Online).limits,
        rule=rule.law.name,
        parameters=tuple(rule.parameters.tolist()),
        passes=policy.passes,
        cut=policy.cut,
        probes=policy.probes if isinstance(policy.probes, Weighted) else None,
        **_describe_origin(study, policy.layers, seed, steps),
    )


def _describe_origin(study: Study, layers: Layers, seed: int, steps: int) -> Fields:
    """Return what cards say of where a policy comes from."""
    return {
        "program": __version__,
        "scenario": study.title,
        "seed": seed,
        "steps": steps,
        "hidden": list_hidden_units(layers),
    }


def check_playable(study: Study, task: Online) -> None:
    """Raise BadInput where rounds of a study cannot be recorded, its agent asks for what its reward
    has not, or as `check_admitted`.
    """
    if reason := explain_unrecorded(study):
        raise BadInput(
            f"{reason}; change that, or train an agent of your own in netsim/OnlinePower-v0"
        )
    get_agent(study.train or Train())
    refuse_broken(study, "agent for every UE")
    check_admitted(study, task)


def check_admitted(study: Study, task: Online) -> None:
    """Raise BadInput where a privacy budget admits no round of the study's own world, at the
    highest powers.
    """
    if study.learned.privacy_budget is not None:
        env = OnlinePower(Stages(study), count_ues(study), task)
        next(
            play_costs(
                env,
                make_steady_act(np.full(env.n_ue, task.limits.each_max_w), task.limits),
                study.seed,
            )
        )


class AllocationTrainer:
    """DDPG on the bound of a whole training."""

    def __init__(self, study: Study, train: Train, cache: Path | None) -> None:
        self.study = study
        self.how = train
        self.sets = build_problems(study, cache)

    def begin(self, seed: int) -> DdpgTraining:
        from rl.agents import build_allocation_training

        return build_allocation_training(
            self.sets.trained_on, get_agent(self.how), self.how.steps, seed
        )[0]

    def save(self, course: Course, seed: int, folder: Path) -> None:
        policy = build_allocation_policy(
            self.study, pair_layers(course.weights), self.sets.base, seed, course.steps
        )
        save_policy(
            policy,
            folder,
        )

    def score(self, weights: Weights) -> float:
        act = partial(compute_action, pair_layers(weights))
        return float(np.mean([p.ratio(p.play_episode(act)[-1]) for p in self.sets.chosen_on]))

    def evaluate(self, course: Course, evaluations: int, seed: int) -> list[Evaluation]:
        held = self.sets.held_out
        rows = evaluate_beside_references(
            held,
            partial(compute_action, pair_layers(course.weights)),
            evaluations,
            Streams(seed).derive_rng("references"),
        )
        if len(held) == 1:
            cost = np.exp(-course.best_reward / 5.0)
            rows.append(Evaluation(VISITED, 0, cost, -1, evaluations=evaluations))
        return rows


def evaluate_beside_references(
    held: Sequence[Problem],
    act: Callable[[Seen], FloatArray],
    evaluations: int,
    rng: Rng,
    name: str = AGENT,
) -> list[Evaluation]:
    """Return a policy for a whole training beside the rules and optimisers, on each of these
    problems.
    """
    rows = []
    for i, problem in enumerate(held):
        last = problem.play_episode(act)[-1]
        plans = plan_references(problem, evaluations, rng, thorough=len(held) == 1)
        plan = [*plans.items(), (name, replace(last, evaluations=evaluations))]
        rows += [
            Evaluation(n, i, problem.ratio(p), p.switch, evaluations=p.evaluations) for n, p in plan
        ]
    return rows


def build_allocation_policy(
    study: Study, layers: Layers, problem: Problem, seed: int = 0, steps: int = 0
) -> Policy:
    """Return a policy for a whole training. problem : that of the study's own channel."""
    task = get_task(study, Allocation)
    card = Card(
        task="allocation",
        ues=count_ues(study),
        bound=task.bound,
        observe=task.observe,
        limits=problem.limits,
        criterion=task.criterion,
        **_describe_origin(study, layers, seed, steps),
    )
    return Policy(card, layers, problem.objective.trajectory)


def has_online_task(study: Study) -> bool:
    """Return whether powers are of rounds."""
    return isinstance((study.train or Train()).task, Online)


def play_training(job: Job, watch: Watch = ignore_event) -> Fields:
    """Return one training, from its environment to its page's figures; returns its summary."""
    study = job.study
    watch = job.options.get("watch", watch)
    resources = job.options.get("resources", DEFAULT_RESOURCES)
    on = job.options.get("ground")
    if on is None and has_online_task(study):
        on = RecordedGround(study, watch)
    with resources.limit_memory(), job.hold(), use_one_thread():
        remove_files(job.folder, (SUMMARY, ERROR))
        summary = _train_and_evaluate(job, study, on, watch)
        job.settle()
    return summary


def _train_and_evaluate(job: Job, study: Study, on: RecordedGround | None, watch: Watch) -> Fields:
    began = time.perf_counter()
    folder = job.folder
    seed = job.seed
    train = study.train or Train()
    manifest = {
        "kind": KIND,
        "title": study.title,
        "paper": study.paper,
        "task": train.task.kind_name(),
        "seed": seed,
        "agent": train.agent.kind,
        "steps": train.steps,
        "program": __version__,
        "study": job.key,
        "learning_starts": train.agent.learning_starts if isinstance(train.agent, DdpgAgent) else 0,
        "python": platform.python_version(),
        "finished": False,
    }
    write_json(folder / TRAINING, manifest)
    trainer = (
        AllocationTrainer(study, train, job.options.get("cache"))
        if on is None
        else UeTrainer(on, train)
    )
    resumes = describe_file_kind(folder / CHECKPOINT)
    training = trainer.begin(seed)
    course = job.resume(partial(restore_course, training))
    if course is None and resumes:  # what was restored of it is forgotten
        training = trainer.begin(seed)

    def tell(point: CurvePoint, last: bool) -> None:
        watch(
            Event(
                "step",
                point.step,
                train.steps,
                last,
                {"seed": seed, "cost": point.score},
                f"seed {seed}",
            )
        )

    def save(tree: Fields) -> None:
        save_tree(folder / CHECKPOINT, job.to_checkpoint(**tree))

    course = take_steps(training, trainer.score, train.eval_every, course or Course(), tell, save)
    trainer.save(course, seed, folder)
    trained_s = time.perf_counter() - began
    rows = trainer.evaluate(course, training.evaluations, seed)
    write_rows(folder / CURVE, [*map(asdict, course.curve)])
    write_rows(
        folder / EVALUATIONS, [{name: getattr(row, name) for name in COLUMNS} for row in rows]
    )
    figures = summarise_evaluations(train.agent.kind, rows)
    write_json(
        folder / SUMMARY, ({"steps.best": course.steps, "cost.best": course.score} | figures)
    )
    timing = {
        "trained_s": trained_s,
        "wall_s": time.perf_counter() - began,
        "peak_memory_gb": measure_peak_since_limit_gb(),
        "decision_ms": average_decisions_ms(rows),
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
TRAINED = JobKind("training", FILES, TRAINING, play_training)


def build_training_jobs(
    study: Study, seeds: Sequence[int], out: Path, replace: bool = False, **options: object
) -> list[Job]:
    """Return the trainings of a study: one seed into `out`, several into `out/seed-N`. Refuses what
    cannot be trained, or not there; nothing is written. options : of `play`.
    """
    train = study.train or Train()
    plain = study.model_copy(update={"vary": None, "train": train})
    inputs = digest_inputs(plain)
    jobs = []
    for seed in seeds:
        folder = out if len(seeds) == 1 else out / f"seed-{seed}"
        notes = [f"seed of the training: {seed}"]
        jobs.append(
            Job(TRAINED, plain, seed, inputs, folder, f"seed {seed}", replace, notes, options)
        )
    folders = {job.folder for job in jobs}
    seeds_elsewhere = sorted(
        path.parent.name for path in out.glob(f"seed-*/{TRAINING}") if path.parent not in folders
    )
    if seeds_elsewhere and not describe_file_kind(out / TRAINING):
        names = ", ".join(seeds_elsewhere[:9])
        raise BadInput(
            f"{out}: holds trainings of other seeds ({names}); name them too, or give "
            f"--out another folder"
        )
    for job in jobs:
        job.admit()
    if len(seeds) > 1:
        refuse_links(out, [job.folder.name for job in jobs])
    if isinstance(train.task, Online):
        check_playable(plain, check_online_task(plain, train.task))
        check_moves(plain, train.task)
    return jobs


def train_agents(
    study: Study,
    seeds: Sequence[int],
    out: Path,
    watch: Watch = ignore_event,
    cache: Path | None = None,
    replace: bool = False,
    engine: Engine = ON_PROCESSES,
    at_once: int = 1,
    resources: Resources = DEFAULT_RESOURCES,
) -> list[Fields]:
    """Train once for each seed; one seed into `out`, several into `out/seed-N`. Returns the
    summaries.

    A finished training of the same study is not made again, an unfinished one goes on where it was.
    The training of another study is refused, unless `replace`. Of several, one that fails stays
    open and is listed in failures.csv; all others are made. Of a single one the error is raised.
    at_once : trainings at a time; one after another in this process they share the rounds that they
    record. resources : the memory of each.
    """
    jobs = build_training_jobs(study, seeds, out, replace, cache=cache, resources=resources)
    if len(jobs) == 1:
        return [do_job(jobs[0], watch)]
    if any(job.find_summary() is None for job in jobs):
        engine.check()
    if at_once == 1 and isinstance(engine, OnProcesses):
        shared: Fields = {"watch": watch}
        if has_online_task(study):
            shared["ground"] = RecordedGround(jobs[0].study, watch)
        jobs = [job.with_options(**shared) for job in jobs]
    return [
        result
        for result in do_jobs(jobs, engine, at_once, out, watch)
        if not isinstance(result, Failed)
    ]
