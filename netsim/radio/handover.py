"""Serving cells over time: hysteresis and time to trigger."""

from dataclasses import dataclass, replace

import numpy as np
from pydantic import Field

from netsim.multiples import slack_s
from netsim.part import Part
from netsim.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Attachment:
    """serving (n_ue,): cell of each UE, -1 for none; since_s (n_ue, n_bs): time since which each cell has been stronger
    than the serving one by the margin, infinite if it is not.
    """

    serving: IntArray
    since_s: FloatArray


class Handover(Part):
    """A UE is handed over when a neighbour cell has been stronger by a margin for some time (event A3).

    RSRP_neighbour > RSRP_serving + hysteresis_db must hold throughout time_to_trigger_s, with a separate timer for each
    neighbour. Of the neighbours whose timer has expired the strongest is taken. The condition is evaluated once a tick,
    so a time to trigger below the tick length means the next tick. A UE that appears, or that no longer receives its
    cell, attaches to the strongest cell at once.
    Source: 3GPP TS 38.331, Sections 5.5.4.1 and 5.5.4.4, without layer-3 filtering and offsets.
    """

    hysteresis_db: float = Field(default=3.0, ge=0, le=30)
    """margin by which the neighbour cell must be stronger, dB"""
    time_to_trigger_s: float = Field(default=0.16, ge=0, le=1e5)
    """time for which the neighbour cell must be stronger, s"""

    @staticmethod
    def start(n_ue: int, n_bs: int) -> Attachment:
        """No UE is attached."""
        return Attachment(np.full(n_ue, -1, dtype=np.int64), np.full((n_ue, n_bs), np.inf))

    @staticmethod
    def attach(state: Attachment, ue: IntArray, rsrp_dbm: FloatArray) -> Attachment:
        """The next state: UEs (n,) without a cell attach to the strongest by rsrp_dbm (n, n_bs)."""
        new = state.serving[ue] < 0
        serving = state.serving.copy()
        serving[ue[new]] = np.argmax(rsrp_dbm[new], axis=1)
        return replace(state, serving=serving)

    def step(self, state: Attachment, rsrp_dbm: FloatArray, time_s: float) -> tuple[Attachment, BoolArray]:
        """The next state from the current RSRP (n_ue, n_bs), and which UEs were handed over (n_ue,).

        First attachments and detachments do not count as handovers.
        """
        present = np.asarray(np.isfinite(rsrp_dbm).all(axis=1))
        rsrp = np.where(present[:, None], rsrp_dbm, -np.inf)
        serving = state.serving
        attached = present & (serving >= 0)
        own = np.where(attached, rsrp[np.arange(len(rsrp)), np.maximum(serving, 0)], np.inf)
        better = rsrp > own[:, None] + self.hysteresis_db
        since = np.where(better, np.minimum(state.since_s, time_s), np.inf)
        span_s = self.time_to_trigger_s
        ready = since <= time_s - span_s + slack_s(span_s, time_s)
        moved = np.asarray(ready.any(axis=1))
        target = np.argmax(np.where(ready, rsrp, -np.inf), axis=1)
        best = np.argmax(rsrp, axis=1)
        serving = np.where(moved, target, np.where(serving < 0, best, serving))
        since[moved] = np.inf  # after a handover all timers of the UE restart
        return Attachment(np.where(present, serving, -1), since), moved
