"""The query slot: every UE's own answer to the server's request, before it touches its data."""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np

from fl.density.surfaces import band_probability
from fl.types import LastFigures, Metrics, Request, RoundContext, State
from netsim.part import OneOf, Part
from netsim.units import BoolArray, IntArray

BANDS = 3  # assumed of a policy that states no number


class Query(Part):
    """A policy by which a UE accepts or refuses a round. It must not depend on position or motion."""

    kind: str

    def start(self, n_ue: int) -> State:
        """The first state; None for a policy without memory."""
        return None

    @abstractmethod
    def accept(self, ue: IntArray, facts: RoundContext, state: State) -> tuple[BoolArray, State]:
        """Which of the UEs (n,) answer."""

    def figures(self, state: State) -> Metrics:
        """Figures of the last round for the table `metrics`; names with units."""
        return dict(getattr(state, "figures", {}))


def bands_said(request: Request | None, bands: int) -> Metrics:
    """Probability of `bands` bands at the largest requested bandwidth by Lemma 3; empty without a request."""
    if request is None:
        return {}
    side_m = float(request.area.side_m[: request.dimensions].min())
    probability = band_probability(float(request.bandwidth_m.max()), side_m, bands, request.dimensions)
    return {"bands": float(bands), "bands_probability": probability}


class Off(Query):
    """No policy: every UE answers every request."""

    kind: Literal["off"] = "off"
    reference: ClassVar = "the usual assumption of federated learning papers"

    def start(self, n_ue: int) -> LastFigures:
        return LastFigures()

    def accept(self, ue: IntArray, facts: RoundContext, state: LastFigures) -> tuple[BoolArray, LastFigures]:
        return np.ones(len(ue), dtype=bool), LastFigures(bands_said(facts.request, BANDS))


QUERIES = OneOf(
    "query",
    Off,
    places={
        "strict": "fl.query.policies:Strict",
        "custom": "fl.query.policies:Custom",
    },
)
