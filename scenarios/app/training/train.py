"""Training of a power agent on a scenario, and its comparison with baselines; one folder a seed."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim import __version__
from netsim.errors import BadInput
from netsim.record import write_json, write_text
from netsim.safe import what_is
from rl.agents import CriticAgent, DdpgAgent
from rl.settings import Allocation, Online, Train
from scenarios.app.results.failures import Failed
from scenarios.app.results.folder import CHECKPOINT, ERROR, PAGE, STUDY, SUMMARY, is_text, ours, read_json
from scenarios.app.results.marker import check_files, held
from scenarios.app.results.training_folder import (
    CURVE,
    EPISODE,
    EPISODE_ROUNDS,
    EPISODE_SCENE,
    EVALUATIONS,
    KIND,
    TRAINING,
    WORLDS,
)
from scenarios.app.run.executors import RETRIES
from scenarios.app.run.executors.executor import play_all
from scenarios.app.run.executors.processes import OnProcesses
from scenarios.app.run.how import USUAL, How
from scenarios.app.run.inputs import admit_text, input_digests, read_lines, text_digest
from scenarios.app.run.job import Job, JobKind
from scenarios.app.run.memory import peak_gb
from scenarios.app.study.dump import study_yaml
from scenarios.app.study.error_messages import build
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import read_text
from scenarios.app.training.acts import played
from scenarios.app.training.bounds import kept
from scenarios.app.training.environments import fitting
from scenarios.app.training.episode import Episode, write_episode
from scenarios.app.training.evaluate import Evaluation
from scenarios.app.training.in_environment import allocation_setup, online_setup
from scenarios.app.training.on_radio import Ground, Recorded
from scenarios.app.training.recordable import unrecorded
from scenarios.app.training.recorded_training import begun, kept_policy, learn
from scenarios.app.training.training_tables import curve_row, summary_of, write_table

if TYPE_CHECKING:
    from rl.train import CurvePoint

_EPISODE = (EPISODE, EPISODE_ROUNDS, EPISODE_SCENE)
FILES = (
    STUDY, SUMMARY, TRAINING, CURVE, EVALUATIONS, CHECKPOINT, PAGE, ERROR, "policy.json", "policy.safetensors", WORLDS,
    *_EPISODE,
)  # fmt: skip
_SEED_OF_TEXT = "# seed of the training: "


@dataclass(frozen=True)
class TrainingProgress:
    """The state of a training after an evaluation, for progress output."""

    seed: int
    steps: int
    point: CurvePoint
    last: bool


@dataclass(frozen=True)
class TrainingFailed:
    """One of several trainings failed: so many have ended, of how many, and why it did."""

    done: int
    of: int
    failed: Failed


Watch = Callable[[TrainingProgress | Recorded | TrainingFailed], None]


def train(
    study: Study, seeds: Sequence[int], out: Path, watch: Watch, cache: Path | None = None,
    board: str | None = None, replace: bool = False, retries: int = RETRIES, limits: How = USUAL,
) -> list[dict[str, Any]]:  # fmt: skip
    """Train once for each seed; one seed into `out`, several into `out/seed-N`. Returns the summaries.

    A finished training of the same study is not made again, an unfinished one goes on where it was. The training of
    another study stays, and is refused, unless `replace`. Of several, one that fails is tried again up to `retries`
    times where that may help, then stays open and is listed in failures.csv; all others are made. Of a single one the
    error is raised. limits : of the memory of each.
    """
    from scenarios.app.run.garbage import seldom_collected
    from scenarios.app.run.threads import one_thread

    folders = [out] if len(seeds) == 1 else [out / f"seed-{seed}" for seed in seeds]
    plain, texts = admitted(study, seeds, folders, replace)
    how = plain.train or Train()
    on = Ground(plain, watch, out / WORLDS) if _on_recorded(plain, how) else None
    open_ = [k for k in range(len(seeds)) if not finished(folders[k], texts[k])]

    def made(folder: Path, seed: int, text: str) -> None:
        with limits.within(), held(folder, "training", partial(_admit, folder, text, replace)):
            _one(plain, on, seed, folder, text, watch, cache, board)

    def play_one(job: Job, watch: Any) -> None:
        made(job.folder, job.seed, job.options["text"])

    kind = JobKind("training", FILES, TRAINING, play_one)
    works = [Job(kind, "", seeds[k], {}, folders[k], "training", options={"text": texts[k]}) for k in open_]
    failed = set[int]()

    def ended(i: int, end: Any) -> None:
        if isinstance(end, Failed):
            failed.add(open_[i])
            watch(TrainingFailed(len(seeds) - len(open_) + i + 1, len(seeds), end))

    with one_thread(), seldom_collected():
        if len(seeds) > 1:
            play_all(works, OnProcesses(retries), 1, out, ended)
        else:
            for work in works:
                made(work.folder, work.seed, work.options["text"])
    if on is not None and not failed:
        on.forget()
    return [read_json(folder / SUMMARY) for k, folder in enumerate(folders) if k not in failed]


def admitted(study: Study, seeds: Sequence[int], folders: Sequence[Path], replace: bool) -> tuple[Study, list[str]]:
    """The study that is trained on, and its text for each seed. Refuses what cannot be trained, or not there."""
    plain = study.model_copy(update={"vary": None, "train": study.train or Train()})
    common = f"\n{read_lines(plain)}{study_yaml(plain)}"
    texts = [f"{_SEED_OF_TEXT}{seed}{common}" for seed in seeds]
    for folder, text in zip(folders, texts, strict=True):
        _admit(folder, text, replace)
    beside = [path.parent for path in folders[0].parent.glob(f"seed-*/{TRAINING}")] if len(seeds) > 1 else []
    for folder in sorted(set(beside) - set(folders)):
        if not _same(folder, f"{_SEED_OF_TEXT}{folder.name.removeprefix('seed-')}{common}"):
            raise BadInput(
                f"{folder}: holds the training of another study or program version, and seeds of one folder are one "
                "result; give --out another folder, or move it away"
            )
    how = plain.train or Train()
    if isinstance(how.task, Online):
        fitting(plain, how.task)
    return plain, texts


def _on_recorded(study: Study, how: Train) -> bool:
    """Whether rounds are recorded: to train on, or to tune the rules that an agent is compared with."""
    return how.agent.on_recorded or (isinstance(how.task, Online) and unrecorded(study) is None)


def _admit(folder: Path, text: str, replace: bool) -> None:
    """Refuse a folder that this training may not have; nothing is written."""
    several = sorted(p.parent.name for p in folder.glob(f"seed-*/{TRAINING}"))
    if several and not what_is(folder / TRAINING):
        raise BadInput(
            f"{folder}: holds trainings of several seeds ({', '.join(several[:9])}); give --out {folder / 'seed-N'}, "
            "or another folder"
        )
    if not ours(folder, "training", lambda of: bool(what_is(of / TRAINING))):
        return
    check_files(folder, lambda name: name in FILES)
    state = "finished" if what_is(folder / SUMMARY) else "unfinished" if what_is(folder / CHECKPOINT) else ""
    if state and not replace and not _same(folder, text):
        others = "study, seed or program version"
        admit_text(folder / STUDY, text, f"{state} training", others)
        raise BadInput(
            f"{folder}: holds the {state} training of another {others}; add --replace, or give --out another folder"
        )


def _same(folder: Path, text: str) -> bool:
    """Whether exactly this is trained here, by this version of the program."""
    try:
        return is_text(folder / STUDY, text) and read_json(folder / TRAINING).get("program") == __version__
    except BadInput:
        return False


def finished(folder: Path, text: str) -> bool:
    """Whether exactly this was trained here, to its end."""
    whole = _same(folder, text) and what_is(folder / SUMMARY)
    return bool(whole) and bool(read_json(folder / TRAINING).get("finished"))


def _one(
    study: Study, on: Ground | None, seed: int, folder: Path, text: str, watch: Watch, cache: Path | None,
    board: str | None,
) -> None:  # fmt: skip
    """One training, from its environment to its page's figures. on : recorded rounds, where it is done on those."""
    began = time.perf_counter()
    how = study.train or Train()
    manifest = {
        "kind": KIND, "title": study.title, "paper": study.paper, "task": how.task.kind_name(), "seed": seed,
        "agent": how.agent.kind, "residual": isinstance(how.task, Allocation) and how.task.acts == "residual",
        "steps": how.steps, "program": __version__, "study": text_digest(text),
        "learning_starts": how.agent.learning_starts if isinstance(how.agent, CriticAgent) else 0,
        "python": platform.python_version(), "finished": False,
    }  # fmt: skip
    if not is_text(folder / STUDY, text):  # another one was here
        (folder / CHECKPOINT).unlink(missing_ok=True)
    for name in (SUMMARY, ERROR, *_EPISODE):
        (folder / name).unlink(missing_ok=True)
    write_text(folder / STUDY, text)
    write_json(folder / TRAINING, manifest)
    state = folder / CHECKPOINT
    whole = f"{__version__}\n{text}"
    if on is not None and how.agent.on_recorded:
        curve, rows, best_steps, trained_s, shown = _on_radio(on, seed, folder, whole, watch, began, board)
    else:
        curve, rows, best_steps, trained_s, shown = _by_ddpg(study, on, seed, folder, whole, watch, began, cache, board)
    bounds = how.task.reward.bounds() if isinstance(how.task, Online) else {}
    write_table(folder / CURVE, [curve_row(p, bounds) for p in curve])
    write_table(folder / EVALUATIONS, [asdict(r) for r in rows])
    if shown is not None:
        write_episode(folder, shown)
    write_json(folder / SUMMARY, summary_of(how.agent.kind, best_steps, rows) | kept(rows, bounds))
    timing = {"trained_s": trained_s, "wall_s": time.perf_counter() - began, "peak_memory_gb": peak_gb()}
    if on is not None and on.planned_s:
        timing["planned_round_s"] = float(np.mean(on.planned_s))
    write_json(folder / TRAINING, {**manifest, "finished": True, "timing": timing})
    state.unlink(missing_ok=True)


