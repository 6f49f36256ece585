"""Other channels for the same devices: the world drawn anew, for agents to train on and to be evaluated on."""

from __future__ import annotations

import numpy as np

from netsim.errors import BadInput
from netsim.radio.shared_band import SharedBand
from netsim.rng import Streams
from netsim.units import FloatArray
from scenarios.app.run.channel import snr_of_round
from scenarios.app.study.study import Study

TRAINED, CHOSEN, HELD_OUT = "train", "judged", "held-out"
"""What channels are drawn for: to train on, to choose the best policy by, to report."""
_FAR = 2**40  # so that no scenario's own seed is drawn


def channel_draws(study: Study, n: int, purpose: str) -> FloatArray:
    """SNR at 1 W (n, K) of every UE in so many worlds of the study's, at its first deadline.

    The draws of two purposes share no world, and none is that of the study's seed.
    """
    if not isinstance(study.world.radio.uplink, SharedBand):
        raise BadInput("world.radio.uplink: ideal uplinks have no channel to draw; set kind: noma")
    seeds = Streams(study.seed).at(f"channels.{purpose}").uniform("seed", np.arange(n))
    gain = np.array([snr_of_round(study, int(seed)) for seed in (seeds * _FAR).astype(np.int64) + _FAR])
    if not (gain > 0).all():
        raise BadInput("train.draws: a UE has no base station in some draw; draw channels for UEs that never leave")
    return gain
