"""`netsim tune`: trials suggested one after the other, the best of them played again on seeds that no trial used.

A trial is the study with some settings, a job for each seed. Trials of Optuna stand in a journal: lines of JSON in a
file, from which an interrupted search goes on.
[Akiba et al., Optuna, 2019; Bergstra et al., Algorithms for Hyper-Parameter Optimization, 2011]
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netsim import __version__
from netsim.errors import BadInput, counted
from netsim.record import write_json, write_text
from netsim.units import FloatArray
from scenarios.app.results.folder import PAGE, RUNS, STUDY, SUMMARY, no_links, read_json, remove_run
from scenarios.app.results.statistics import half_width
from scenarios.app.results.tuning_folder import BEST, COST, TRIALS_CSV, TUNING, Goals, of_training, trials_csv
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.executor import BAD_INPUT, ON_PROCESSES, Answer, Failure, attempt
from scenarios.app.run.how import USUAL, How
from scenarios.app.run.job import Job, JobKind, do, input_digests
from scenarios.app.run.runner import run_job
from scenarios.app.run.setup import check
from scenarios.app.run.sweep import SweepPoint, others, rounded, write_runs
from scenarios.app.study import Fields, Record, Value
from scenarios.app.study.load import AskedStudy
from scenarios.app.study.study import Distribution, Study
from scenarios.app.study.yaml_document import as_yaml

if TYPE_CHECKING:
    import optuna


JOURNAL = "trials.log"
_FILES = (STUDY, TUNING, TRIALS_CSV, BEST, RUNS, PAGE, JOURNAL, f"{JOURNAL}.lock")
_TRIALS = ("trial-*", "verify/trial-*")
STARTS = 4  # finished trials before values are suggested
_FEWEST = 8  # finished trials below which settings have no importance


@dataclass(frozen=True)
class Tuning:
    """What is tuned: a scenario with changes, its goals and seeds; how many trials, jobs and fresh seeds."""

    source: str
    asked: AskedStudy
    goals: Goals
    out: Path
    trials: int
    jobs: int = 1
    verify: int = 3
    command: str = "netsim tune"
    how: How = USUAL

    @property
    def study(self) -> Study:
        return self.asked.study

    @property
    def space(self) -> Mapping[str, Distribution]:
        return {} if self.study.vary is None else self.study.vary.drawn

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of every trial."""
        return (self.study.vary.seed if self.study.vary else None) or (self.study.seed,)

    @property
    def fresh(self) -> tuple[int, ...]:
        """Seeds that no trial uses, for the figures of the winners."""
        first = max(self.seeds) + 1
        return tuple(range(first, first + self.verify))

    @property
    def trained(self) -> list[str]:
        """Keys of the space on which trainings alone depend."""
        return [key for key in self.space if key.partition(".")[0] == "train"]

    @property
    def trains(self) -> bool:
        """Whether trials are trainings: the space, or a goal, is of the training."""
        return bool(self.trained) or any(map(of_training, self.goals.keys))

    @cached_property
    def shared(self) -> How:
        """Of trials, which share the memory of this machine."""
        return self.how.among(min(self.jobs, self.trials))

    def changes(self, settings: Record, seed: int) -> Fields:
        """What a run with these settings changes in the scenario."""
        return {**settings, "seed": seed, "vary": None}

    def trial(self, name: str, settings: Record, seeds: Sequence[int]) -> Job:
        """A trial as a job."""
        options = {"of": self, "settings": settings, "seeds": seeds}
        return Job(TRIAL, self.study, self.study.seed, {}, self.out / name, name, options=options)

    def parts(self, folder: Path, settings: Record, seeds: Sequence[int]) -> list[Job]:
        """The runs, or the trainings, of a trial. A training has a seed of its own, in the world of the scenario."""
        from scenarios.app.training.train import jobs_of

        jobs = []
        for seed in seeds:
            place = folder / f"seed-{seed}"
            study = self.asked.changed(self.changes(settings, self.study.seed if self.trains else seed)).study
            if self.trains:
                jobs += jobs_of(study, [seed], place, replace=True, how=self.shared)
            else:
                jobs.append(run_job(study, place, command=self.command, replace=True, how=self.shared))
        return jobs

    def job(self, replace: bool) -> Job:
        """The tuning as a job: what decides every trial, files that may be drawn among it."""
        choices = [(key, value) for key, one in self.space.items() for value in one.choices or ()]
        drawn = [
            self.asked.changed(self.changes({key: value}, self.study.seed)).study
            for key, value in choices if isinstance(value, str | dict)
        ]  # fmt: skip
        read = {file: digest for study in (self.study, *drawn) for file, digest in input_digests(study).items()}
        notes = [f"tuning, program {__version__}", *self.goals.lines]
        return Job(
            TUNED, self.study, self.study.seed, read, self.out, replace=replace, notes=notes,
            options={"of": self},
        )  # fmt: skip


