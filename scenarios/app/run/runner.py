"""Run a study: plan it if it has a plan, then play it."""

from __future__ import annotations

from pathlib import Path

from netsim.cache import cache_folder
from scenarios.app.result import Result
from scenarios.app.run.checkpoints import Watch
from scenarios.app.run.garbage import seldom_collected
from scenarios.app.run.how import USUAL, How
from scenarios.app.run.planning import planned
from scenarios.app.run.radio import play_radio
from scenarios.app.run.simulate import simulate
from scenarios.app.run.threads import one_thread
from scenarios.app.study.study import Study


def run(
    study: Study,
    out: str | Path,
    watch: Watch | None = None,
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
    how.check()
    with how.within(), seldom_collected():
        if study.learning is None:
            return Result(Path(out), play_radio(study, out, watch, command, replace, how))
        with one_thread():
            summary = simulate(study, out, watch, command, replace, planned(study, cache_folder()), how)
    return Result(Path(out), summary)
