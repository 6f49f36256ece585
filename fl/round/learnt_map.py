"""The signal map that was learnt."""

from __future__ import annotations

import numpy as np

from fl.round.setup import Setup
from fl.round.state import RoundState
from netsim.units import FloatArray


def learnt_map(setup: Setup, state: RoundState, place_m: FloatArray) -> FloatArray | None:
    """RSRP (n,) in dBm that the models predict at places (n, 2), the largest over trained cells.

    NaN where no cell is trained; None for a task without signals at places.
    """
    if not {"signals", "positions"} <= setup.learning.data.offers:
        return None
    known = state.reference
    n_cell = int(known.cell.max(initial=0)) + 1
    model_of, cell = np.divmod(np.unique(known.model * n_cell + known.cell), n_cell)
    return setup.learning.learner.strongest_dbm(state.model, place_m, model_of, cell)
