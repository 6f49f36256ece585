"""Training of a power agent on a scenario, and its comparison with baselines; one folder a seed."""

from __future__ import annotations

import csv
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim import __version__
from netsim.errors import BadInput
from netsim.record import cell_text, write_json, write_text
from netsim.rng import Streams
from netsim.safe import PART, what_is
from rl.settings import AGENT, OPTIMUM, VISITED, Allocation, DdpgAgent, Online, ScoreFunctionAgent, Train
from scenarios.app.results.folder import CHECKPOINT, ERROR, PAGE, STUDY, SUMMARY, is_text, ours, read_json
from scenarios.app.results.marker import check_files, held
from scenarios.app.results.statistics import half_width
from scenarios.app.results.training_folder import CURVE, EVALUATIONS, KIND, TRAINING
from scenarios.app.study.dump import study_yaml
from scenarios.app.study.study import Study
from scenarios.app.training import on_radio
from scenarios.app.training.environments import Stages, fitting, n_ues, problems
from scenarios.app.training.evaluate import (
    Evaluation,
    allocation_score,
    baselines,
    episode,
    evaluate_allocation,
    fixed_rule,
    trained,
    worlds,
)
from scenarios.app.training.on_radio import Recorded

if TYPE_CHECKING:
    from rl.policy import Layers, Policy
    from rl.train import Course, CurvePoint

_FILES = (
    STUDY, SUMMARY, TRAINING, CURVE, EVALUATIONS, CHECKPOINT, PAGE, ERROR, "policy.json", "policy.safetensors",
)  # fmt: skip
_SEED_OF_TEXT = "# seed of the training: "


@dataclass(frozen=True)
class TrainingProgress:
    """The state of a training after an evaluation, for progress output."""

    seed: int
    steps: int
    point: CurvePoint
    last: bool


Watch = Callable[[TrainingProgress | Recorded], None]


def train(
    study: Study, seeds: Sequence[int], out: Path, watch: Watch, cache: Path | None = None,
    board: str | None = None, replace: bool = False,
) -> list[dict[str, Any]]:  # fmt: skip
    """Train once for each seed; one seed into `out`, several into `out/seed-N`. Returns the summaries.

    A finished training of the same study is not made again, an unfinished one goes on where it was. The training of
    another study stays, and is refused, unless `replace`.
    """
    from scenarios.app.run.simulate import one_thread

    plain = study.model_copy(update={"vary": None, "train": study.train or Train()})
    folders = [out] if len(seeds) == 1 else [out / f"seed-{seed}" for seed in seeds]
    texts = [f"{_SEED_OF_TEXT}{seed}\n{study_yaml(plain)}" for seed in seeds]
    for folder, text in zip(folders, texts, strict=True):
        _admit(folder, text, replace)
    how, summaries = plain.train or Train(), []
    if isinstance(how.task, Online):
        fitting(plain, how.task)
    on = on_radio.Ground(plain, watch) if _on_recorded(plain, how) else None
    with one_thread():
        for seed, folder, text in zip(seeds, folders, texts, strict=True):
            if not _finished(folder, text):
                with held(folder, "training", partial(_admit, folder, text, replace)):
                    _one(plain, on, seed, folder, text, watch, cache, board)
            summaries.append(read_json(folder / SUMMARY))
    return summaries


def _on_recorded(study: Study, how: Train) -> bool:
    """Whether rounds are recorded: to train on, or to tune the rules that an agent is compared with."""
    if isinstance(how.agent, ScoreFunctionAgent):
        return True
    return isinstance(how.task, Online) and on_radio.unrecorded(study) is None


def _admit(folder: Path, text: str, replace: bool) -> None:
    """Refuse a folder that this training may not have; nothing is written."""
    if not ours(folder, "training", lambda of: bool(what_is(of / TRAINING))):
        return
    check_files(folder, lambda name: name.removesuffix(PART) in _FILES)
    state = "finished" if what_is(folder / SUMMARY) else "unfinished" if what_is(folder / CHECKPOINT) else ""
    if state and not replace and not _same(folder, text):
        raise BadInput(
            f"{folder}: holds the {state} training of another study, seed or program version; add --replace, or "
            "give --out another folder"
        )


def _same(folder: Path, text: str) -> bool:
    """Whether exactly this is trained here, by this version of the program."""
    try:
        return is_text(folder / STUDY, text) and read_json(folder / TRAINING).get("program") == __version__
    except BadInput:
        return False


def _finished(folder: Path, text: str) -> bool:
    """Whether exactly this was trained here, to its end."""
    whole = _same(folder, text) and what_is(folder / SUMMARY)
    return bool(whole) and bool(read_json(folder / TRAINING).get("finished"))


