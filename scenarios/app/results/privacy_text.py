"""What noise spent, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fl.defenses.budgeted import PRINTED
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.model_text import admits_no_round
from scenarios.app.results.statistics import counted
from scenarios.app.results.summary_values import by_name, epsilon_text, number_text

Account = Mapping[str, np.ndarray]
"""the table `privacy`"""


def privacy_text(summary: Mapping[str, Any], account: Account) -> str:
    """The largest epsilon of all accounts, with the privacy unit that it holds for."""
    moved = [f"{name} spent epsilon {number_text(v)} per metre" for name, v in by_name(summary, keys.EPSILON_PER_M_MAX)]
    if not len(account["epsilon"]):
        nothing = "the budget admits no round" if admits_no_round(summary) else "no differential privacy"
        return "; ".join(moved) or f"no epsilon was spent: {nothing}"
    epsilon = np.nan_to_num(account["epsilon"], nan=np.inf)  # an empty cell is no finite epsilon
    i = int(np.argmax(epsilon))
    unit, relation, delta = (account[name][i] for name in ("unit", "relation", "delta"))
    return "; ".join(
        [
            f"{account['mechanism'][i]} spent epsilon {epsilon_text(float(epsilon[i]))} at delta {delta:g} "
            f"(unit {unit}, {relation})",
            *_of_days(summary),
            *moved,
        ]
    )


def _of_days(summary: Mapping[str, Any]) -> list[str]:
    """What the costliest day of any UE has cost, for noise with a budget for each day."""
    parts = [(name.rpartition("."), value) for name, value in by_name(summary, keys.METRIC_LAST)]
    return [
        f"{part}: at most epsilon {epsilon_text(value)} a local day"
        for (part, _, name), value in parts
        if name == "epsilon_a_day" and value is not None
    ]


def spent_text(account: Account, images: bool) -> list[str]:
    """One line per account of the table `privacy`: epsilon with its unit, relation, delta and accountant.

    images: whether a record is an image.
    """
    units = {
        "user": "all data of one UE",
        "record": f"one {'image' if images else 'measurement'} of a UE",
        PRINTED: "as the publication states it; no guarantee",
    }
    columns = [account[k].tolist() for k in ("mechanism", "unit", "relation", "delta")]
    who = list(zip(*columns, strict=True))
    lines = []
    for each in dict.fromkeys(who):
        rows = np.flatnonzero([w == each for w in who])
        epsilon = np.nan_to_num(account["epsilon"][rows], nan=np.inf)  # an empty cell is no finite epsilon
        worst = rows[int(np.argmax(epsilon))]
        mechanism, unit, relation, delta = each
        whose = "the same for every UE" if account["ue"][worst] < 0 else f"max over {counted(len(rows), 'UE')}"
        holds = f"unit {unit}: {units[unit]}; {relation}; " if unit in units else f"unit {unit}; {relation}; "
        lines.append(
            f"privacy: {mechanism} spent epsilon {epsilon_text(epsilon.max())} at delta {delta:g} ({holds}"
            f"{account['accountant'][worst]} over {counted(int(account['draws'][worst]), 'draw')} of noise; {whose})"
        )
    return lines
