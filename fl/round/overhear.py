"""An eavesdropper's side of updates on the air."""

from __future__ import annotations

import numpy as np

from fl.round.setup import Setup
from netsim.radio.shared_band import own_signal_w
from netsim.radio.transmissions import SentUploads
from netsim.radio.uplink import Channel, Cohort, Payload, noise_std

_ROUNDING = 1e-9  # relative; the rate of a transmission that took its time is computed from its bits


def overhear(setup: Setup, antenna: Cohort, payload: Payload, sent: Channel) -> Channel:
    """Transmissions of UEs (n,), sent, at an eavesdropper's antenna; antenna: the same UEs with their links to it.

    Planned ones disturb one another there as they do at base stations. Where they took their time it is left out who
    sent at the same time: she hears each alone, at its mean power, which is the most that she can hear.
    """
    if not isinstance(sent, SentUploads):
        return setup.uplink.eavesdropped(antenna, payload, sent)
    uplink, signal_w = setup.uplink, own_signal_w(antenna.at_power(sent.power_w))
    rate_bps, snr, rho = uplink.alone_bps(signal_w), signal_w / uplink.band_noise_w(), uplink.noise_scale(payload)
    std = noise_std(rho, snr)
    whole = sent.sent_bits - sent.lost_bits >= payload.bits(antenna.rows)
    fast = rate_bps >= sent.rate_bps * (1 - _ROUNDING)
    heard = whole & (snr > 0) & (sent.rate_bps > 0) & ((rho > 0) | fast)
    return Channel(
        sent.power_w, snr, rate_bps, std, np.where(snr > 0, std, 0.0), sent.airtime_s, sent.delay_s, sent.energy_j,
        heard, np.zeros(len(snr), dtype=np.bool_),
    )  # fmt: skip
