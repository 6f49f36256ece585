"""The channel of a study's first round, without playing it."""

from __future__ import annotations

import numpy as np

from netsim.build import build_world
from netsim.rng import Streams
from netsim.units import FloatArray
from scenarios.app.study.study import Study


def snr_of_round(study: Study, seed: int) -> FloatArray:
    """SNR at 1 W (K,) of every UE at the first deadline of the study in the world of a seed; 0 without a cell."""
    world = build_world(study.world, Streams(seed), study.round_s)
    world.env.run(until=min(study.round_s, world.duration_s))
    ue = np.arange(len(world.ues))
    cohort = world.cohort(ue, world.links(), 1, np.ones(len(ue), dtype=np.int64), np.zeros(len(ue)))
    return study.world.radio.uplink.snr_per_w(cohort)
