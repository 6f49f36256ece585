"""Serving cells over time: hysteresis and time to trigger."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from netsim.part import Part
from netsim.units import BoolArray, FloatArray

State = dict[str, Any]


class Handover(Part):
    """A UE changes cell when another has been stronger by a margin for some time (event A3).

    RSRP_neighbour > RSRP_serving + hysteresis_db throughout time_to_trigger_s. It is looked at once a tick, so a
    shorter time to trigger than a tick means at the next tick. A UE that appears, or whose cell is not heard any
    more, attaches to the strongest at once.
    Source: 3GPP TS 38.331, Section 5.5.4.4, without layer-3 filtering and offsets.
    """

    hysteresis_db: float = Field(default=3.0, ge=0, le=30)
    """margin by which the other cell must be stronger"""
    time_to_trigger_s: float = Field(default=0.16, ge=0, le=1e5)
    """how long it must be so"""

    @staticmethod
    def start(n_ue: int) -> State:
        """Nobody is attached."""
        none = np.full(n_ue, -1, dtype=np.int64)
        return {"serving": none, "candidate": none, "since_s": np.zeros(n_ue)}

    def step(self, state: State, rsrp_dbm: FloatArray, time_s: float) -> tuple[State, BoolArray]:
        """The next state from RSRP (n_ue, n_bs) now, and who was handed over (n_ue,).

        First attachments and disappearances are no handovers.
        """
        present = np.asarray(np.isfinite(rsrp_dbm).all(axis=1))
        rsrp = np.where(present[:, None], rsrp_dbm, -np.inf)
        n = np.arange(len(rsrp))
        best = np.argmax(rsrp, axis=1)
        serving, candidate, since = state["serving"], state["candidate"], state["since_s"]
        attached = present & (serving >= 0)
        better = attached & (best != serving)
        better &= rsrp[n, best] > np.where(attached, rsrp[n, np.maximum(serving, 0)], 0.0) + self.hysteresis_db
        same = better & (candidate == best)
        since = np.where(same, since, time_s)
        candidate = np.where(better, best, -1)
        moved = better & (time_s - since >= self.time_to_trigger_s)
        serving = np.where(present, np.where(moved | (serving < 0), best, serving), -1)
        return {"serving": serving, "candidate": np.where(moved, -1, candidate), "since_s": since}, moved
