"""`netsim tune`: a sweep whose points are suggested, the best of them played again on seeds that no
other point has.

A trial is a label of the sweep, with a run or a training for each seed. Trials are suggested in
batches, as many as run at a time, from those of the batches before; so the same command suggests
the same ones, and finds those played. [Akiba et al., Optuna, 2019; Bergstra et al., Algorithms for
Hyper-Parameter Optimization, 2011]
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netsim.errors import BadInput, format_count
from netsim.units import Ints
from scenarios.app.results.folder import (
    SUMMARY,
    Failed,
    read_json,
    remove_files,
    remove_run,
    write_failures,
)
from scenarios.app.results.goals import COST, FRESH, Goals, SearchResult, Trial, is_training_key
from scenarios.app.run.events import Event
from scenarios.app.run.executor import BAD_INPUT, do_jobs
from scenarios.app.run.job import Job
from scenarios.app.run.runner import build_run_job
from scenarios.app.run.setup import check_study
from scenarios.app.run.sweep import Sweep, SweepPoint, round_within, write_runs
from scenarios.app.study import Record, Value
from scenarios.app.study.study import Distribution, Study
from scenarios.app.training.train import FILES, build_training_jobs

if TYPE_CHECKING:
    import optuna

STARTS = 4  # finished trials before values are suggested
_FEWEST = 8  # finished trials below which settings have no importance


@dataclass(frozen=True)
class Search:
    """What is searched: the space of a sweep, for goals, by so many trials; and fresh seeds for the
    best.

    sweep : its scenario and folder, how runs are played, and how many at a time.
    """

    sweep: Sweep
    goals: Goals
    trials: int
    verify: int = 3

    @property
    def study(self) -> Study:
        return self.sweep.scenario.study

    @property
    def space(self) -> Mapping[str, Distribution]:
        if self.study.vary is None:
            return {}
        return self.study.vary.drawn

    @property
    def seeds(self) -> Ints:
        """Of every trial."""
        return (self.study.vary.seed if self.study.vary else None) or (self.study.seed,)

    @property
    def fresh(self) -> range:
        """Seeds that no trial uses, for the figures of the winners."""
        first = max(self.seeds) + 1
        return range(first, first + self.verify)

    @property
    def asks(self) -> list[str]:
        """What of the space and of the goals is of a training; then trials are trainings."""
        of_space = [f"vary.random.space.{key!r}" for key in self.space if key.startswith("train.")]
        return of_space + [key for key in self.goals.keys if is_training_key(key)]

    def build_jobs(self, trial: Trial) -> list[Job]:
        """Return the runs, or the trainings, of a trial. A training has a seed of its own, in the
        world of the scenario.
        """
        sweep = self.sweep
        jobs = []
        for seed in trial.seeds:
            changes = {
                **trial.settings,
                "seed": self.study.seed if self.asks else seed,
                "vary": None,
            }
            study = sweep.scenario.with_changes(changes).study
            folder = sweep.out / trial.folder / f"seed-{seed}"
            if self.asks:
                (job,) = build_training_jobs(
                    study, [seed], folder, replace=True, resources=sweep.resources
                )
            else:
                job = build_run_job(study, folder, command="netsim tune", resources=sweep.resources)
            jobs.append(replace(job, label=trial.label, replace=sweep.replace))
        return jobs

    def play_trials(self, trials: Sequence[Trial], before: int, total: int) -> None:
        """Play trials, and write into each what became of it. before : runs that have ended, of all
        of them.

        BadInput: a folder holds something else, or no run has a key of the goals.
        """
        jobs = []
        for trial in trials:
            try:
                jobs += [(trial, job) for job in self.build_jobs(trial)]
            except BadInput as error:
                trial.fail(BAD_INPUT, "; ".join(error.lines))
        all_jobs = [job for _, job in jobs]
        for job in all_jobs:
            job.admit()

        def watch(event: Event) -> None:
            done = before + event.done
            self.sweep.watch(event._replace(done=done, total=total, last=done == total))

        ends = do_jobs(all_jobs, self.sweep.engine, self.sweep.at_once, self.sweep.out, watch)
        for trial in trials:
            results: list[Value] = [
                end for (job_trial, _), end in zip(jobs, ends, strict=True) if job_trial is trial
            ]
            trial.failed = next((end for end in results if isinstance(end, Failed)), trial.failed)
            if trial.failed is None:
                self.judge_trial(trial, results)

    def judge_trial(self, trial: Trial, summaries: Sequence[Record]) -> None:
        """Write the figures of a trial into it. BadInput for keys that no trial can have."""
        self.goals.check(list(summaries[0]))
        for key in self.goals.keys:
            values = np.array([summary[key] for summary in summaries], dtype=np.float64)
            if not np.isfinite(values).all():
                trial.fail(
                    "no figure",
                    f"{key} has no finite value with each of {format_count(len(values), 'seed')}",
                )
                return
            trial.values[key] = values.tolist()
        excess = zip(self.goals.constraints, self.goals.compute_excesses(trial), strict=True)
        trial.broken = [bound.text for bound, beyond in excess if beyond > 0]


def tune_settings(search: Search) -> Path:
    """Search until all trials are played, then verify the winners; returns the folder, that of a
    sweep.

    Raises BadInput: no space, goals that no run has, a folder of something else, no trial that
    finished.
    """
    if importlib.util.find_spec("optuna") is None:
        raise BadInput("netsim tune: optuna is not installed; pip install 'netsim-fl[tune]'")
    _check_search(search)
    sweep = search.sweep
    sweep.resources.check_limit()
    folders = [
        f"trial-{n + 1}/seed-{seed}"
        for n in range(search.trials)
        for seed in (*search.seeds, *search.fresh)
    ]
    sweep.admit(folders)
    first = sweep.scenario.with_changes({"seed": search.seeds[0], "vary": None})
    with first.locate_errors():
        if search.asks:
            search.build_jobs(Trial(label="trial-1", settings={}, seeds=[*search.seeds[:1]]))
        else:
            check_study(first.study, resources=sweep.resources)
    with sweep.open_folder(folders, remove=remove_job_folder):
        sweep.write_description({})
        tried, trials = try_settings(search)
        finished = {trial.label: trial for trial in trials if trial.failed is None}
        best = search.goals.find_best_labels([*finished.values()])
        winners = [
            Trial(label=f"{label}{FRESH}", settings=finished[label].settings, seeds=[*search.fresh])
            for label in best
            if search.fresh
        ]
        search.play_trials(winners, 0, len(winners) * search.verify)
        trials += winners
        failed = [trial.failed for trial in trials if trial.failed is not None]
        write_failures(sweep.out, failed)
        if not finished:
            raise BadInput(f"{sweep.out}: no trial finished; the last one: {failed[-1].error}")
        points = [
            SweepPoint(trial.label, seed, f"{trial.folder}/seed-{seed}", trial.settings)
            for trial in trials
            if trial.failed is None
            for seed in trial.seeds
        ]
        summaries = [read_json(sweep.out / point.folder / SUMMARY) for point in points]
        write_runs(sweep.out, points, summaries)
        tuned = SearchResult(
            objectives={**search.goals.objectives},
            trials=trials,
            best=best,
            importance=compute_importances(tried, search),
        )
        sweep.write_description({"tuned": tuned.model_dump(mode="json")})
    return sweep.out


def remove_job_folder(folder: Path) -> None:
    """Remove a run or a training."""
    remove_files(folder, FILES)
    remove_run(folder)


def _check_search(search: Search) -> None:
    """Refuse a scenario without a space, and a search of trainings without a training, or with
    goals of runs.
    """
    vary = search.study.vary
    if vary is None or vary.random is None:
        raise BadInput(
            "vary: has no space to search; give it `random: {space: {KEY: {low: NUMBER, "
            "high: NUMBER}}}`"
        )
    if vary.values or vary.zip or vary.variants:
        raise BadInput("vary: netsim tune searches vary.random; leave values, zip and variants out")
    asks = search.asks
    runs = [key for key in search.goals.keys if not is_training_key(key)]
    if asks and search.study.train is None:
        raise BadInput(
            f"{asks[0]}: is of a training, and the scenario has no `train:` section; add "
            f"one, or leave it out"
        )
    if asks and runs:
        raise BadInput(
            f"{asks[0]}: changes a training and no run, and {runs[0]} is a figure of runs; take a "
            f"key of trainings, such as --objective {COST}, or leave it out"
        )


def try_settings(search: Search) -> tuple[optuna.Study, list[Trial]]:
    """Return the tried settings, for Optuna and for us."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    excess = (
        (lambda trial: trial.user_attrs.get("excess", [0.0])) if search.goals.constraints else None
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        # Optuna 5 has another way, which Optuna 4 has not
        warnings.simplefilter("ignore", FutureWarning)
        sampler = optuna.samplers.TPESampler(
            seed=search.study.seed % 2**32, n_startup_trials=STARTS, constraints_func=excess
        )
    study = optuna.create_study(
        sampler=sampler, directions=[f"{word}imize" for word in search.goals.objectives.values()]
    )
    trials = list[Trial]()
    n = len(search.seeds)
    while len(trials) < search.trials:
        batch = [study.ask() for _ in range(min(search.sweep.at_once, search.trials - len(trials)))]
        new = [
            Trial(
                label=f"trial-{suggestion.number + 1}",
                seeds=[*search.seeds],
                settings={
                    key: suggest_value(suggestion, key, space)
                    for key, space in search.space.items()
                },
            )
            for suggestion in batch
        ]
        search.play_trials(new, len(trials) * n, search.trials * n)
        trials += new
        for suggestion, trial in zip(batch, new, strict=True):
            if trial.failed is None:
                suggestion.set_user_attr("excess", search.goals.compute_excesses(trial))
                study.tell(suggestion, [trial.compute_mean(key) for key in search.goals.objectives])
            else:
                study.tell(suggestion, state=optuna.trial.TrialState.FAIL)
    return study, trials


