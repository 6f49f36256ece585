"""An eavesdropper's side of updates on the air."""

from __future__ import annotations

import numpy as np

from fl.round.setup import Setup
from fl.round.state import Eavesdropped
from fl.round.upload import Upload
from netsim.radio.airtime import noise_stds
from netsim.radio.sent import Sent
from netsim.radio.shared_band import own_signal_w
from netsim.radio.uplink import Channel


def overhear(setup: Setup, upload: Upload, sent: Channel) -> Eavesdropped | None:
    """The same transmissions, sent (n,) one entry a UE, at the eavesdropper's antenna; None where there is none.

    Planned ones disturb one another there as they do at base stations. Where they took their time it is left out who
    sent at the same time: she hears each alone, which is the most that she can hear.
    """
    if upload.overheard is None:
        return None
    antenna = upload.overheard
    if isinstance(sent, Sent):
        channel = _alone(setup, upload, sent)
    else:
        channel = setup.uplink.eavesdropped(antenna.cohort, upload.payload, sent)
    return Eavesdropped(channel.rows(upload.of_row), antenna.distance_m, antenna.los)


def _alone(setup: Setup, upload: Upload, sent: Sent) -> Channel:
    """The channel (n,) at an antenna that nobody else disturbs."""
    assert upload.overheard is not None  # noqa: S101 - asked before
    uplink, cohort = setup.uplink, upload.overheard.cohort
    signal_w = own_signal_w(cohort)
    rate_bps = uplink.alone_bps(signal_w)
    snr = signal_w / uplink.band_noise_w()
    rho = uplink.noise_scale(upload.payload)
    std = noise_stds(np.full(len(snr), rho), snr)
    whole = sent.sent_bits - sent.lost_bits >= upload.payload.n_bits * upload.cohort.rows
    heard = (snr > 0) & whole & ((rate_bps >= sent.rate_bps) if rho == 0 else True) & (sent.rate_bps > 0)
    return Channel(
        sent.power_w, snr, rate_bps, std, np.where(snr > 0, std, 0.0), sent.airtime_s, sent.delay_s, sent.energy_j,
        np.asarray(heard), np.zeros(len(snr), dtype=np.bool_),
    )  # fmt: skip
