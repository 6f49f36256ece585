"""What a power policy may know of a round before it begins: the links now, and where noise budgets stand."""

from __future__ import annotations

import numpy as np

from fl.round.setup import Setup
from fl.round.state import PartStates
from fl.round.transmit import payload_of
from netsim.radio.power import PowerContext
from netsim.units import FloatArray, IntArray
from netsim.world import World


def power_context(
    world: World, setup: Setup, states: PartStates, n_numbers: int, round_: int, ue: IntArray
) -> PowerContext:
    """The context of a round in which the UEs (n,) send updates of n_numbers.

    states : of all parts, as they were left by the round before. Noise of several budgets adds in variance.
    """
    n, learning = len(world.ues), setup.learning
    cohort = world.cohort(np.arange(n), world.links(), round_, np.ones(n, dtype=np.int64), np.zeros(n))
    budgets = states.standings(learning)
    rounds = float(world.clock.rounds(world.duration_s, learning.round_s))
    rounds = min(rounds, learning.rounds or np.inf)
    return PowerContext(
        sends=ue,
        snr_per_w=setup.uplink.snr_per_w(cohort),
        scale=setup.uplink.noise_scale(payload_of(n_numbers, states.norm_bound(learning))),
        required_std=_together([s.required_std for s in budgets], n),
        drawn_std=_together([s.drawn_std for s in budgets], n),
        budget_left=min((s.budget_left for s in budgets), default=1.0),
        progress=min((round_ - 1) / rounds, 1.0),
    )


def _together(stds: list[FloatArray], n: int) -> FloatArray:
    """Standard deviation (n,) of independent noises added."""
    return np.asarray(np.sqrt(sum((s**2 for s in stds), np.zeros(n))))
