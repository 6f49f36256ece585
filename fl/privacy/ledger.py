"""The ledger: what every UE has spent so far. Booked when noise is drawn; never added across kinds of unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl.privacy.gaussian import epsilon_of
from fl.types import Spend, State
from netsim.units import FloatArray


@dataclass(frozen=True)
class Statement:
    """What a mechanism has cost each UE (n_ue,) up to now: (epsilon, delta) for one unit and relation."""

    mechanism: str
    unit: str
    relation: str
    delta: float
    epsilon: FloatArray


def empty(n_ue: int) -> State:
    """Nobody has spent anything."""
    return {"n_ue": n_ue, "mu2": {}}


def book(state: State, spends: list[Spend]) -> State:
    """The ledger after these spends: mu^2 = sum (sensitivity / std)^2 per UE, all rows of a UE composed."""
    mu2 = {key: value.copy() for key, value in state["mu2"].items()}
    for spend in spends:
        key = f"{spend.mechanism}|{spend.unit}|{spend.relation}|{spend.delta!r}"
        account = mu2.setdefault(key, np.zeros(state["n_ue"]))
        with np.errstate(over="ignore"):  # noise too small to protect anything: inf
            cost = (spend.sensitivity / spend.std) ** 2
        everybody = spend.ue < 0
        np.add.at(account, spend.ue[~everybody], cost[~everybody])
        account += cost[everybody].sum()
    return {**state, "mu2": mu2}


def statements(state: State) -> list[Statement]:
    """The exact epsilon of every UE (Gaussian mechanisms, every round taken part in, no amplification)."""
    found = []
    for key, mu2 in state["mu2"].items():
        mechanism, unit, relation, delta = key.split("|")
        levels, where = np.unique(mu2, return_inverse=True)  # one root a level, not one a UE
        epsilon = np.array([epsilon_of(float(delta), float(np.sqrt(v))) for v in levels])[where]
        found.append(Statement(mechanism, unit, relation, float(delta), epsilon))
    return found
