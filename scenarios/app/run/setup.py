"""From a study to a run that can be played: what cannot be played is refused here."""

from contextlib import nullcontext
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from fl.round.assembly import check_count, check_ticks, prepare_rounds
from fl.round.setup import Setup
from netsim.clock import find_first_multiple
from netsim.errors import BadInput
from netsim.notice import Notice
from netsim.world.world import World
from scenarios.app.run.how import DEFAULT_RESOURCES, Resources, use_one_thread
from scenarios.app.run.measured import read_measured
from scenarios.app.run.notices import find_study_notices
from scenarios.app.study.notice import notice
from scenarios.app.study.study import Study


def prepare_run(study: Study, folder: Path, rehearsed: bool = True) -> tuple[World, Setup]:
    """Return the world of a study and its rounds: all files are read, and what cannot be played is
    refused.
    """
    learning = study.learned
    world = study.build_world()
    setup = prepare_rounds(world, learning, folder, study.power, rehearsed)
    world.notices += (*find_study_notices(study, world),)
    return world, setup


MAX_WINDOWS = 200  # after each progress is shown, and a run can be interrupted without losing it
LONGEST_WINDOW_S = 3600.0
MAX_INSTANTS = 1e8  # at which UEs are sampled
# between two looks at handover, beyond which moving UEs keep cells that they have left behind
SLOW_LOOK_S = 10.0


@dataclass(frozen=True)
class Windows:
    """When UEs are sampled: `instants` times, every_s apart from 0 on, in windows of `window`
    instants.
    """

    every_s: float
    instants: int
    window: int


def build_radio_world(study: Study) -> tuple[World, Windows]:
    """Return the world of a study and when it is sampled: all files are read, and what cannot be
    played is refused.

    Samples are taken every measurement_period_s; once a tick where the mobility model says itself
    when UEs measure.
    """
    world = study.build_world()
    if not world.stations:
        raise BadInput(
            "world.base_stations: a study without `learning:` records what base stations are "
            "received with, and there is none; list some, or take a layout"
        )
    measured = () if study.measured is None else read_measured(study.measured).notices
    world.notices += (*measured, *find_study_notices(study, world))
    check_ticks(world)
    world.measurement_period_s = None  # the samples are taken here
    every_s = study.world.ues.measurement_period_s or study.world.tick_s
    check_count(
        "world.ues.measurement_period_s",
        every_s,
        (world.duration_s / every_s),
        "samples of every UE",
        MAX_INSTANTS,
    )
    instants = max(find_first_multiple(world.duration_s, every_s), 1)
    longest = max(int(LONGEST_WINDOW_S / every_s), ceil(instants / MAX_WINDOWS))
    look_s = min(world.tick_s, every_s)
    if world.handover is not None and look_s > SLOW_LOOK_S:
        world.notices += (notice("handover-slow", every_s=look_s),)
    return world, Windows(every_s, instants, max(1, min(longest, ceil(instants / 20))))


def check_study(
    study: Study, thorough: bool = False, resources: Resources = DEFAULT_RESOURCES
) -> tuple[Notice, ...]:
    """Refuse what `run` would refuse before its first round, by what it does itself; reference runs
    are left out. Returns what is known before a run.

    Unless thorough, what takes time and hardly ever refuses anything is left out too: movement that
    is played beforehand, code that a user brings, and first models.
    """
    if study.learning is None:
        with resources.limit_memory():
            return build_radio_world(study)[0].notices
    with resources.limit_memory(), use_one_thread() if thorough else nullcontext():
        world, setup = prepare_run(study, Path(), thorough)
        if thorough:
            from fl.round.state import start_state  # not at the top: most checks do without

            start_state(setup, len(world.ues))
    return world.notices
