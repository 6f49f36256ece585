"""Positions of UEs: one for each UE and round."""

from typing import ClassVar, Literal

import numpy as np

from fl.data.base import HELD_OUT_PLACES, Data, TakenData
from fl.types import HeldOut, Local, State
from netsim.rng import Rng
from netsim.ues import Observations
from netsim.units import IntArray

AREA = "area"


class Positions(Data):
    """The position of every UE at the end of the round, which is its last fix in the round.

    No sample is held out: all true positions of a round evaluate the map of that round only, because UEs move. There is
    one model for the whole area.
    """

    kind: Literal["positions"] = "positions"

    reference: ClassVar = "Zong et al., Privacy by Projection, PoPETs 2023, Section 2.1"
    offers: ClassVar = frozenset({"positions", HELD_OUT_PLACES})
    scores_round_alone: ClassVar = True

    def models(self, cells: tuple[str, ...], counts: IntArray | None) -> tuple[str, ...]:
        return (AREA,)

    def model_of_cell(self, cells: tuple[str, ...], models: tuple[str, ...]) -> IntArray:
        return np.zeros(len(cells), dtype=np.int64)

    def take(self, observed: Observations, model_of_cell: IntArray, state: State, rng: Rng) -> tuple[TakenData, State]:
        order = np.lexsort((observed.time_s, observed.ue))
        ue, first = np.unique(observed.ue[order], return_index=True)
        last = observed.select(order[np.append(first[1:], len(order)) - 1] if len(ue) else order)
        n, model = len(ue), np.zeros(len(ue), dtype=np.int64)
        places = Local(ue, model, np.arange(n + 1), last.position_m, None, last.time_s, last.cell)
        return TakenData(places, places, HeldOut(ue, model, last.position_m, last.rsrp_dbm, last.cell)), state
