"""`netsim tune`: trials suggested one after the other, the best of them played again on seeds that no trial used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim import __version__
from netsim.errors import BadInput
from netsim.record import write_json, write_text
from netsim.safe import what_is
from scenarios.app.results.folder import PAGE, STUDY, SUMMARY, is_text, no_links, read_json, read_summary, remove_run
from scenarios.app.results.read import RUNS
from scenarios.app.results.statistics import half_width
from scenarios.app.results.training_folder import TRAINING
from scenarios.app.results.tuning_folder import BEST, TRIALS_CSV, TUNING, trials_csv
from scenarios.app.run.check import check
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.executor import Answer, Attempts, Failure
from scenarios.app.run.how import USUAL, How
from scenarios.app.run.job import Job, JobKind, input_digests
from scenarios.app.run.points import SweepPoint, check_space
from scenarios.app.run.processes import ON_PROCESSES
from scenarios.app.run.sweep import others, write_runs
from scenarios.app.study.dump import as_yaml, study_yaml
from scenarios.app.study.load import Scenario, load
from scenarios.app.study.study import Study
from scenarios.app.study.vary import Distribution
from scenarios.app.tuning.goals import COST, Goals, best_of, front, of_training
from scenarios.app.tuning.trials import (
    Curves,
    Played,
    TrialPlan,
    importances,
    job_of,
    name_of,
    opened,
    play,
    required,
    suggested,
    suggested_by,
)

if TYPE_CHECKING:
    import optuna

JOURNAL = "trials.log"
_FILES = (STUDY, TUNING, TRIALS_CSV, BEST, RUNS, PAGE, JOURNAL, f"{JOURNAL}.lock")
_TRIALS = ("trial-*", "verify/trial-*")
Tell = Callable[[int, int, str], None]
"""told of finished runs or trials: how many of how many, and what"""


@dataclass(frozen=True)
class Tuning:
    """What is tuned: a scenario with changes, its goals and seeds; how many trials, jobs and fresh seeds."""

    source: str
    study: Study
    overrides: Mapping[str, Any]
    goals: Goals
    out: Path
    trials: int
    jobs: int = 1
    verify: int = 3
    command: str = "netsim tune"
    how: How = USUAL

    @property
    def space(self) -> Mapping[str, Distribution]:
        return {} if self.study.vary is None else self.study.vary.drawn

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of every trial."""
        return (self.study.vary.seed if self.study.vary else None) or (self.study.seed,)

    @property
    def trains(self) -> bool:
        """Whether trials are trainings: the space, or a goal, is of the training."""
        return bool(_trained(self.space)) or any(map(of_training, self.goals.keys))

    def plan(
        self, number: int, settings: Mapping[str, Any], seeds: tuple[int, ...], out: Path,
        others: Sequence[Curves] = (), how: How | None = None,
    ) -> TrialPlan:  # fmt: skip
        """What a trial with these settings plays."""
        changes = {**self.overrides, **settings}
        return TrialPlan(
            number, self.source, changes, seeds, out, self.goals, others, self.command, how or self.shared, self.trains
        )

    @property
    def fresh(self) -> tuple[int, ...]:
        """Seeds that no trial uses, for the figures of the winners."""
        first = max(self.seeds) + 1
        return tuple(range(first, first + self.verify))

    @cached_property
    def shared(self) -> How:
        """Of trials, which share the memory of this machine."""
        return self.how.among(min(self.jobs, self.trials))

    def job(self, replace: bool) -> Job:
        """The tuning as a job: what decides every trial, files that may be drawn among it."""
        choices = [(key, value) for key, one in self.space.items() for value in one.choices or ()]
        drawn = [
            load(self.source, {**self.overrides, key: value, "vary": None})
            for key, value in choices if isinstance(value, str | dict)
        ]  # fmt: skip
        read = {file: digest for study in (self.study, *drawn) for file, digest in input_digests(study).items()}
        notes = [f"tuning, program {__version__}", *self.goals.text.splitlines()]
        return Job(
            TUNED, study_yaml(self.study), self.study.seed, read, self.out, replace=replace, notes=notes,
            options={"of": self},
        )  # fmt: skip


def tune(of: Tuning, tell: Tell, replace: bool = False) -> dict[str, Any]:
    """Go on until so many trials are finished, then verify the winners; returns what `tuning.json` holds."""
    required("netsim tune")
    _admissible(of)
    job = of.job(replace)
    job.admit()
    _check_links(of)
    first = {**of.overrides, "vary": None, "seed": of.seeds[0]}
    with Scenario(of.source).placed(first):
        if of.trains:
            job_of(of.plan(1, {}, of.seeds, of.out), of.seeds[0])
        else:
            check(load(of.source, first), how=of.shared)
    other = not is_text(of.out / STUDY, job.text)
    with job.hold():
        for folder in others(of.out, of=_TRIALS) if other else ():
            _remove(folder)
        tried = opened(of.out / JOURNAL, [o.direction for o in of.goals.objectives])
        _search(of, tried, tell)
        rows = _rows(tried)
        winners = best_of(rows, of.goals)
        verified = {name_of(n): _verified(of, n, _row(rows, n)["settings"], tell) for n in winners}
        found = _found(of, tried, rows, winners, verified)
        _write(of, found)
    return found


