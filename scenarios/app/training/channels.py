"""Other channels for the same devices: the world drawn anew, for agents to train on and to be evaluated on."""

from __future__ import annotations

import numpy as np

from netsim.build import build_world
from netsim.errors import BadInput
from netsim.radio.shared_band import SharedBand
from netsim.rng import Streams
from netsim.units import FloatArray
from scenarios.app.study.study import Study

TRAINED, CHOSEN, HELD_OUT = "train", "judged", "held-out"
"""What channels are drawn for: to train on, to choose the best policy by, to report."""
_FAR = 2**40  # so that no scenario's own seed is drawn


def channel_draws(study: Study, n: int, purpose: str) -> FloatArray:
    """SNR at 1 W (n, K) of every UE in so many worlds of the study's, at its first deadline.

    The draws of two purposes share no world, and none is that of the study's seed.
    """
    uplink = study.world.radio.uplink
    if not isinstance(uplink, SharedBand):
        raise BadInput("world.radio.uplink: ideal uplinks have no channel to draw; set kind: noma")
    seeds = Streams(study.seed).at(f"channels.{purpose}").uniform("seed", np.arange(n))
    snrs = []
    for seed in (seeds * _FAR).astype(np.int64) + _FAR:
        world = build_world(study.world, Streams(int(seed)), study.round_s)
        world.env.run(until=min(study.round_s, world.duration_s))
        ue = np.arange(len(world.ues))
        cohort = world.cohort(ue, world.links(), 1, np.ones(len(ue), dtype=np.int64), np.zeros(len(ue)))
        snrs.append(uplink.snr_per_w(cohort))
    gain = np.array(snrs)
    if not (gain > 0).all():
        raise BadInput("train.draws: a UE has no base station in some draw; draw channels for UEs that never leave")
    return gain
