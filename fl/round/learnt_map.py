"""The signal map that was learnt."""

from __future__ import annotations

import numpy as np

from fl.round.state import RoundState, Setup
from netsim.units import FloatArray


def learnt_map(setup: Setup, state: RoundState, place_m: FloatArray) -> FloatArray | None:
    """RSRP (n,) in dBm that the models predict at places (n, 2), the largest over cells that somebody trained on.

    NaN where nobody has trained; None for a task without signals at places.
    """
    if not {"signals", "positions"} <= setup.learning.data.offers:
        return None
    known = state.reference
    trained = np.unique(np.column_stack([known.model, known.cell]), axis=0)
    return setup.learning.learner.strongest_dbm(state.model, place_m, trained[:, 0], trained[:, 1])
