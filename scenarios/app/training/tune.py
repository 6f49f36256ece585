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

from netsim.errors import BadInput, counted
from scenarios.app.results.folder import SUMMARY, Failed, read_json, remove_run, write_failures
from scenarios.app.results.goals import COST, FRESH, Goals, Trial, Tuned, of_training
from scenarios.app.run.events import Event
from scenarios.app.run.executor import BAD_INPUT, do_all
from scenarios.app.run.job import Job
from scenarios.app.run.runner import run_job
from scenarios.app.run.setup import check
from scenarios.app.run.sweep import Sweep, SweepPoint, rounded, write_runs
from scenarios.app.study import Record, Value
from scenarios.app.study.study import Distribution, Study
from scenarios.app.training.train import FILES, jobs_of

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
        return self.sweep.asked.study

    @property
    def space(self) -> Mapping[str, Distribution]:
        if self.study.vary is None:
            return {}
        return self.study.vary.drawn

    @property
    def seeds(self) -> tuple[int, ...]:
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
        return of_space + [key for key in self.goals.keys if of_training(key)]

    def jobs(self, trial: Trial) -> list[Job]:
        """The runs, or the trainings, of a trial. A training has a seed of its own, in the world of
        the scenario.
        """
        sweep = self.sweep
        jobs = []
        for seed in trial.seeds:
            changes = {
                **trial.settings,
                "seed": self.study.seed if self.asks else seed,
                "vary": None,
            }
            study = sweep.asked.changed(changes).study
            folder = sweep.out / trial.folder / f"seed-{seed}"
            if self.asks:
                (job,) = jobs_of(study, [seed], folder, replace=True, how=sweep.how)
            else:
                job = run_job(study, folder, command="netsim tune", how=sweep.how)
            jobs.append(replace(job, label=trial.label, replace=sweep.replace))
        return jobs

    def play(self, trials: Sequence[Trial], before: int, total: int) -> None:
        """Play trials, and write into each what became of it. before : runs that have ended, of all
        of them.

        BadInput: a folder holds something else, or no run has a key of the goals.
        """
        jobs = []
        for trial in trials:
            try:
                jobs += [(trial, job) for job in self.jobs(trial)]
            except BadInput as error:
                trial.fail(BAD_INPUT, "; ".join(error.lines))
        every = [job for _, job in jobs]
        for job in every:
            job.admit()

        def watch(now: Event) -> None:
            done = before + now.done
            self.sweep.watch(now._replace(done=done, of=total, last=done == total))

        ends = do_all(every, self.sweep.engine, self.sweep.at_once, self.sweep.out, watch)
        for trial in trials:
            own: list[Value] = [end for (of, _), end in zip(jobs, ends, strict=True) if of is trial]
            trial.failed = next((end for end in own if isinstance(end, Failed)), trial.failed)
            if trial.failed is None:
                self.judge(trial, own)

    def judge(self, trial: Trial, summaries: Sequence[Record]) -> None:
        """Write the figures of a trial into it. BadInput for keys that no trial can have."""
        self.goals.check(list(summaries[0]))
        for key in self.goals.keys:
            each = np.array([one[key] for one in summaries], dtype=np.float64)
            if not np.isfinite(each).all():
                trial.fail(
                    "no figure",
                    f"{key} has no finite value with each of {counted(len(each), 'seed')}",
                )
                return
            trial.values[key] = each.tolist()
        excess = zip(self.goals.constraints, self.goals.excess(trial), strict=True)
        trial.broken = [bound.text for bound, beyond in excess if beyond > 0]


def tune(of: Search) -> Path:
    """Search until all trials are played, then verify the winners; returns the folder, that of a
    sweep.

    Raises BadInput: no space, goals that no run has, a folder of something else, no trial that
    finished.
    """
    if importlib.util.find_spec("optuna") is None:
        raise BadInput("netsim tune: optuna is not installed; pip install 'netsim-fl[tune]'")
    _admissible(of)
    sweep = of.sweep
    sweep.how.check()
    own = [
        f"trial-{n + 1}/seed-{seed}" for n in range(of.trials) for seed in (*of.seeds, *of.fresh)
    ]
    sweep.admit(own)
    first = sweep.asked.changed({"seed": of.seeds[0], "vary": None})
    with first.placed():
        if of.asks:
            of.jobs(Trial(label="trial-1", settings={}, seeds=[*of.seeds[:1]]))
        else:
            check(first.study, how=sweep.how)
    with sweep.opened(own, remove=remove):
        sweep.describe({})
        tried, trials = searched(of)
        finished = {trial.label: trial for trial in trials if trial.failed is None}
        best = of.goals.best([*finished.values()])
        winners = [
            Trial(label=f"{label}{FRESH}", settings=finished[label].settings, seeds=[*of.fresh])
            for label in best
            if of.fresh
        ]
        of.play(winners, 0, len(winners) * of.verify)
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
        shares = importances(tried, of)
        found = Tuned(
            objectives={**of.goals.objectives}, trials=trials, best=best, importance=shares
        )
        sweep.describe({"tuned": found.model_dump(mode="json")})
    return sweep.out


