"""Context of a power policy before a round: the links now, and the standings of noise budgets."""

from __future__ import annotations

import numpy as np

from fl.defenses import Standing
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
    n, learning, threat = len(world.ues), setup.learning, setup.learning.threat
    cohort = world.cohort(np.arange(n), world.links(), round_, np.ones(n, dtype=np.int64), np.zeros(n))
    budgets = states.standings(learning)
    rounds = float(world.clock.rounds(world.duration_s, learning.round_s))
    rounds = min(rounds, learning.rounds or np.inf)
    payload, time_s = payload_of(n_numbers, states.norm_bound(learning)), float(world.env.now)
    overheard = None
    if threat.position_m is not None:
        overheard, _ = world.cohort_at(threat.position_m, threat.antenna_m, cohort, time_s, round_, threat.antennas)
    row_ue, _, row_std, _ = rows_of(budgets)
    return PowerContext(
        sends=ue,
        snr_per_w=setup.uplink.snr_per_w(cohort),
        scale=setup.uplink.noise_scale(payload),
        required_std=_together([s.required_std for s in budgets], n),
        drawn_std=_together([s.drawn_std for s in budgets], n),
        budget_left=min((s.budget_left for s in budgets), default=1.0),
        progress=min((round_ - 1) / rounds, 1.0),
        row_ue=row_ue,
        row_required_std=row_std,
        cohort=cohort,
        overheard=overheard,
        n_bits=payload.n_bits,
        uplink=setup.uplink,
        max_power_w=world.max_power_w,
    )


def rows_of(budgets: list[Standing]) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """UE, model, and noise required of and drawn on each row (R,) of the last round, of all budgets together; by UE,
    then by model.
    """
    ue, model, required, drawn = (
        np.concatenate([getattr(s, name) for s in budgets]) if budgets else np.zeros(0)
        for name in ("row_ue", "row_model", "row_required_std", "row_drawn_std")
    )
    rows, of = np.unique(np.stack([ue, model]).astype(np.int64), axis=1, return_inverse=True)
    stds = [np.sqrt(np.bincount(of.reshape(-1), weights=s**2, minlength=rows.shape[1])) for s in (required, drawn)]
    return rows[0], rows[1], stds[0], stds[1]


def _together(stds: list[FloatArray], n: int) -> FloatArray:
    """Standard deviation (n,) of independent noises added."""
    return np.sqrt(sum((s**2 for s in stds), np.zeros(n)))