def tune(of: Tuning, watch: Watch, replace: bool = False) -> Fields:
    """Search until all trials are finished, then verify the winners; returns what `tuning.json` holds."""
    from scenarios.app.training.train import FILES

    if importlib.util.find_spec("optuna") is None:
        raise BadInput("netsim tune: optuna is not installed; pip install 'netsim-fl[tune]'")
    _admissible(of)
    out = of.out
    job = of.job(replace)
    job.admit()
    found_there = [str(one.relative_to(out)) for one in others(out, of=_TRIALS)]
    no_links(out, [f"trial-{n + 1}" for n in range(of.trials)] + found_there)
    first = of.asked.changed(of.changes({}, of.seeds[0]))
    with first.placed():
        if of.trains:
            of.parts(out / "trial-1", {}, of.seeds[:1])
        else:
            check(first.study, how=of.shared)
    with job.hold() as is_new:
        for folder in others(out, of=_TRIALS) if is_new else ():
            for name in FILES:
                (folder / name).unlink(missing_ok=True)
            remove_run(folder)
        tried = opened(out / JOURNAL, of.goals)
        _search(of, tried, watch)
        rows = _rows(tried)
        done = [row for row in rows if row["state"] == "finished"]
        if not done:
            raise BadInput(f"{out}: no trial finished; the last one: {rows[-1]['why']}")
        by_number = {row["number"]: row for row in done}
        winners = [by_number[n] for n in of.goals.best(done)]
        found = {
            "kind": "tuning", "title": of.study.title, "scenario": of.source, "command": of.command,
            "overrides": dict(of.asked.overrides), "plays": "train" if of.trains else "run",
            "objectives": [{"key": o.key, "direction": o.word} for o in of.goals.objectives],
            "constraints": [c.text for c in of.goals.constraints],
            "space": {key: one.model_dump(mode="json") for key, one in of.space.items()},
            "seeds": list(of.seeds), "fresh_seeds": list(of.fresh), "trials": rows,
            "best": [row["name"] for row in winners],
            "front": [by_number[n]["name"] for n in of.goals.front(done)],
            "verified": {row["name"]: _verified(of, row) for row in winners},
            "importance": _importances(tried, of),
        }  # fmt: skip
        _write(of, found, done, winners)
    return found


def _admissible(of: Tuning) -> None:
    """Refuse a scenario without a space, and a tuning of trainings without a training, or with goals of runs."""
    vary = of.study.vary
    if vary is None or vary.random is None:
        raise BadInput(
            f"{of.source}: has no space to search; give it "
            "`vary: {random: {space: {KEY: {low: NUMBER, high: NUMBER}}}}`"
        )
    if vary.values or vary.zip or vary.variants:
        raise BadInput("vary: netsim tune searches vary.random; leave values, zip and variants out")
    goals = of.goals.keys
    asks = [*(f"vary.random.space.{key!r}" for key in of.trained), *filter(of_training, goals)]
    runs = [key for key in goals if not of_training(key)]
    if asks and of.study.train is None:
        raise BadInput(
            f"{asks[0]}: is of a training, and {of.source} has no `train:` section; add one, or leave it out"
        )
    if asks and runs:
        raise BadInput(
            f"{asks[0]}: changes a training and no run, and {runs[0]} is a figure of runs; take a key of trainings, "
            f"such as --objective {COST}, or leave it out"
        )