def _remove(folder: Path) -> None:
    """Remove a run or a training of a trial."""
    if what_is(folder / TRAINING):
        from scenarios.app.training.train import FILES

        for name in FILES:
            (folder / name).unlink(missing_ok=True)
    remove_run(folder)


def _admissible(of: Tuning) -> None:
    vary = of.study.vary
    if vary is None or vary.random is None:
        raise BadInput(
            f"{of.source}: has no space to search; give it "
            "`vary: {random: {space: {KEY: {low: NUMBER, high: NUMBER}}}}`"
        )
    if vary.values or vary.zip or vary.variants:
        raise BadInput("vary: netsim tune searches vary.random; leave values, zip and variants out")
    if of.trains:
        _check_trainings(of)
    check_space(of.source, of.study, dict(of.overrides))


def _trained(keys: Iterable[str]) -> list[str]:
    """Those keys of a space on which trainings alone depend."""
    return [key for key in keys if key.partition(".")[0] == "train"]


def _check_trainings(of: Tuning) -> None:
    """Refuse a tuning of trainings without a training, or with goals of runs."""
    goals, searched = of.goals.keys, [f"vary.random.space.{key!r}" for key in _trained(of.space)]
    runs, (asks, *_) = [key for key in goals if not of_training(key)], [*searched, *filter(of_training, goals)]
    if of.study.train is None:
        raise BadInput(f"{asks}: is of a training, and {of.source} has no `train:` section; add one, or leave it out")
    if runs:
        raise BadInput(
            f"{asks}: changes a training and no run, and {runs[0]} is a figure of runs; take a key of trainings, such "
            f"as --objective {COST}, or leave it out"
        )


def _check_links(of: Tuning) -> None:
    """Refuse a folder in which a trial is a link."""
    runs = [str(folder.relative_to(of.out)) for folder in others(of.out, of=_TRIALS)]
    no_links(of.out, [*(name_of(n + 1) for n in range(of.trials)), *runs])


def _search(of: Tuning, tried: optuna.Study, tell: Tell) -> None:
    """Play trials until there are enough; with one job each is suggested when the one before is finished."""
    under_way: dict[int, optuna.Trial] = {}
    works: list[Job] = []  # grows with what is asked
    with ON_PROCESSES.executor(works, of.jobs, of.out) as on:
        attempts = Attempts(on, ON_PROCESSES.retries)
        while True:
            ended = {row["number"] for row in _rows(tried)}
            while len(ended) + len(under_way) < of.trials and len(under_way) < of.jobs:
                number = min(set(range(1, of.trials + 1)) - ended - set(under_way))
                trial, plan = _asked(of, tried, number)
                under_way[number] = trial
                works.append(
                    Job(TRIAL, "", of.study.seed, {}, of.out / name_of(number), name_of(number), options={"plan": plan})
                )
                on.begin(len(works) - 1)
            if not under_way:
                return
            k, end = attempts.ended()
            number, played = works[k].options["plan"].number, _outcome(end)
            if played.missing:
                raise BadInput(*played.missing)
            _told(of, tried, under_way.pop(number), played)
            tell(len(ended) + 1, of.trials, name_of(number))


def _play(job: Job, watch: Watch) -> Played:
    """A trial; its plan says which folders are its own."""
    return play(job.options["plan"])


TRIAL = JobKind("tuning", (), "", _play)


def _outcome(end: Answer | Failure) -> Played:
    """What became of a trial, whose worker may be lost for good."""
    if isinstance(end, Failure):
        return Played({}, {}, error=f"{end.kind}: {end.line}")
    played: Played = end.value
    return played


def _asked(of: Tuning, tried: optuna.Study, number: int) -> tuple[optuna.Trial, TrialPlan]:
    """A trial with its settings, and what it plays."""
    suggested_by(
        tried, of.study.seed, number, (lambda t: t.user_attrs["excess"] or [0.0]) if of.goals.constraints else None
    )
    trial = tried.ask()
    settings = suggested(trial, of.space)
    for name, value in (("number", number), ("settings", settings), ("excess", [])):
        trial.set_user_attr(name, value)
    others = [_curves(t.user_attrs["curves"]) for t in tried.trials if t.state.name == "COMPLETE"]
    return trial, of.plan(number, settings, of.seeds, of.out, others)


def _curves(kept: Mapping[str, Mapping[str, float]]) -> dict[int, dict[int, float]]:
    """Curves as JSON keeps them, whose names are texts."""
    return {int(seed): {int(n): value for n, value in curve.items()} for seed, curve in kept.items()}


