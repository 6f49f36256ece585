"""What everybody knows of the base stations of a world."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fl.types import Antennas
from netsim.base_stations import BaseStation


def antennas_of(stations: Sequence[BaseStation], cells: Sequence[str]) -> Antennas | None:
    """The base stations of all cells; None where a trace brings what was measured."""
    if not stations or len(stations) != len(cells):
        return None
    at_m = np.array([(*b.at_m, b.height_m) for b in stations])
    azimuth_deg = np.array([np.nan if b.azimuth_deg is None else b.azimuth_deg for b in stations])
    return Antennas(at_m, np.array([b.power_dbm for b in stations]), azimuth_deg)