def _one(
    study: Study, on: on_radio.Ground | None, seed: int, folder: Path, text: str, watch: Watch, cache: Path | None,
    board: str | None,
) -> None:  # fmt: skip
    """One training, from its environment to its page's figures. on : recorded rounds, where it is done on those."""
    began = time.perf_counter()
    how = study.train or Train()
    manifest = {
        "kind": KIND, "title": study.title, "paper": study.paper, "task": how.task.kind_name(), "seed": seed,
        "agent": how.agent.kind, "residual": isinstance(how.task, Allocation) and how.task.acts == "residual",
        "steps": how.steps, "program": __version__,
        "learning_starts": how.agent.learning_starts if isinstance(how.agent, DdpgAgent) else 0,
        "python": platform.python_version(), "finished": False,
    }  # fmt: skip
    if not is_text(folder / STUDY, text):  # another one was here
        (folder / CHECKPOINT).unlink(missing_ok=True)
    for name in (SUMMARY, ERROR, *(name + PART for name in _FILES)):
        (folder / name).unlink(missing_ok=True)
    write_text(folder / STUDY, text)
    write_json(folder / TRAINING, manifest)
    state = folder / CHECKPOINT
    whole = f"{__version__}\n{text}"
    if on is not None and isinstance(how.agent, ScoreFunctionAgent):
        curve, rows, best_steps, trained_s = _on_radio(on, seed, folder, whole, watch, began)
    else:
        curve, rows, best_steps, trained_s = _by_ddpg(study, on, seed, folder, whole, watch, began, cache, board)
    _table(folder / CURVE, [asdict(p) for p in curve])
    _table(folder / EVALUATIONS, [asdict(r) for r in rows])
    write_json(folder / SUMMARY, _summary(how.agent.kind, best_steps, rows))
    timing = {"trained_s": trained_s, "wall_s": time.perf_counter() - began}
    write_json(folder / TRAINING, {**manifest, "finished": True, "timing": timing})
    state.unlink(missing_ok=True)


_Trained = tuple[list["CurvePoint"], list[Evaluation], int, float]
"""The curve, the comparison, after how many steps the best policy was found, and seconds until then"""


