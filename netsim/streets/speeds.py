"""Travel speeds of street classes on foot, by bicycle and by car."""

from __future__ import annotations

import numpy as np

from netsim.streets.graph import CLASSES, MODES
from netsim.units import FloatArray, IntArray

KM_H = 1 / 3.6
"""one kilometre an hour in m/s"""
WALK_M_S = 1.4
CYCLE_M_S = 4.5
DRIVE_M_S = {
    "primary": 50 * KM_H,
    "secondary": 50 * KM_H,
    "tertiary": 40 * KM_H,
    "residential": 30 * KM_H,
    "service": 15 * KM_H,
    "pedestrian": 0.0,
    "path": 0.0,
}
"""Speed of cars where no limit is known; 0 where cars are not allowed."""


def usual_m_s(street_class: IntArray) -> FloatArray:
    """Speeds (n, 3) of `MODES` on streets of the given classes (n,), indices into `CLASSES`, without a speed limit.

    Pedestrians use all classes at 1.4 m/s, bicycles all except `pedestrian` at 4.5 m/s, and cars `DRIVE_M_S`.
    """
    table = np.empty((len(CLASSES), len(MODES)))
    table[:, 0], table[:, 1] = WALK_M_S, CYCLE_M_S
    table[CLASSES.index("pedestrian"), 1] = 0.0
    table[:, 2] = [DRIVE_M_S[name] for name in CLASSES]
    return table[street_class]
