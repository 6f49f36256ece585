"""What a power policy may know of a round before it begins: the links now, and where noise budgets stand."""

from __future__ import annotations

from math import sqrt

import numpy as np

from fl.learning import Learning
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
    cohort = world.cohort(np.arange(n), world.links(), round_, np.ones(n, dtype=np.int64), np.zeros(n))
    snr, scale = np.zeros(n), 0.0
    if isinstance(uplink, SharedBand) and cohort.gain.shape[1]:
        own = cohort.strength[np.arange(n), np.maximum(cohort.serving, 0)]
        snr = np.where((cohort.serving >= 0) & np.isfinite(own), own, 0.0) / uplink.band_noise_w()
        scale = _scale(learning, uplink, parts, n_numbers)
    standing = [d.standing(parts[f"defense.{d.label}"]) for d in learning.defenses]
    budgets = [s for s in standing if s is not None]
    rounds = float(np.ceil(world.duration_s / learning.every_s))
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


def _scale(learning: Learning, uplink: SharedBand, parts: dict[str, State], n_numbers: int) -> float:
    """rho = C / sqrt(q): what channel noise is multiplied by."""
    promises = [d.promise(parts[f"defense.{d.label}"]) for d in learning.defenses]
    bound = next((p for p in reversed(promises) if p is not None), uplink.norm_bound)
    return 0.0 if bound is None or uplink.decoding == "error-free" else bound / sqrt(n_numbers)


def _together(stds: list[FloatArray], n: int) -> FloatArray:
    """Standard deviation (n,) of independent noises added."""
    return np.asarray(np.sqrt(sum((s**2 for s in stds), np.zeros(n))))