_Trained = tuple[list["CurvePoint"], list[Evaluation], int, float, Episode | None]
"""The curve, the comparison, after how many steps the best policy was found, seconds until then, an episode to show"""


def _by_ddpg(
    study: Study,
    on: Ground | None,
    seed: int,
    folder: Path,
    text: str,
    watch: Watch,
    began: float,
    cache: Path | None,
    board: str | None,
) -> _Trained:
    """One training in the environment itself."""
    from rl.ddpg import DdpgTraining
    from rl.policy import save_policy
    from rl.train import take_steps

    how = study.train or Train()
    if not isinstance(how.agent, DdpgAgent):
        raise TypeError("another agent")
    setup = online_setup(study, how.task, on) if isinstance(how.task, Online) else allocation_setup(study, cache)
    training = DdpgTraining(setup.env, how.agent, how.steps, seed, board)
    course = take_steps(
        training, setup.score, how.eval_every, folder / CHECKPOINT, text,
        lambda point, last: watch(TrainingProgress(seed, how.steps, point, last)),
    )  # fmt: skip
    if course.best is None:
        raise ValueError("no policy was evaluated")
    save_policy(setup.policy(study, course.best.layers, seed, course.best.steps), folder)
    trained_s = time.perf_counter() - began
    rows = setup.evaluate(course, how.steps, seed)
    return course.curve, rows, course.best.steps, trained_s, setup.shown(course, rows)