def _told(of: Tuning, tried: optuna.Study, trial: optuna.Trial, played: Played) -> None:
    """Keep what became of a trial."""
    import optuna

    excess = of.goals.excess(played.values) if played.values else []
    said = {"values": played.values, "curves": played.curves, "excess": excess}
    for name, value in {**said, "ended": played.ended, "error": played.error, "over": True}.items():
        trial.set_user_attr(name, value)
    if played.values:
        tried.tell(trial, [played.values[o.key] for o in of.goals.objectives])
    elif played.ended:
        tried.tell(trial, state=optuna.trial.TrialState.PRUNED)
    else:
        tried.tell(trial, state=optuna.trial.TrialState.FAIL)


def _rows(tried: optuna.Study) -> list[dict[str, Any]]:
    """The trials that came to an end, in the order of their numbers."""
    states = {"COMPLETE": "finished", "PRUNED": "ended early", "FAIL": "failed"}
    rows = [
        {
            "number": t.user_attrs["number"], "name": name_of(t.user_attrs["number"]), "state": states[t.state.name],
            "settings": t.user_attrs["settings"], "values": t.user_attrs["values"],
            "kept": t.state.name == "COMPLETE" and all(e <= 0 for e in t.user_attrs["excess"]),
            "why": t.user_attrs["error"] or t.user_attrs["ended"],
        }
        for t in tried.trials
        if t.user_attrs.get("over") and t.state.name in states
    ]  # fmt: skip
    return sorted(rows, key=lambda row: row["number"])


def _row(rows: list[dict[str, Any]], number: int) -> dict[str, Any]:
    return next(row for row in rows if row["number"] == number)


def _summary(of: Tuning, folder: Path) -> dict[str, Any]:
    return read_json(folder / SUMMARY) if of.trains else read_summary(folder)


def _verified(of: Tuning, number: int, settings: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """The figures of a winner on fresh seeds: mean and half of its 95 % interval by key; nothing without seeds."""
    if not of.fresh:
        return {}
    plan = of.plan(number, settings, of.fresh, of.out / "verify", how=of.how)
    played = play(plan)
    if not played.values:
        return {"error": played.error}
    summaries = [_summary(of, plan.folder(seed)) for seed in of.fresh]
    each = {key: [float(s[key]) for s in summaries] for key in of.goals.keys}
    return {
        "values": played.values,
        "half_width": {k: half_width(v) if len(v) > 1 else None for k, v in each.items()},
        "kept": of.goals.kept(played.values),
    }


def _found(
    of: Tuning, tried: optuna.Study, rows: list[dict[str, Any]], winners: list[int], verified: Mapping[str, Any]
) -> dict[str, Any]:
    """What `tuning.json` holds."""
    if not any(row["state"] == "finished" for row in rows):
        raise BadInput(f"{of.out}: no trial finished; the last one: {rows[-1]['why']}")
    return {
        "kind": "tuning", "title": of.study.title, "scenario": of.source, "command": of.command,
        "overrides": dict(of.overrides), "plays": "train" if of.trains else "run",
        "objectives": [{"key": o.key, "direction": "max" if o.largest else "min"} for o in of.goals.objectives],
        "constraints": [c.text for c in of.goals.constraints],
        "space": {key: one.model_dump(mode="json") for key, one in of.space.items()},
        "seeds": list(of.seeds), "fresh_seeds": list(of.fresh),
        "ended_by": "" if of.goals.by is None else of.goals.by.key,
        "trials": rows, "best": [name_of(n) for n in winners], "front": [name_of(n) for n in front(rows, of.goals)],
        "verified": dict(verified), "importance": importances(tried, of.goals, of.study.seed),
    }  # fmt: skip


def _write(of: Tuning, found: dict[str, Any]) -> None:
    """The tables, the scenario of the winner, and last what the page is drawn from."""
    done = [row for row in found["trials"] if row["state"] == "finished"]
    points = [
        SweepPoint(
            row["name"], seed, f"{row['name']}/seed-{seed}",
            {**of.overrides, **row["settings"], "seed": seed, "vary": None},
        )
        for row in done for seed in of.seeds
    ]  # fmt: skip
    write_runs(of.out, points, {i: _summary(of, of.out / p.folder) for i, p in enumerate(points)})
    write_text(of.out / TRIALS_CSV, trials_csv(found))
    (of.out / BEST).unlink(missing_ok=True)
    if found["best"]:
        best = next(row for row in done if row["name"] == found["best"][0])
        winner = load(of.source, {**of.overrides, **best["settings"], "seed": of.study.seed, "vary": None})
        write_text(of.out / BEST, as_yaml(winner.model_dump(mode="json")))
    write_json(of.out / TUNING, found)


def _tune(job: Job, watch: Watch) -> dict[str, Any]:
    return tune(job.options["of"], lambda done, of, what: watch(Event("played", done, of, done == of, {"label": what})))


TUNED = JobKind("tuning", _FILES, TUNING, _tune, "study, goals or program version")
