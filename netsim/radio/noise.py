r"""Thermal noise, and the SNR of a symbol error rate SER.

With Q the Gaussian tail and g the symbol SNR [Proakis and Salehi, Digital Communications, 5th ed., Section 4.3]:

    bpsk   SER = Q(sqrt(2 g))
    qpsk   SER = 2 q - q^2,                q = Q(sqrt(g))
    16qam  SER = 1 - (1 - 3/2 q)^2,        q = Q(sqrt(g / 5))
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from netsim.units import BOLTZMANN_J_K

Modulation = Literal["bpsk", "qpsk", "16qam"]
_TEMPERATURE_K = 290.0


def noise_w(bandwidth_hz: float, noise_figure_db: float) -> float:
    """Thermal noise k T B at 290 K times the noise figure, in watts."""
    return float(BOLTZMANN_J_K * _TEMPERATURE_K * bandwidth_hz * 10.0 ** (noise_figure_db / 10.0))


def threshold(error_rate: float, modulation: Modulation) -> float:
    """The symbol SNR (linear) at which the SER is error_rate (exact inverse); 0 for a rate above the largest SER."""
    from scipy.special import ndtri

    if modulation == "bpsk":
        q, scale = error_rate, 0.5
    else:
        q = 1.0 - np.sqrt(1.0 - error_rate)
        q, scale = (q, 1.0) if modulation == "qpsk" else (q / 1.5, 5.0)
    return float(scale * min(ndtri(q), 0.0) ** 2)  # Q(x) above 1/2 would be a negative x