def _on_radio(
    on: Ground, seed: int, folder: Path, text: str, watch: Watch, began: float, board: str | None
) -> _Trained:
    """One training on recorded rounds."""
    from rl.board import board as opened

    told = opened(board, seed, fresh=not what_is(folder / CHECKPOINT))
    how = on.study.train or Train()
    training = begun(on, how, seed, told)
    best = learn(
        training, on.chosen_on, how.eval_every, folder / CHECKPOINT, text,
        lambda point, last: watch(TrainingProgress(seed, how.steps, point, last)), told,
    )  # fmt: skip
    told.close()
    policy, trained_s = kept_policy(on, best, seed, folder), time.perf_counter() - began
    act = played(policy.power_w)
    rows = on.evaluated(act, training.evaluations, seed)
    return best.curve, rows, best.steps, trained_s, on.shown(act, rows)


def training_job(study: Study, seed: int, folder: Path, replace: bool = False) -> Job:
    """A training as a job."""
    plain, _ = admitted(study, [seed], [folder], replace)
    spec = study_yaml(plain)
    return Job(
        TRAINED, spec, seed, input_digests(plain), folder, replace=replace, notes=[f"seed of the training: {seed}"]
    )


def _play(job: Job, watch: Callable[[Any], None]) -> dict[str, Any]:
    study = build(Study, read_text(job.spec, str(job.folder / STUDY)))
    return train(study, [job.seed], job.folder, lambda now: None, replace=job.replace)[0]


TRAINED = JobKind("training", FILES, TRAINING, _play)