def opened(path: Path, goals: Goals) -> optuna.Study:
    """The trials so far; BadInput for a file that cannot be read. The caller holds the folder alone.

    What a killed program left is put right: its lock, half a line at the end, trials that were under way.
    """
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
    directions = ["maximize" if o.largest else "minimize" for o in goals.objectives]
    try:
        text = path.read_bytes() if path.exists() else b""
        if not text.endswith(b"\n") and b"\n" in text:
            with path.open("r+b") as file:
                file.truncate(text.rindex(b"\n") + 1)
        storage = JournalStorage(JournalFileBackend(str(path), lock_obj=JournalFileOpenLock(str(path))))
        tried = optuna.create_study(storage=storage, study_name="search", load_if_exists=True, directions=directions)
        for trial in tried.trials:
            if trial.state.name == "RUNNING":
                tried.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    except Exception as error:  # what damaged lines make of the library has no common type
        said = " ".join(str(error).split())[:120]
        raise BadInput(f"{path}: cannot be gone on with ({said}); delete it to start again") from None
    return tried


def _search(of: Tuning, tried: optuna.Study, watch: Watch) -> None:
    """Play trials until there are enough; with one job each is suggested when the one before is finished."""
    under_way: dict[int, optuna.Trial] = {}
    with ON_PROCESSES.executor(of.jobs, of.out) as on:
        while True:
            ended = {row["number"] for row in _rows(tried)}
            while len(ended) + len(under_way) < of.trials and len(under_way) < of.jobs:
                number = min(set(range(1, of.trials + 1)) - ended - set(under_way))
                under_way[number] = asked(of, tried, number)
                on.begin(of.trial(f"trial-{number}", under_way[number].user_attrs["settings"], of.seeds))
            if not under_way:
                return
            job, end = on.ended()
            _keep(of, tried, under_way.pop(int(job.label.removeprefix("trial-"))), end)
            done = len(ended) + 1
            watch(Event("played", done, of.trials, done == of.trials, {"label": job.label}))


def asked(of: Tuning, tried: optuna.Study, number: int) -> optuna.Trial:
    """A trial with its settings, which follow from the finished trials, the seed and the number of the trial alone."""
    import optuna

    (drawn,) = np.random.SeedSequence([of.study.seed, number]).generate_state(1)
    excess = (lambda t: t.user_attrs.get("excess") or [0.0]) if of.goals.constraints else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.simplefilter("ignore", FutureWarning)  # Optuna 5 has another way, which Optuna 4 has not
        tried.sampler = optuna.samplers.TPESampler(
            seed=int(drawn), n_startup_trials=STARTS, constraints_func=excess
        )  # fmt: skip
    trial = tried.ask()
    settings = {key: _suggested(trial, key, one) for key, one in of.space.items()}
    trial.set_user_attr("number", number)
    trial.set_user_attr("settings", settings)
    return trial


def _suggested(trial: optuna.Trial, key: str, of: Distribution) -> Value:
    if of.choices is not None:
        return of.choices[trial.suggest_categorical(key, list(range(len(of.choices))))]
    low = float(of.low or 0.0)
    high = float(of.high or 0.0)
    if of.integer:
        return trial.suggest_int(key, int(low), int(high), log=of.log)
    return rounded(trial.suggest_float(key, low, high, log=of.log), low, high)


def _play_trial(job: Job, watch: Watch) -> list[Fields]:
    """The summaries of a trial, read back where they are finished; what a killed program began goes on."""
    given = job.options
    return [do(one) for one in given["of"].parts(job.folder, given["settings"], given["seeds"])]


TRIAL = JobKind("tuning", (), "", _play_trial)


