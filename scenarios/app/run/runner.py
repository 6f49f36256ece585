"""Run a study: plan it if it has a plan, then play it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from netsim.cache import cache_folder
from scenarios.app.result import Result
from scenarios.app.results.folder import STUDY
from scenarios.app.run.events import Watch, ignore
from scenarios.app.run.how import USUAL, How, one_thread, seldom_collected
from scenarios.app.run.job import Job
from scenarios.app.run.planning import planned
from scenarios.app.run.play import run_job
from scenarios.app.run.radio import play_radio
from scenarios.app.run.simulate import simulate
from scenarios.app.study.error_messages import build
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import read_text


def run(
    study: Study,
    out: str | Path,
    watch: Watch = ignore,
    command: str = "",
    replace: bool = False,
    how: How = USUAL,
) -> Result:
    """Run a study into the folder `out`; returns what it found.

    An unfinished run of the very same study in that folder is resumed from its last checkpoint and ends in the
    same bytes; a finished one is played again. The run of another study stays, and is refused, unless `replace`;
    then a checkpoint that cannot be used is forgotten as well. Everything runs on one thread, so results do not
    depend on the number of cores; sweeps use several processes instead. how : settings that change no result.
    """
    job = run_job(study, out, command=command, replace=replace, how=how)
    return Result(job.folder, _run(job, study, watch))


def play_job(job: Job, watch: Watch) -> dict[str, Any]:
    """One run, in any process."""
    return _run(job, build(Study, read_text(job.spec, str(job.folder / STUDY))), watch)


def _run(job: Job, study: Study, watch: Watch) -> dict[str, Any]:
    """One run of a study."""
    how = job.options["how"]
    how.check()
    with how.within(), seldom_collected():
        if study.learning is None:
            return play_radio(job, study, watch)
        with one_thread():
            return simulate(job, study, planned(study, cache_folder()), watch)
