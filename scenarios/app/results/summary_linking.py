"""The part of the summary about attackers who link names."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.units import FloatArray
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.key import Key
from scenarios.app.results.run import Table


def linking_values(rows: Table) -> dict[Key, Any]:
    """Values of one attack from its rows of the table `linking`; nothing where it has none."""
    if not len(rows["round"]):
        return {}
    last = {name: float(rows[name][-1]) for name in rows if name.endswith("time_to_confusion_s")}
    return {
        keys.LINKED_RIGHT: 100.0 * _weighted(rows["right_share"], rows["seen"]),
        keys.LINKED_BY_CHANCE: 100.0 * _weighted(rows["chance_share"], rows["seen"]),
        keys.ANONYMITY_SET: _weighted(rows["anonymity_set"], rows["linked"]),
        keys.CONFUSION: last["time_to_confusion_s"],
        keys.CONFUSION_BY_ENTROPY: last["entropy_time_to_confusion_s"],
        keys.CONFUSION_BY_CHANCE: last["chance_time_to_confusion_s"],
    }


def identity_values(rows: Table) -> dict[Key, Any]:
    """Values of one attack from its rows of the table `identities`; nothing where it has none."""
    if not len(rows["round"]):
        return {}
    names, last = rows["names"], np.flatnonzero(rows["names"] > 0)[-1:]
    return {
        keys.IDENTIFIED: 100.0 * _weighted(rows["right_share"], names),
        keys.IDENTIFIED_AT_END: 100.0 * _weighted(rows["right_share"][last], names[last]),
        keys.IDENTIFIED_BY_CHANCE: 100.0 * _weighted(rows["chance_share"], names),
        keys.IDENTITY_STATED: 100.0 * _weighted(rows["probability"], rows["given"]),
        keys.IDENTITY_STATED_RIGHT: 100.0 * _weighted(rows["given_right_share"], rows["given"]),
        keys.IDENTITY_SET: _weighted(rows["anonymity_set"], rows["told"]),
        keys.OTHERS_IDENTIFIED: 100.0 * _weighted(rows["others_given_share"], rows["others"]),
    }


def unicity_values(rows: Table) -> dict[str, Any]:
    """Values of the table `unicity`, by key."""
    each = zip(rows["points"].tolist(), rows["resolution_m"].tolist(), rows["unique_percent"].tolist(), strict=True)
    return {keys.UNICITY.of(f"{points:g}-{side_m:g}"): percent for points, side_m, percent in each}


def _weighted(values: FloatArray, weight: FloatArray) -> float:
    """Mean of rounds, each by its number of updates; NaN where there is none."""
    known = np.isfinite(values) & (weight > 0)
    return float(np.average(values[known], weights=weight[known])) if known.any() else float("nan")
