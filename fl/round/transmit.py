"""What the planned channel does to an update on its way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fl.learning import Learning
from fl.types import Received, State, Updates
from netsim.radio.shared_band import SharedBand
from netsim.radio.uplink import Channel, Cohort, Payload, Uplink
from netsim.rng import Rng
from netsim.row_id import row_id

BITS_PER_NUMBER = 32


def payload_of(learning: Learning, parts: Mapping[str, State], n_numbers: int) -> Payload:
    """What an update of so many numbers is on the air: the last bound that a defense promises holds for it."""
    promises = [d.promise(parts[f"defense.{d.label}"]) for d in learning.defenses]
    bound = next((p for p in reversed(promises) if p is not None), None)
    return Payload(n_numbers * BITS_PER_NUMBER, n_numbers, bound)


def send(updates: Updates, channel: Channel, rng: Rng) -> Received:
    """Add the decoder's noise (std channel.noise_std (n,) per number, real) and say who was heard."""
    if channel.noise_std.any():
        owner = row_id(updates.ue, updates.model)
        noise = rng.normal("decoder", owner, (updates.n_parameters,))
        updates = updates.plus(channel.noise_std[:, None] * noise)
    return Received(updates, channel.decoded)


def overheard(uplink: Uplink, cohort: Cohort, payload: Payload, sent: Channel) -> Channel:
    """The channel (n,) of the same transmissions at somebody else's antenna, for whom no deadline counts.

    cohort: the same UEs with their links to that antenna alone. It cancels like a base station, hears all cells at
    once, and decodes what the base station's rate (`sent`) allows: with error-free decoding only UEs whose rate there
    is at least the one they send at; with noisy decoding everybody, the worse the noisier. What it cannot cancel
    disturbs it as it disturbs a base station: an eavesdropper that decodes all cells jointly would hear more.
    """
    if not isinstance(uplink, SharedBand):
        raise TypeError(f"{uplink.kind_name()}: nothing is on the air")
    found = uplink.model_copy(update={"deadline_s": None, "max_ser": None}).plan(cohort, payload)
    if uplink.decoding == "noisy":
        return found
    return replace(found, decoded=found.decoded & (found.rate_bps >= sent.rate_bps) & (sent.rate_bps > 0))
