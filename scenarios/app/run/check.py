"""What a run would refuse before its first round, without playing it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from scenarios.app.run.how import USUAL, How, one_thread
from scenarios.app.run.setup import ready
from scenarios.app.study.load import Scenario
from scenarios.app.study.study import Study

if TYPE_CHECKING:
    from scenarios.app.run.points import SweepPoint


def check(study: Study, thorough: bool = False, how: How = USUAL) -> tuple[str, ...]:
    """Refuse what `run` would refuse before its first round, by what it does itself; reference runs are left out.
    Returns what it would warn of.

    Unless thorough, what takes time and hardly ever refuses anything is left out too: movement that is played
    beforehand, and first models of anything but images.
    """
    if study.learning is None:
        from scenarios.app.run.radio import radio_world

        with how.within():
            return radio_world(study)[0].warnings
    with how.within(), one_thread() if thorough else nullcontext():
        world, setup = ready(study, Path(), thorough)
        if thorough or setup.public.images is not None:
            from fl.round.state import begin  # not at the top: most checks do without

            begin(setup, len(world.ues))
    return world.warnings


def check_prepared(
    source: str | Path, todo: Sequence[tuple[SweepPoint, Study]], every: bool = False, how: How = USUAL
) -> list[str]:
    """Refuse what a run of one of the points would refuse before its first round: its files are read, its world built.

    Of a setting the first seed is looked at, and its movement is not played beforehand; `every`: each run, wholly.
    Returns what they would warn of.
    """
    if not todo:
        return []
    from scenarios.app.run.points import named  # not at the top: most scenarios vary nothing

    scenario, seen, warnings = Scenario(source), set[str](), list[str]()
    for point, study in todo:
        setting = point.folder if every else point.folder.rpartition("/")[0]
        if setting not in seen:
            seen.add(setting)
            with named(point), scenario.placed(point.overrides, point.origins):
                warnings.extend(check(study, every, how))
    return warnings
