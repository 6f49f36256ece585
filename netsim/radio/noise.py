r"""Thermal noise, and the SNR of a symbol error rate SER.

With Q the Gaussian tail and g the SNR of a QPSK symbol [Proakis and Salehi, Digital Communications, 5th ed., 4.3]:

    SER = 2 q - q^2,   q = Q(sqrt(g))
"""

from __future__ import annotations

import numpy as np

from netsim.units import BOLTZMANN_J_K

_TEMPERATURE_K = 290.0


def noise_w(bandwidth_hz: float, noise_figure_db: float) -> float:
    """Thermal noise k T B at 290 K times the noise figure, in watts."""
    return float(BOLTZMANN_J_K * _TEMPERATURE_K * bandwidth_hz * 10.0 ** (noise_figure_db / 10.0))


def threshold(error_rate: float) -> float:
    """The symbol SNR (linear) at which the SER is error_rate (exact inverse); 0 for a rate above the largest SER."""
    from scipy.special import ndtri

    q = 1.0 - np.sqrt(1.0 - error_rate)
    return float(min(ndtri(q), 0.0) ** 2)  # Q(x) above 1/2 would be a negative x
