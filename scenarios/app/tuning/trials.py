"""One trial: the study with some settings, played on every seed, ended early where it is worse than others were.

Trials of Optuna stand in a journal: lines of JSON in a file, from which an interrupted search goes on.
[Akiba et al., Optuna, 2019; Bergstra et al., Algorithms for Hyper-Parameter Optimization, 2011]
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from fl.round.tables import TABLES
from netsim.errors import BadInput
from scenarios.app.results.folder import SUMMARY, read_table
from scenarios.app.results.statistics import counted
from scenarios.app.results.training_folder import CURVE
from scenarios.app.run.events import Event, Watch, ignore
from scenarios.app.run.how import USUAL, How
from scenarios.app.run.job import Job, do
from scenarios.app.run.play import run_job
from scenarios.app.run.points import rounded
from scenarios.app.study.load import load
from scenarios.app.study.vary import Distribution
from scenarios.app.tuning.goals import Goals, Objective, check_found

if TYPE_CHECKING:
    import optuna

STARTS = 4  # finished trials before values are suggested, and before any trial is ended early


def required(place: str) -> None:
    """Refuse to search where Optuna is missing."""
    if importlib.util.find_spec("optuna") is None:
        raise BadInput(f"{place}: optuna is not installed; pip install 'netsim-fl[tune]'")


def opened(path: Path, directions: Sequence[str] = ("minimize",)) -> optuna.Study:
    """The trials so far; BadInput for a file that cannot be read. The caller holds the folder alone.

    What a killed program left is put right: its lock, half a line at the end, trials that were under way.
    """
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
    try:
        _whole_lines(path)
        storage = JournalStorage(JournalFileBackend(str(path), lock_obj=JournalFileOpenLock(str(path))))
        tried = optuna.create_study(
            storage=storage, study_name="search", load_if_exists=True, directions=list(directions),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTS),
        )  # fmt: skip
        for trial in tried.trials:
            if trial.state.name == "RUNNING":
                tried.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    except Exception as error:  # what damaged lines make of the library has no common type
        said = " ".join(str(error).split())[:120]
        raise BadInput(f"{path}: cannot be gone on with ({said}); delete it to start again") from None
    return tried


def _whole_lines(path: Path) -> None:
    """Cut half a line off the end, which a killed program was writing."""
    text = path.read_bytes() if path.exists() else b""
    if not text.endswith(b"\n") and b"\n" in text:
        with path.open("r+b") as file:
            file.truncate(text.rindex(b"\n") + 1)


def finished(tried: optuna.Study) -> list[Any]:
    """Trials that came to an end; those that were interrupted are tried again."""
    return [trial for trial in tried.trials if trial.state.name in ("COMPLETE", "PRUNED")]


def suggested_by(
    tried: optuna.Study, seed: int, number: int, constraints: Callable[[Any], Sequence[float]] | None = None
) -> None:
    """From now on a sampler suggests that hangs on the finished trials, the seed and the number of the trial alone."""
    import optuna

    (drawn,) = np.random.SeedSequence([seed, number]).generate_state(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.simplefilter("ignore", FutureWarning)  # Optuna 5 has another way, which Optuna 4 has not
        tried.sampler = optuna.samplers.TPESampler(
            seed=int(drawn), n_startup_trials=STARTS, constraints_func=constraints
        )


def suggested(trial: optuna.Trial, space: Mapping[str, Distribution]) -> dict[str, Any]:
    """A value for each key."""
    return {key: _one(trial, key, of) for key, of in space.items()}


def _one(trial: optuna.Trial, key: str, of: Distribution) -> Any:
    if of.choices is not None:
        return of.choices[trial.suggest_categorical(key, list(range(len(of.choices))))]
    low, high = float(of.low or 0.0), float(of.high or 0.0)
    if of.integer:
        return trial.suggest_int(key, int(low), int(high), log=of.log)
    return rounded(trial.suggest_float(key, low, high, log=of.log), low, high)


_FEWEST = 8  # finished trials below which nothing is said


def importances(tried: optuna.Study, goals: Goals, seed: int) -> dict[str, dict[str, float]]:
    """Objective -> setting -> its share of the variance (functional ANOVA); nothing where trials do not tell.

    [Hutter, Hoos, Leyton-Brown, An Efficient Approach for Assessing Hyperparameter Importance, ICML 2014]
    """
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    done = [t for t in tried.trials if t.state.name == "COMPLETE"]
    told: dict[str, dict[str, float]] = {}
    for k, objective in enumerate(goals.objectives):
        if len(done) < _FEWEST or len({t.values[k] for t in done}) < 2:
            continue

        def target(trial: optuna.trial.FrozenTrial, at: int = k) -> float:
            return float(trial.values[at])

        shares = get_param_importances(
            tried, evaluator=FanovaImportanceEvaluator(seed=seed % 2**32), target=target, normalize=True
        )
        told[objective.key] = {name: round(float(share), 4) for name, share in shares.items()}
    return told


Curves = Mapping[int, Mapping[int, float]]
"""seed -> round -> figure"""


@dataclass(frozen=True)
class TrialPlan:
    """What a trial plays. others: the curves of the finished trials that it is compared with."""

    number: int
    source: str
    overrides: Mapping[str, Any]
    seeds: tuple[int, ...]
    out: Path
    goals: Goals
    others: Sequence[Curves] = ()
    command: str = "netsim tune"
    how: How = USUAL
    trains: bool = False
    """whether trainings are played, with seeds of their own"""

    def folder(self, seed: int) -> Path:
        """Of the run with this seed."""
        return self.out / name_of(self.number) / f"seed-{seed}"

    def changes(self, seed: int) -> dict[str, Any]:
        """What a run changes in the scenario."""
        return {**self.overrides, "seed": seed, "vary": None}


@dataclass(frozen=True)
class Played:
    """What became of it: means over seeds by key, the curves, where it was ended early, why it failed."""

    values: Mapping[str, float]
    curves: Curves
    ended: str = ""
    error: str = ""
    missing: tuple[str, ...] = ()
    """the complaint about a key that no trial can have"""


class _Worse(Exception):
    """The trial is worse than the median of the others at a round of a seed."""


def name_of(number: int) -> str:
    """What folders and figures call a trial, from 1."""
    return f"trial-{number}"


def play(plan: TrialPlan) -> Played:
    """Play it, or read back what is finished; a run that a killed program began goes on."""
    found: list[dict[str, Any]] = []
    try:
        for seed in plan.seeds:
            found.append(_played(plan, seed))
    except _Worse as worse:
        return Played({}, {}, ended=str(worse))
    except BadInput as error:
        return Played({}, {}, error=error.lines[0])
    except Exception as error:  # one setting that fails is a result of the search, and does not end it
        return Played({}, {}, error=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    try:
        check_found(plan.goals, found[0])
    except BadInput as error:
        return Played({}, {}, error=error.lines[0], missing=tuple(error.lines))
    values = {}
    for key in plan.goals.keys:
        each = [np.nan if summary.get(key) is None else float(summary[key]) for summary in found]
        if not np.isfinite(each).all():
            without = sum(not np.isfinite(value) for value in each)
            return Played({}, {}, error=f"{key} has no finite value with {counted(without, 'seed')} of {len(each)}")
        values[key] = float(np.mean(each))
    return Played(values, _curves(plan))


def job_of(plan: TrialPlan, seed: int) -> Job:
    """The run, or the training, with this seed."""
    folder = plan.folder(seed)
    if not plan.trains:
        study = load(plan.source, plan.changes(seed))
        return run_job(study, folder, command=plan.command, replace=True, how=plan.how)
    from scenarios.app.training.train import jobs_of

    study = load(plan.source, {**plan.overrides, "vary": None})
    (job,) = jobs_of(study, [seed], folder, replace=True, how=plan.how)
    return job


def _played(plan: TrialPlan, seed: int) -> dict[str, Any]:
    """The summary of the job with this seed."""
    watch = _watch(plan.goals.by, seed, plan.others) if plan.goals.by and plan.others else ignore
    summary: dict[str, Any] = do(job_of(plan, seed), watch)
    return summary


def _watch(by: Objective, seed: int, others: Sequence[Curves]) -> Watch:
    """Ends a job at the first round, or evaluation of a training, after which it is worse than the median of the
    others. Of a training the best evaluation so far counts.
    """
    before, best = [curves.get(seed, {}) for curves in others], np.inf

    def watch(now: Event) -> None:
        nonlocal best
        value = now.values.get(by.scored)
        if value is None or now.last:
            return
        loss = best = by.loss(float(value)) if now.name != "step" else min(best, by.loss(float(value)))
        at = [curve[now.done] for curve in before if now.done in curve]
        if is_worse(loss, [by.loss(one) for one in at]):
            where = "round" if now.name != "step" else "step"
            raise _Worse(f"{where} {now.done} of seed {seed}: {by.loss(loss):.4g}, median of others {median(at):.4g}")

    return watch


def is_worse(value: float, others: Sequence[float]) -> bool:
    """Whether a figure, of which less is better, lies above the median of enough others."""
    return len(others) >= STARTS and value > median(others)


def _curves(plan: TrialPlan) -> Curves:
    """The figure by which trials are ended early, after every round or evaluation."""
    if plan.goals.by is None:
        return {}
    of = _evaluated if plan.trains else _scored
    folders = {seed: plan.folder(seed) for seed in plan.seeds}
    return {s: of(folder, plan.goals.by.scored) for s, folder in folders.items() if (folder / SUMMARY).exists()}


def _scored(folder: Path, name: str) -> dict[int, float]:
    """The figure of a run in every round that has one, as the records have it: in rounds.csv, or in metrics.csv."""
    if name in TABLES["rounds"]:
        table = read_table(folder, "rounds")
        numbers, values = table["round"], table[name]
    else:
        table = read_table(folder, "metrics")
        mine = (table["part"] == "learner") & (table["name"] == name)
        numbers, values = table["round"][mine], table["value"][mine]
    pairs = zip(numbers.tolist(), values.tolist(), strict=True)
    return {int(n): float(value) for n, value in pairs if np.isfinite(value)}


def _evaluated(folder: Path, name: str) -> dict[int, float]:
    """The best cost of a training so far, after each evaluation."""
    steps, costs = np.loadtxt(folder / CURVE, delimiter=",", skiprows=1, usecols=(0, 1), ndmin=2).T
    return dict(zip(map(int, steps), np.minimum.accumulate(costs).tolist(), strict=True))