def _by_ddpg(
    study: Study,
    on: on_radio.Ground | None,
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
    setup = _online(study, how.task, on) if isinstance(how.task, Online) else _allocation(study, cache)
    training = DdpgTraining(setup.env, how.agent, how.steps, seed, board)
    course = take_steps(
        training, setup.score, how.eval_every, folder / CHECKPOINT, text,
        lambda point, last: watch(TrainingProgress(seed, how.steps, point, last)),
    )  # fmt: skip
    if course.best is None:
        raise ValueError("no policy was evaluated")
    save_policy(setup.policy(study, course.best.layers, seed, course.best.steps), folder)
    trained_s = time.perf_counter() - began
    return course.curve, setup.evaluate(course, how.steps, seed), course.best.steps, trained_s


def _on_radio(on: on_radio.Ground, seed: int, folder: Path, text: str, watch: Watch, began: float) -> _Trained:
    """One training on recorded rounds."""
    from rl.score_function import ScoreFunctionTraining

    how = on.study.train or Train()
    if not isinstance(how.agent, ScoreFunctionAgent):
        raise TypeError("another agent")
    training = ScoreFunctionTraining(on.trained_on, on.rule, how.agent, how.steps, seed)
    best = on_radio.learn(
        training, on.chosen_on, how.eval_every, folder / CHECKPOINT, text,
        lambda point, last: watch(TrainingProgress(seed, how.steps, point, last)),
    )  # fmt: skip
    policy, trained_s = on_radio.kept(on, best, seed, folder), time.perf_counter() - began
    return best.curve, on.evaluated(on_radio.played(policy.power_w), training.evaluations), best.steps, trained_s


@dataclass(frozen=True)
class _Setup:
    """What is trained: the environment, the score that selects the policy, the policy as a file, the comparison."""

    env: Any
    score: Callable[[Layers], float]
    policy: Callable[[Study, Layers, int, int], Policy]
    evaluate: Callable[[Course, int, int], list[Evaluation]]


def _allocation(study: Study, cache: Path | None) -> _Setup:
    from rl.env_allocation import PowerAllocation
    from rl.policy import Card, Policy

    sets = problems(study, cache)
    drawn = sets.trained_on

    def policy(study: Study, layers: Layers, seed: int, steps: int) -> Policy:
        how = study.train or Train()
        if not isinstance(how.task, Allocation):
            raise ValueError("another task")
        own = drawn[0].objective.trajectory if len(drawn) == 1 else problems_own(study, cache)
        card = Card(
            program=__version__, task="allocation", observe=how.task.observe, acts=how.task.acts, ues=drawn[0].n_ue,
            hidden=hidden_of(how), limits=drawn[0].limits, criterion=how.task.criterion, bound=how.task.bound,
            scenario=study.title, seed=seed, steps=steps,
        )  # fmt: skip
        return Policy(card, layers, own)

    def evaluate(course: Course, steps: int, seed: int) -> list[Evaluation]:
        visited = float(np.exp(-course.best_reward / 5.0))
        layers = _best(course)
        return evaluate_allocation(sets.held_out, layers, visited, steps, Streams(seed).at("references"))

    return _Setup(PowerAllocation(drawn), lambda layers: allocation_score(sets.chosen_on, layers), policy, evaluate)


def problems_own(study: Study, cache: Path | None) -> Any:
    """The trajectory of the study's own channel."""
    from netsim.cache import cache_folder
    from scenarios.app.run.planning import reference_study
    from scenarios.app.run.reference_run import reference

    return reference(reference_study(study), cache_folder() if cache is None else cache)


def _online(study: Study, task: Online, on: on_radio.Ground | None) -> _Setup:
    from rl.env_online import OnlinePower
    from rl.policy import Card, Policy

    n = n_ues(study)
    paid = task.reward.leakage > 0
    env, other = (OnlinePower(Stages(study, paid), n, task) for _ in range(2))
    watched = OnlinePower(Stages(study), n, task)
    chosen_on, held = worlds(study, "judged", task.eval_worlds), worlds(study, "held-out", task.held_out)

    def score(layers: Layers) -> float:
        return float(np.mean([episode(other, AGENT, trained(layers), w).cost for w in chosen_on]))

    def policy(study: Study, layers: Layers, seed: int, steps: int) -> Policy:
        how = study.train or Train()
        card = Card(
            program=__version__, task="online", observe="online", ues=n, hidden=hidden_of(how), limits=task.limits,
            bound=task.bound, scenario=study.title, seed=seed, steps=steps,
        )  # fmt: skip
        return Policy(card, layers)

    def evaluate(course: Course, steps: int, seed: int) -> list[Evaluation]:
        if on is not None:
            return on.evaluated(trained(_best(course)), steps)
        acts = {name: fixed_rule(power) for name, power in baselines(task).items()} | {AGENT: trained(_best(course))}
        return [episode(watched, name, act, w) for w in held for name, act in acts.items()]

    return _Setup(env, score, policy, evaluate)


def hidden_of(how: Train) -> tuple[int, ...]:
    """Hidden layers of an agent that has a network of its own."""
    return how.agent.hidden if isinstance(how.agent, DdpgAgent) else ()


def _best(course: Course) -> Layers:
    if course.best is None:
        raise ValueError("no policy was evaluated")
    return course.best.layers


def _table(path: Path, rows: list[dict[str, Any]]) -> None:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(list(rows[0]))
    writer.writerows([cell_text(v) for v in row.values()] for row in rows)
    write_text(path, text.getvalue())


def _summary(agent_name: str, best_steps: int, rows: list[Evaluation]) -> dict[str, Any]:
    """Flat: the mean over cases of every figure of every policy, and the paired difference to each of the others."""
    summary: dict[str, Any] = {"steps.best": best_steps, "cases": _cases(rows)}
    names = list(dict.fromkeys(r.policy for r in rows))
    figures = [f.name for f in fields(Evaluation) if f.name not in ("policy", "case")]
    for name in names:
        own = [r for r in rows if r.policy == name]
        for figure in figures:
            summary[f"policy.{name}.{figure}.mean"] = float(np.mean([getattr(r, figure) for r in own]))
    agent = {r.case: r.cost for r in rows if r.policy == agent_name}
    for name in (n for n in names if n not in (agent_name, VISITED)):
        others = {r.case: r.cost for r in rows if r.policy == name}
        gaps = np.array([agent[c] - others[c] for c in others])
        ratios = np.array([agent[c] / others[c] - 1.0 for c in others])
        summary[f"against.{name}.cost.mean"] = float(gaps.mean())
        summary[f"against.{name}.percent.mean"] = float(100 * ratios.mean())
        summary[f"against.{name}.percent.max"] = float(100 * ratios.max())
        summary[f"against.{name}.cost.half_width"] = half_width(gaps)
        summary[f"against.{name}.wins"] = int((gaps < 0).sum())
    if any(r.policy == VISITED for r in rows):
        best = {r.policy: r.cost for r in rows}
        summary["visited.percent"] = 100 * (best[VISITED] / best[OPTIMUM] - 1.0)
    return summary


def _cases(rows: list[Evaluation]) -> int:
    return len({r.case for r in rows})
