"""The ledger: what every UE has spent so far. Booked when noise is drawn; never added across kinds of unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl.privacy.gaussian import epsilon_of
from fl.types import AnySpend, MetricSpend, State
from netsim.units import FloatArray


@dataclass(frozen=True)
class Statement:
    """What a mechanism has cost each UE (n_ue,) up to now: (epsilon, delta) for one unit and relation."""

    mechanism: str
    unit: str
    relation: str
    delta: float
    epsilon: FloatArray


LOCATION = "location"
Account = tuple[str, str, str, float]
"""mechanism, unit, relation, delta: what is never added up with anything else."""


def account(spend: AnySpend) -> Account:
    """Where a spend is booked."""
    if isinstance(spend, MetricSpend):
        return spend.mechanism, LOCATION, "per metre", 0.0
    return spend.mechanism, spend.unit, spend.relation, spend.delta


def empty(n_ue: int) -> State:
    """Nobody has spent anything."""
    return {"n_ue": n_ue, "total": {}}


def book(state: State, spends: list[AnySpend]) -> State:
    """The ledger after these spends: per account and UE a sum over all rows that it sent.

    Gaussian draws add (sensitivity / std)^2; moved locations add their epsilon per metre.
    """
    total = {key: value.copy() for key, value in state["total"].items()}
    for spend in spends:
        mechanism, unit, relation, delta = account(spend)
        sums = total.setdefault(f"{mechanism}|{unit}|{relation}|{delta!r}", np.zeros(state["n_ue"]))
        if isinstance(spend, MetricSpend):
            cost = spend.points * spend.epsilon_per_m
        else:
            with np.errstate(over="ignore"):  # noise too small to protect anything: inf
                cost = (spend.sensitivity / spend.std) ** 2
        everybody = spend.ue < 0
        np.add.at(sums, spend.ue[~everybody], cost[~everybody])
        sums += cost[everybody].sum()
    return {**state, "total": total}


def statements(state: State) -> list[Statement]:
    """The epsilon of every UE, every round taken part in, no amplification.

    Exact for Gaussian mechanisms; for moved locations the sum, per metre by which all of them are displaced.
    """
    found = []
    for key, total in state["total"].items():
        mechanism, unit, relation, delta = key.split("|")
        epsilon = total
        if unit != LOCATION:
            levels, where = np.unique(total, return_inverse=True)  # one root a level, not one a UE
            epsilon = np.array([epsilon_of(float(delta), float(np.sqrt(v))) for v in levels])[where]
        found.append(Statement(mechanism, unit, relation, float(delta), epsilon))
    return found
