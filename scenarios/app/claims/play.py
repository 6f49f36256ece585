"""The scenarios of claims played: runs that are no sweep side by side, then each sweep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from netsim.errors import BadInput
from netsim.safe import what_is
from scenarios.app.results.failures import Failed, failure_lines, read_failures
from scenarios.app.results.folder import MANIFEST, read_json
from scenarios.app.results.read import RUNS, SWEEP, listed
from scenarios.app.run.check import check
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.executors.executor import Engine, play_all
from scenarios.app.run.how import USUAL, How
from scenarios.app.run.job import Job
from scenarios.app.run.runner import run_job
from scenarios.app.run.sweep import sweep
from scenarios.app.study.load import find, load
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import one_line, read

Tell = Callable[[str, int, int, str], None]
"""told of a scenario that is played: its name, how many of its runs are finished, of how many, and what was last"""


def play(
    missing: Mapping[str, tuple[Path, Collection[str]]], out: Path, jobs: int, tell: Tell, engine: Engine,
    how: How = USUAL, replace: bool = False,
) -> dict[str, str]:  # fmt: skip
    """Play scenarios into their folders below `out`; returns why some of them have no runs, by name.

    missing : scenario -> its folder, and of a sweep the labels that are played (none: all of them). What is finished
    stays if it is of the same study, inputs and version of netsim, and is refused else, unless `replace`; the rest goes
    on. A run that fails is listed in failures.csv: of a sweep in its folder, of others in `out`.
    """
    why: dict[str, str] = {}
    alone: dict[str, Job] = {}
    sweeps: dict[str, Study] = {}
    singles: dict[str, Study] = {}
    for name, (folder, _) in missing.items():
        try:
            study = load(name)
            if study.vary is not None:
                sweeps[name] = study
                continue
            job = run_job(study, folder, replace=replace)
            job.admit()
            if job.done() is None:
                singles[name] = study
        except BadInput as error:
            why[name] = error.lines[0]
    shared = how.among(min(engine.here(jobs), len(singles)))
    for name, study in singles.items():
        folder = missing[name][0]
        try:
            check(study, how=shared)
            label = folder.relative_to(out).as_posix()
            alone[name] = run_job(study, folder, label, "netsim claims", replace, shared)
        except BadInput as error:
            why[name] = error.lines[0]
    if alone or any(not what_is(missing[name][0] / RUNS) for name in sweeps):
        engine.check()
    why |= _play_alone(alone, out, jobs, tell, engine)
    for name, study in sweeps.items():
        folder, labels = missing[name]
        try:
            sweep(name, study, folder, jobs, {}, _told(name, tell), replace, labels, engine=engine, how=how)
            if failed := read_failures(folder):
                why[name] = " ".join(failure_lines(failed))
        except BadInput as error:
            why[name] = error.lines[0]
    return why


def _play_alone(alone: Mapping[str, Job], out: Path, jobs: int, tell: Tell, engine: Engine) -> dict[str, str]:
    """Play runs that belong to no sweep, `jobs` at a time; returns why some failed, by name."""
    names, why = list(alone), dict[str, str]()

    def ended(k: int, end: Any) -> None:
        seed = f"seed {alone[names[k]].seed}"
        if isinstance(end, Failed):
            why[names[k]] = " ".join(failure_lines([end]))
            seed += f", failed: {end.error}"
        tell(names[k], 1, 1, seed)

    play_all(list(alone.values()), engine, jobs, out, ended)
    return why


def _told(name: str, tell: Tell) -> Watch:
    """What a sweep reports of a run of it, for its scenario."""

    def done(now: Event) -> None:
        failed = f", failed: {now.values['error']}" if now.name == "failed" else ""
        tell(name, now.done, now.of, f"{now.values['label']}, seed {now.values['seed']}{failed}")

    return done


def title_of(scenario: str) -> Any:
    """The title of a scenario."""
    return read(find(scenario)).data.get("title")


def title_in(folder: Path, where: str) -> Any:
    """The title that the runs in a folder carry."""
    if what_is(folder) != "folder":
        raise BadInput(one_line(f"{where}no such folder; give the folder of a run or of a sweep"))
    if what_is(folder / SWEEP) and (title := read_json(folder / SWEEP).get("title")):
        return title
    first = folder if what_is(folder / MANIFEST) else listed(folder)[0][1]
    return read_json(first / MANIFEST).get("title")


def check_title(folder: Path, scenario: str, where: str = "") -> None:
    """Refuse a folder whose runs are not of the scenario."""
    title, wanted = title_in(folder, where), title_of(scenario)
    if title != wanted:
        raise BadInput(
            one_line(
                f"{where}{folder} holds runs of {title!r}, but {scenario} is {wanted!r}; give the folder of its runs"
            )
        )
