"""Several jobs of one folder, played by any engine; failures are kept and reported, and stop nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from netsim.errors import BadInput
from netsim.record import write_text
from scenarios.app.results.failures import Failed, write_failures
from scenarios.app.results.folder import ERROR, SUMMARY, ours
from scenarios.app.results.marker import held
from scenarios.app.run.events import Event, Watch, failed
from scenarios.app.run.executors.executor import Engine, played
from scenarios.app.run.executors.work import Failure, Work
from scenarios.app.run.job import Job
from scenarios.app.study.yaml_document import one_line


def do_all(jobs: Sequence[Job], engine: Engine, at_once: int, place: Path, watch: Watch) -> list[Any | Failed]:
    """The result of each job, or why it failed; those that their folders have are not played again.

    at_once : jobs at a time; 0: as many as the engine has room for. place : the folder in which all folders lie, which
    the caller holds; it gets failures.csv. watch : of each job as it ends, a run as `run`, any other as `played`.
    """
    found: dict[int, Any | Failed] = {i: done for i, job in enumerate(jobs) if (done := job.done()) is not None}
    for i in found:
        jobs[i].settle()
    left = [i for i in range(len(jobs)) if i not in found]

    def ended(k: int, end: Any | Failed) -> None:
        job, found[left[k]] = jobs[left[k]], end
        steps = (len(found), len(jobs))
        watch(failed(*steps, end) if isinstance(end, Failed) else _ended(job, place, *steps, end))

    play_all([jobs[i] for i in left], engine, at_once, place, ended)
    return [found[i] for i in range(len(jobs))]


def _ended(job: Job, place: Path, done: int, of: int, result: Any) -> Event:
    if job.kind.name != "run":
        return Event("played", done, of, done == of, {"label": f"seed {job.seed}"})
    folder = str(job.folder.relative_to(place))
    what = {"label": job.label, "seed": job.seed, "folder": folder, "summary": result}
    return Event("run", done, of, done == of, what)


def play_all(
    works: Sequence[Job | Work],
    engine: Engine,
    at_once: int,
    place: Path,
    ended: Callable[[int, Any | Failed], None],
) -> None:
    """Play all jobs; what fails is written down in failures.csv of `place`, and can be played again.

    ended : called with each as it ends: its number, and its result, or why it has none.
    """
    write_failures(place, [])
    failures: dict[int, Failed] = {}
    if not works:
        return
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(one_line(f"{place}: cannot be written ({error.strerror}); give --out another place")) from None
    for k, end in played(engine.executor(works, min(at_once, len(works)), place), len(works), engine.retries):
        if not isinstance(end, Failure):
            ended(k, end.value)
            continue
        work = works[k]
        if isinstance(work, Job):
            work.fail(end.trace)
        else:
            _keep_error(work, end)
        folder = str(work.folder.relative_to(place))
        failures[k] = Failed(folder, work.label, work.seed, end.attempts, end.kind, end.line)
        write_failures(place, [failures[i] for i in sorted(failures)])
        ended(k, failures[k])


def _keep_error(work: Work, failure: Failure) -> None:
    """Write `error.txt`. What an earlier study left as a finished run goes: it is not what was asked for."""

    def admit() -> None:
        ours(work.folder, work.kind.name, lambda _: False)

    try:
        with held(work.folder, work.kind.name, admit):
            (work.folder / SUMMARY).unlink(missing_ok=True)
            write_text(work.folder / ERROR, failure.trace)
    except (BadInput, OSError):
        pass  # the folder is not ours, or the disk is full: the table of failures has the line all the same
