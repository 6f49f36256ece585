"""When the UEs of a radio study are sampled, and the world that they are sampled in."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from netsim.build import build_world
from netsim.errors import BadInput
from netsim.multiples import first_multiple
from netsim.rng import Streams
from netsim.world import World
from scenarios.app.run.setup import check_ticks
from scenarios.app.study.study import Study

MOST_WINDOWS = 200  # after each progress is shown, and a run can be interrupted without losing it
LONGEST_WINDOW_S = 3600.0
MOST_INSTANTS = 1e8  # at which UEs are sampled
SLOW_LOOK_S = 10.0  # between two looks at handover, beyond which moving UEs keep cells that they have left behind


@dataclass(frozen=True)
class Plan:
    """When UEs are sampled: `instants` times, every_s apart from 0 on, in windows of `window` instants."""

    every_s: float
    instants: int
    window: int

    @classmethod
    def of(cls, study: Study, world: World) -> Plan:
        """Every measure_every_s; once a tick where the mobility model says itself when UEs measure."""
        every_s = study.world.ues.measure_every_s or study.world.tick_s
        if world.duration_s / every_s > MOST_INSTANTS:
            raise BadInput(
                f"world.ues.measure_every_s: {every_s:g} s makes {world.duration_s / every_s:.3g} samples of every UE, "
                f"at most {MOST_INSTANTS:g} are possible; measure less often"
            )
        instants = max(first_multiple(world.duration_s, every_s), 1)
        longest = max(int(LONGEST_WINDOW_S / every_s), ceil(instants / MOST_WINDOWS))
        return cls(every_s, instants, max(1, min(longest, ceil(instants / 20))))

    @property
    def windows(self) -> int:
        """Number of windows."""
        return ceil(self.instants / self.window)


def radio_world(study: Study) -> tuple[World, Plan]:
    """The world of a study and when it is sampled: all files are read, and what cannot be played is refused."""
    world = build_world(study.world, Streams(study.seed), study.round_s)
    if not world.stations:
        raise BadInput(
            "world.base_stations: a study without `learning:` records what base stations are received with, and there "
            "is none; list some, or take a layout"
        )
    check_ticks(world)
    world.measure_every_s = None  # the samples are taken here
    plan = Plan.of(study, world)
    look_s = min(world.tick_s, plan.every_s)
    if world.handover is not None and look_s > SLOW_LOOK_S:
        world.warnings += (
            f"handover is looked at every {look_s:g} s only: UEs that move keep cells that they have left behind; take "
            "a shorter world.tick_s",
        )
    return world, plan
