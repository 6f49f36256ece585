"""What the planned channel does to an update on its way."""

from __future__ import annotations

from fl.types import Received, Updates
from netsim.radio.uplink import Channel
from netsim.rng import Rng


def send(updates: Updates, channel: Channel, rng: Rng) -> Received:
    """Add the decoder's noise (std channel.noise_std (n,) per number, real) and say who was heard."""
    if channel.noise_std.any():
        owner = updates.ue * 4096 + updates.model
        noise = rng.normal("decoder", owner, (updates.n_parameters,))
        updates = updates.plus(channel.noise_std[:, None] * noise)
    return Received(updates, channel.decoded)
