"""What a power policy may know of a round before it begins: the links now, and where noise budgets stand."""

from __future__ import annotations

import numpy as np

from fl.learning import Learning
from fl.round.transmit import payload_of
from fl.types import State
from netsim.radio.power import Situation
from netsim.radio.shared_band import SharedBand
from netsim.radio.uplink import Uplink
from netsim.units import FloatArray, IntArray
from netsim.world import World


def situation(
    world: World, learning: Learning, uplink: Uplink, parts: dict[str, State], n_numbers: int, round_: int, ue: IntArray
) -> Situation:
    """The situation of a round in which the UEs (n,) send updates of n_numbers.

    parts : the states of all parts, as they were left by the round before. Noise of several budgets adds in variance.
    """
    n = len(world.ues)
    snr, scale = np.zeros(n), 0.0
    if isinstance(uplink, SharedBand):
        cohort = world.cohort(np.arange(n), world.links(), round_, np.ones(n, dtype=np.int64), np.zeros(n))
        snr, scale = uplink.snr_per_w(cohort), uplink.rho(payload_of(learning, parts, n_numbers))
    standing = [d.standing(parts[f"defense.{d.label}"]) for d in learning.defenses]
    budgets = [s for s in standing if s is not None]
    rounds = float(world.clock.rounds(world.duration_s, learning.round_s))
    rounds = min(rounds, learning.rounds or np.inf)
    return Situation(
        sends=ue,
        snr_per_w=snr,
        scale=scale,
        required_std=_together([s.required_std for s in budgets], n),
        drawn_std=_together([s.drawn_std for s in budgets], n),
        budget_left=min((s.budget_left for s in budgets), default=1.0),
        progress=min((round_ - 1) / rounds, 1.0),
    )


def _together(stds: list[FloatArray], n: int) -> FloatArray:
    """Standard deviation (n,) of independent noises added."""
    return np.asarray(np.sqrt(sum((s**2 for s in stds), np.zeros(n))))
