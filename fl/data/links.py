"""Measurements of links, by which one joint model learns all base stations, and positions of
UEs.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from pydantic import Field

from fl.data import EARLIER_RECORDS, HELD_OUT_PLACES, Data, TakenData
from fl.data.hold_out import hold_out_samples
from fl.data.samples import Signals, recall_samples
from fl.types import HeldOut, Local, State, list_offers
from netsim.errors import BadInput
from netsim.rng import Rng
from netsim.ues import Observations
from netsim.units import IntArray, Texts

MAP = "map"
LINKS = 0
STATIONS = 1
POSITIONS = 2
"""`HeldOut.group`: other links of those that train; base stations that no training saw; UEs that
never train"""


@dataclass(frozen=True)
class Survey:
    """surveyed: the observations of the first round that had any, where all rounds learn from it;
    past: what UEs have measured so far, where they learn from all of it.
    """

    surveyed: Observations | None
    past: Signals


class _OneModelData(Data):
    """Data of all cells that one model learns from."""

    def assign_models(self, cells: Texts, models: Texts) -> IntArray:
        return np.zeros(len(cells), int)


class LinkMeasurements(_OneModelData, kind="links"):
    """Measurements of all base stations that a UE receives; one joint model is trained on them.

    `memory: first` is a survey: the measurements of the first round that has any are the training
    data of all rounds; `round` uses the measurements of the current round only; `all` uses all
    measurements of a UE so far.

    `hold_out_stations` base stations and `hold_out_ues` UEs are drawn once, and none of their links
    is used in training. They evaluate the map at new base stations for the same UEs, and at new
    positions. Held-out UEs send nothing and are not attacked. `hold_out` is a share of the other
    links.
    """

    memory: Literal["first", "round", "all"] = "first"
    """training data of a UE: the links of its first round, those of the current round, or all of
    its links so far"""
    hold_out: float = Field(0.0, ge=0, le=0.9)
    """share of links held out of training for evaluation"""
    hold_out_stations: int = Field(0, ge=0, le=4096)
    """number of base stations held out of training for evaluation"""
    hold_out_ues: int = Field(0, ge=0, le=1_000_000)
    """number of UEs held out of training for evaluation"""

    reference = (
        "Geometry-Aligned Differential Privacy for Location-Safe Federated Radio Map "
        "Construction, Section II"
    )
    example = {"kind": "links", "hold_out": 0.2}

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        held_out = bool(self.hold_out or self.hold_out_stations or self.hold_out_ues)
        words = {
            "positions": True,
            "links": True,
            EARLIER_RECORDS: self.memory == "all",
            HELD_OUT_PLACES: held_out,
        }
        return list_offers(words)

    @property
    def surveys_once(self) -> bool:
        return self.memory == "first"

    @property
    def ties_ues(self) -> str:
        if self.surveys_once:
            return (
                "with memory: first all learn from the round in which a UE measures first; "
                "take memory: round or all"
            )
        if self.hold_out_ues:
            return (
                "with hold_out_ues one UE takes the place of another among those held out; "
                "set it to 0"
            )
        return ""

    def choose_models(self, cells: Texts, counts: IntArray | None) -> Texts:
        if self.hold_out_stations >= len(cells):
            raise BadInput(
                f"learning.data.hold_out_stations: {self.hold_out_stations} of {len(cells)} base "
                "stations leaves none to learn from; keep fewer back"
            )
        return (MAP,)

    def start(self, n_ue: int, rng: Rng) -> Survey:
        return Survey(None, Signals.empty())

    def take(
        self, observed: Observations, model_of_cell: IntArray, state: Survey, rng: Rng
    ) -> tuple[TakenData, Survey]:
        again = state.surveyed is not None
        observed = state.surveyed or observed
        observed = observed.select(np.lexsort((observed.cell, observed.time_s, observed.ue)))
        ues = np.unique(observed.ue)
        stations = np.arange(len(model_of_cell))
        if self.hold_out_ues >= len(ues) > 0:
            raise BadInput(
                f"learning.data.hold_out_ues: {self.hold_out_ues} of {len(ues)} UEs that "
                "measured leaves no UE to learn; keep fewer back"
            )
        lots = replace(rng, round=0)  # they depend on the seed alone, not on the measurements
        new_ue = np.isin(observed.ue, _draw_first(lots, "ue", ues, self.hold_out_ues))
        new_station = np.isin(
            observed.cell, _draw_first(lots, "station", stations, self.hold_out_stations)
        )
        other = hold_out_samples(observed, observed.cell, self.hold_out, lots, "link")
        out = new_station | new_ue | other
        kept = observed.select(~new_ue)
        measured = Signals.from_observations(kept, np.zeros_like(kept.ue)).to_local()
        train = fresh = measured.keep(~out[~new_ue])
        past = state.past
        if self.memory == "all":
            new_samples = Signals.from_local(fresh)
            train = recall_samples(new_samples, past, fresh.row, None, rng)
            past = past.add(new_samples)
        surveyed = observed if self.memory == "first" and len(observed) else state.surveyed
        # a new UE measures old base stations only: its figure is about places
        held = out & ~(new_ue & new_station) & (not again)
        group = np.where(new_ue, POSITIONS, np.where(new_station, STATIONS, LINKS))[held]
        scored = observed.select(held)
        zero = np.zeros_like(scored.ue)
        held_out = HeldOut(scored.ue, zero, scored.position_m, scored.rsrp_dbm, scored.cell, group)
        new = fresh.keep(np.zeros(len(fresh.x), np.bool_)) if again else fresh
        return TakenData(measured, train, held_out, new), Survey(surveyed, past)


def _draw_first(lots: Rng, subject: str, numbers: IntArray, count: int) -> IntArray:
    """`count` of numbers (n,), the first of a random order."""
    return numbers[np.argsort(lots.uniform(f"hold out {subject}", numbers), kind="stable")[:count]]


AREA = "area"


class Positions(_OneModelData, kind="positions"):
    """The position of every UE at the end of the round, which is its last fix in the round.

    No sample is held out: all true positions of a round evaluate the map of that round only,
    because UEs move. There is one model for the whole area.
    """

    reference = "Zong et al., Privacy by Projection, PoPETs 2023, Section 2.1"
    offers = frozenset({"positions", HELD_OUT_PLACES})
    scores_round_alone = True

    def choose_models(self, cells: Texts, counts: IntArray | None) -> Texts:
        return (AREA,)

    def take(
        self, observed: Observations, model_of_cell: IntArray, state: State, rng: Rng
    ) -> tuple[TakenData, State]:
        order = np.lexsort((observed.time_s, observed.ue))
        last = observed.select(order[np.diff(observed.ue[order], append=-1) != 0])
        model = np.zeros_like(last.ue)
        places = Local(
            last.ue, model, np.arange(len(last) + 1), last.position_m, None, last.time_s, last.cell
        )
        held_out = HeldOut(last.ue, model, last.position_m, last.rsrp_dbm, last.cell)
        return TakenData(places, places, held_out), state
