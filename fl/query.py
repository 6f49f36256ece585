"""The query slot: every UE's own answer to the server's request, before it touches its data."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np

from fl.types import Facts, State
from netsim.part import OneOf, Part
from netsim.units import BoolArray, IntArray


class Query(Part):
    """A policy that accepts or refuses a round. It must not look at position or motion."""

    kind: str

    def start(self, n_ue: int) -> State:
        """The first state."""
        return {}

    @abstractmethod
    def accept(self, ue: IntArray, facts: Facts, state: State) -> tuple[BoolArray, State]:
        """Which of the UEs (n,) answer."""


class Off(Query):
    """No policy: every UE answers every request."""

    kind: Literal["off"] = "off"
    reference: ClassVar[str] = "the usual assumption of federated learning papers"
    example: ClassVar[dict[str, Any]] = {"kind": "off"}

    def accept(self, ue: IntArray, facts: Facts, state: State) -> tuple[BoolArray, State]:
        return np.ones(len(ue), dtype=bool), state


QUERIES = OneOf("query", Off)