def _each(goals: Goals, end: Answer | Failure) -> tuple[dict[str, FloatArray], str]:
    """The figures of all seeds by key, or why there are none. BadInput for keys that no trial can have."""
    if isinstance(end, Failure):
        return {}, end.line if end.kind == BAD_INPUT else f"{end.kind}: {end.line}"
    goals.check_found(end.value[0])
    each = {key: np.array([one.get(key) for one in end.value], dtype=float) for key in goals.keys}
    for key, values in each.items():
        if without := int((~np.isfinite(values)).sum()):
            return {}, f"{key} has no finite value with {counted(without, 'seed')} of {len(values)}"
    return each, ""


def _keep(of: Tuning, tried: optuna.Study, trial: optuna.Trial, end: Answer | Failure) -> None:
    """Tell the search how a trial ended, and keep its row of `trials`."""
    import optuna

    each, why = _each(of.goals, end)
    values = {key: float(v.mean()) for key, v in each.items()}
    number = trial.user_attrs["number"]
    row = {
        "number": number, "name": f"trial-{number}", "state": "finished" if values else "failed",
        "settings": trial.user_attrs["settings"], "values": values, "kept": bool(values) and of.goals.kept(values),
        "why": why,
    }  # fmt: skip
    trial.set_user_attr("excess", of.goals.excess(values) if values else [])
    trial.set_user_attr("row", row)
    state = optuna.trial.TrialState.COMPLETE if values else optuna.trial.TrialState.FAIL
    tried.tell(trial, [values[o.key] for o in of.goals.objectives] if values else None, state=state)


def _rows(tried: optuna.Study) -> list[Fields]:
    """The trials that came to an end, in the order of their numbers."""
    rows = [t.user_attrs["row"] for t in tried.trials if "row" in t.user_attrs]
    return sorted(rows, key=lambda row: row["number"])


def _verified(of: Tuning, row: Record) -> Fields:
    """The figures of a winner on fresh seeds: mean and half of its 95 % interval by key; nothing without seeds."""
    if not of.fresh:
        return {}
    each, error = _each(of.goals, attempt(of.trial(f"verify/{row['name']}", row["settings"], of.fresh)))
    if error:
        return {"error": error}
    values = {key: float(v.mean()) for key, v in each.items()}
    return {
        "values": values,
        "half_width": {key: half_width(v) if len(v) > 1 else None for key, v in each.items()},
        "kept": of.goals.kept(values),
    }


def _importances(tried: optuna.Study, of: Tuning) -> dict[str, dict[str, float]]:
    """Objective -> setting -> its share of the variance (functional ANOVA); nothing of few or equal trials.

    [Hutter, Hoos, Leyton-Brown, An Efficient Approach for Assessing Hyperparameter Importance, ICML 2014]
    """
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    done = [t for t in tried.trials if t.state.name == "COMPLETE"]
    found = {}
    for k, objective in enumerate(of.goals.objectives):
        if len(done) < _FEWEST or len({t.values[k] for t in done}) < 2:
            continue
        evaluator = FanovaImportanceEvaluator(seed=of.study.seed % 2**32)
        shares = get_param_importances(tried, evaluator=evaluator, target=lambda t, k=k: float(t.values[k]))
        found[objective.key] = {name: round(float(share), 4) for name, share in shares.items()}
    return found


def _write(of: Tuning, found: Fields, done: Sequence[Record], winners: Sequence[Record]) -> None:
    out = of.out
    points = [
        SweepPoint(
            row["name"], seed, f"{row['name']}/seed-{seed}", {**of.asked.overrides, **of.changes(row["settings"], seed)}
        )
        for row in done for seed in of.seeds
    ]  # fmt: skip
    write_runs(out, points, {i: read_json(out / p.folder / SUMMARY) for i, p in enumerate(points)})
    write_text(out / TRIALS_CSV, trials_csv(found))
    (out / BEST).unlink(missing_ok=True)
    if winners:
        winner = of.asked.changed(of.changes(winners[0]["settings"], of.study.seed)).study
        write_text(out / BEST, as_yaml(winner.model_dump(mode="json")))
    write_json(out / TUNING, found)


TUNED = JobKind(
    "tuning", _FILES, TUNING, lambda job, watch: tune(job.options["of"], watch), "study, goals or program version"
)