def remove(folder: Path) -> None:
    """Remove a run or a training."""
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    remove_run(folder)


def _admissible(of: Search) -> None:
    """Refuse a scenario without a space, and a search of trainings without a training, or with
    goals of runs.
    """
    vary = of.study.vary
    if vary is None or vary.random is None:
        raise BadInput(
            "vary: has no space to search; give it `random: {space: {KEY: {low: NUMBER, "
            "high: NUMBER}}}`"
        )
    if vary.values or vary.zip or vary.variants:
        raise BadInput("vary: netsim tune searches vary.random; leave values, zip and variants out")
    asks = of.asks
    runs = [key for key in of.goals.keys if not of_training(key)]
    if asks and of.study.train is None:
        raise BadInput(
            f"{asks[0]}: is of a training, and the scenario has no `train:` section; add "
            f"one, or leave it out"
        )
    if asks and runs:
        raise BadInput(
            f"{asks[0]}: changes a training and no run, and {runs[0]} is a figure of runs; take a "
            f"key of trainings, such as --objective {COST}, or leave it out"
        )


def searched(of: Search) -> tuple[optuna.Study, list[Trial]]:
    """The tried settings, for Optuna and for us."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    excess = (lambda trial: trial.user_attrs.get("excess", [0.0])) if of.goals.constraints else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.simplefilter(
            "ignore", FutureWarning
        )  # Optuna 5 has another way, which Optuna 4 has not
        sampler = optuna.samplers.TPESampler(
            seed=of.study.seed % 2**32, n_startup_trials=STARTS, constraints_func=excess
        )
    study = optuna.create_study(
        sampler=sampler, directions=[f"{word}imize" for word in of.goals.objectives.values()]
    )
    trials = list[Trial]()
    n = len(of.seeds)
    while len(trials) < of.trials:
        batch = [study.ask() for _ in range(min(of.sweep.at_once, of.trials - len(trials)))]
        new = [
            Trial(
                label=f"trial-{one.number + 1}",
                seeds=[*of.seeds],
                settings={key: suggested(one, key, space) for key, space in of.space.items()},
            )
            for one in batch
        ]
        of.play(new, len(trials) * n, of.trials * n)
        trials += new
        for one, trial in zip(batch, new, strict=True):
            if trial.failed is None:
                one.set_user_attr("excess", of.goals.excess(trial))
                study.tell(one, [trial.mean(key) for key in of.goals.objectives])
            else:
                study.tell(one, state=optuna.trial.TrialState.FAIL)
    return study, trials


def suggested(trial: optuna.Trial, key: str, of: Distribution) -> Value:
    """The value of a key."""
    if of.choices is not None:
        return of.choices[trial.suggest_categorical(key, list(range(len(of.choices))))]
    low = of.low or 0.0
    high = of.high or 0.0
    if of.integer:
        return trial.suggest_int(key, int(low), int(high), log=of.log)
    return rounded(trial.suggest_float(key, low, high, log=of.log), low, high)


def importances(study: optuna.Study, of: Search) -> dict[str, dict[str, float]]:
    """Objective -> setting -> its share of the variance (functional ANOVA); nothing of few or equal
    trials.

    [Hutter, Hoos, Leyton-Brown, An Efficient Approach for Assessing Hyperparameter Importance, ICML
    2014]
    """
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    done = [trial.values for trial in study.trials if trial.state.name == "COMPLETE"]
    found = {}
    for k, objective in enumerate(of.goals.objectives):
        if len(done) >= _FEWEST and len({values[k] for values in done}) > 1:
            evaluator = FanovaImportanceEvaluator(seed=of.study.seed % 2**32)
            shares = get_param_importances(
                study, evaluator=evaluator, target=lambda t, k=k: float(t.values[k])
            )
            found[objective] = {name: round(float(share), 4) for name, share in shares.items()}
    return found
