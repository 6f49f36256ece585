"""What the planned channel does to an update on its way."""

from __future__ import annotations

from fl.types import Received, Updates
from netsim.radio.uplink import Channel, Payload
from netsim.rng import Rng
from netsim.row_id import row_id

BITS_PER_NUMBER = 32


def payload_of(n_numbers: int, norm_bound: float | None) -> Payload:
    """What an update of so many numbers is on the air; norm_bound: what defenses promise of its L2 norm."""
    return Payload(n_numbers * BITS_PER_NUMBER, n_numbers, norm_bound)


def send(updates: Updates, channel: Channel, rng: Rng) -> Received:
    """Add the decoder's noise (std channel.noise_std (n,) per number, real) and say who was heard."""
    if channel.noise_std.any():
        owner = row_id(updates.ue, updates.model)
        noise = rng.normal("decoder", owner, (updates.n_parameters,))
        updates = updates.plus(channel.noise_std[:, None] * noise)
    return Received(updates, channel.decoded)