def suggest_value(trial: optuna.Trial, key: str, distribution: Distribution) -> Value:
    """Return the value of a key."""
    if distribution.choices is not None:
        return distribution.choices[
            trial.suggest_categorical(key, list(range(len(distribution.choices))))
        ]
    low = distribution.low or 0.0
    high = distribution.high or 0.0
    if distribution.integer:
        return trial.suggest_int(key, int(low), int(high), log=distribution.log)
    return round_within(trial.suggest_float(key, low, high, log=distribution.log), low, high)


def compute_importances(study: optuna.Study, search: Search) -> dict[str, dict[str, float]]:
    """Return objective -> setting -> its share of the variance (functional ANOVA); nothing of few
    or equal trials.

    [Hutter, Hoos, Leyton-Brown, An Efficient Approach for Assessing Hyperparameter Importance, ICML
    2014]
    """
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    done = [trial.values for trial in study.trials if trial.state.name == "COMPLETE"]
    importances_of = {}
    for k, objective in enumerate(search.goals.objectives):
        if len(done) >= _FEWEST and len({values[k] for values in done}) > 1:
            evaluator = FanovaImportanceEvaluator(seed=search.study.seed % 2**32)
            shares = get_param_importances(
                study, evaluator=evaluator, target=lambda t, k=k: float(t.values[k])
            )
            importances_of[objective] = {
                name: round(float(share), 4) for name, share in shares.items()
            }
    return importances_of
