"""Training of a power agent on a scenario, and its comparison with baselines; one folder a seed."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim import __version__
from netsim.checkpoint import save_tree
from netsim.errors import BadInput
from netsim.record import write_json
from netsim.safe import what_is
from rl.settings import Allocation, DdpgAgent, Online, Train
from rl.train import Course
from scenarios.app.results.failures import Failed
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
    WORLDS,
    no_links,
    read_json,
)
from scenarios.app.run.events import Event, Watch, ignore
from scenarios.app.run.executor import ON_PROCESSES, Engine, OnProcesses, do_all
from scenarios.app.run.how import USUAL, How, peak_gb
from scenarios.app.run.job import Job, JobKind, do, input_digests
from scenarios.app.study import Fields
from scenarios.app.study.error_messages import build
from scenarios.app.study.study import Study, study_yaml
from scenarios.app.study.yaml_document import read_text
from scenarios.app.training.environments import fitting
from scenarios.app.training.evaluate import summary_of, write_episode, write_rows
from scenarios.app.training.ground import RecordedGround
from scenarios.app.training.trainers import on_recorded, trainer_of

if TYPE_CHECKING:
    from rl.train import CurvePoint


def play(job: Job, watch: Watch = ignore) -> Fields:
    """One training, from its environment to its page's figures; returns its summary."""
    from scenarios.app.run.how import one_thread

    study = build(Study, read_text(job.spec, str(job.folder / STUDY)))
    watch, how = job.options.get("watch", watch), job.options.get("how", USUAL)
    on: RecordedGround | None = job.options.get("ground")
    if on is None and on_recorded(study):
        on = RecordedGround(study, watch, job.folder / WORLDS)
    with how.within(), job.hold(), one_thread():
        for name in (SUMMARY, ERROR, *_EPISODE):
            (job.folder / name).unlink(missing_ok=True)
        found = _play(job, study, on, watch)
        if on is not None and on.file is not None and on.file.parent == job.folder:
            on.file.unlink(missing_ok=True)
        job.settle()
    return found


def _play(job: Job, study: Study, on: RecordedGround | None, watch: Watch) -> Fields:
    from rl.train import board_of, restored, take_steps

    began, folder, how = time.perf_counter(), job.folder, study.train or Train()
    manifest = _manifest(job, study, how)
    write_json(folder / TRAINING, manifest)
    trainer, resumes = trainer_of(study, on, job.options.get("cache")), bool(what_is(folder / CHECKPOINT))
    board = board_of(job.options.get("board"), job.seed, fresh=not resumes)
    training = trainer.begin(job.seed, board)
    course = job.resume(partial(restored, training))
    if course is None and resumes:  # what was restored of it is forgotten
        training = trainer.begin(job.seed, board)

    def tell(point: CurvePoint, last: bool) -> None:
        values = {"seed": job.seed, "cost": point.score}
        watch(Event("step", point.step, how.steps, last, values, f"seed {job.seed}"))

    def save(tree: Fields) -> None:
        save_tree(folder / CHECKPOINT, job.checkpoint(**tree))

    course = take_steps(training, trainer.score, how.eval_every, course or Course(), tell, save, board)
    board.close()
    trainer.save(course, job.seed, folder)
    trained_s = time.perf_counter() - began
    rows = trainer.evaluated(course, training.evaluations, job.seed)
    bounds = how.task.reward.bounds() if isinstance(how.task, Online) else {}
    write_rows(folder / CURVE, [_curve_row(point, list(bounds)) for point in course.curve])
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
    STUDY, SUMMARY, TRAINING, CURVE, EVALUATIONS, CHECKPOINT, PAGE, ERROR, "policy.json", "policy.safetensors", WORLDS,
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


def _curve_row(point: CurvePoint, bounds: Sequence[str]) -> Fields:
    """A row of the curve: one column for the multiplier of each bound."""
    row = asdict(point)
    multipliers = row.pop("multipliers") or (0.0,) * len(bounds)
    return row | {f"multiplier.{name}": x for name, x in zip(bounds, multipliers, strict=True)}


def jobs_of(study: Study, seeds: Sequence[int], out: Path, replace: bool = False, **options: Any) -> list[Job]:
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
        fitting(plain, how.task)
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
    shares = at_once == 1 and isinstance(engine, OnProcesses)
    if shares:
        shared: Fields = {"watch": watch}
        if on_recorded(study):
            plain = build(Study, read_text(jobs[0].spec, str(out)))
            shared["ground"] = RecordedGround(plain, watch, out / WORLDS)
        jobs = [job.played(**shared) for job in jobs]
    found = do_all(jobs, engine, at_once, out, watch)
    if shares and not any(isinstance(one, Failed) for one in found):
        (out / WORLDS).unlink(missing_ok=True)
    return [one for one in found if not isinstance(one, Failed)]
