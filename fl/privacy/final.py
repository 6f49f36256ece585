"""The account at the end of a run: what each UE spent, by every accountant, with the best one named."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fl.privacy.compose import Composition, Draws, compose
from fl.privacy.ledger import ALL, LOCATION

EVERYBODY = -1
_WHO = ("mechanism", "unit", "relation", "delta")


def final_account(spends: Mapping[str, Sequence[Any] | np.ndarray]) -> list[dict[str, Any]]:
    """One row an account and UE, from the columns of the table `spends`.

    Noise that hides everybody makes one row, ue = -1, unless some UE spends more in the same account. `all` adds up the
    mechanisms of one unit and relation, at the smallest of their deltas. Every row has the epsilon of naive, zCDP and
    RDP composition and the best known one, with the accountant that says it, and `with_channel`, the exact epsilon if
    the noise of the channel counts too (NaN where users are sampled, or where no channel adds any).
    """
    column = {k: np.asarray(v) for k, v in spends.items()}
    ours = np.flatnonzero(column["unit"] != LOCATION) if len(column["unit"]) else np.zeros(0, np.int64)
    accounts: dict[tuple[Any, ...], list[int]] = {}
    for i in ours:
        accounts.setdefault(tuple(column[k][i] for k in _WHO), []).append(int(i))
    groups: dict[tuple[Any, Any], list[tuple[Any, ...]]] = {}
    for who in accounts:
        groups.setdefault((who[1], who[2]), []).append(who)
    for (unit, relation), members in groups.items():
        if len(members) > 1:
            rows = [i for who in members for i in accounts[who]]
            accounts[ALL, unit, relation, min(float(who[3]) for who in members)] = rows
    known: dict[bytes, Composition] = {}
    return [row for who, rows in accounts.items() for row in _rows(column, who, np.array(rows, dtype=np.int64), known)]


def _rows(
    column: Mapping[str, np.ndarray], who: tuple[Any, ...], rows: np.ndarray, known: dict[bytes, Composition]
) -> list[dict[str, Any]]:
    """The rows of one account, a UE each."""
    mechanism, unit, relation, delta = who
    ue = column["ue"][rows].astype(np.int64)
    found = []
    for each in np.unique(ue[ue >= 0]) if np.any(ue >= 0) else [EVERYBODY]:
        mine = rows[(ue == each) | (ue == EVERYBODY)]
        std, sensitivity, q = (column[k][mine].astype(np.float64) for k in ("std", "sensitivity", "sampling_rate"))
        draws = Draws.of(zip(std / sensitivity, q, np.ones(len(mine)), strict=True))
        key = b"".join((draws.z.tobytes(), draws.q.tobytes(), draws.count.tobytes(), repr((relation, delta)).encode()))
        if key not in known:
            known[key] = compose(draws, float(delta), str(relation))
        said = known[key]
        found.append(
            {
                "mechanism": mechanism,
                "ue": int(each),
                "unit": unit,
                "relation": relation,
                "delta": float(delta),
                "draws": len(mine),
                "naive": said.naive.epsilon,
                "zcdp": said.zcdp.epsilon,
                "rdp": said.rdp.epsilon,
                "epsilon": said.best.epsilon,
                "accountant": said.best.accountant,
                "with_channel": _with_channel(column, mine, float(delta), str(relation)),
            }
        )
    return found


def _with_channel(column: Mapping[str, np.ndarray], mine: np.ndarray, delta: float, relation: str) -> float:
    """Epsilon of the drawn noise and the channel's together, everybody in every round."""
    noise = column["channel_std"][mine].astype(np.float64)
    if np.any(column["sampling_rate"][mine].astype(np.float64) < 1) or not np.any(noise > 0):
        return math.nan
    total = np.hypot(column["std"][mine].astype(np.float64), np.nan_to_num(noise))
    z = total / column["sensitivity"][mine].astype(np.float64)
    return compose(Draws.of((float(value), 1.0, 1.0) for value in z), delta, relation).best.epsilon
