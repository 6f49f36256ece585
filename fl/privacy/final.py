"""The account at the end of a run: what each UE spent, by every accountant, with the best one named."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fl.privacy.compose import ADD_REMOVE, Composition, RoundKinds, compose
from fl.privacy.ledger import ALL
from fl.types import LOCATION
from netsim.columns import no_ints
from netsim.record import Row
from netsim.units import FloatArray

ALL_UES = -1
_WHO = ("mechanism", "unit", "relation", "delta")


def final_account(spends: Mapping[str, Sequence[Any] | np.ndarray]) -> list[Row]:
    """One row an account and UE, from the columns of the table `spends`.

    Noise that hides all UEs makes one row, ue = -1, unless some UE spends more in the same account. `all` adds up the
    mechanisms of one unit and relation, at the smallest of their deltas. Every row has the epsilon of naive, zCDP and
    RDP composition and the best known one, with the accountant that says it, and `with_channel`, the exact epsilon if
    the noise of the channel counts too (NaN in an account where users are sampled, or where no channel adds any).
    """
    column = {k: np.asarray(v) for k, v in spends.items()}
    ours = np.flatnonzero(column["unit"] != LOCATION) if len(column["unit"]) else no_ints()
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
) -> list[Row]:
    """The rows of one account, a UE each."""
    mechanism, unit, relation, delta = who
    ue = column["ue"][rows].astype(np.int64)
    believed = _channel_counts(column, rows, str(relation))
    stated = []
    for each in np.unique(ue[ue >= 0]) if np.any(ue >= 0) else [ALL_UES]:
        mine = rows[(ue == each) | (ue == ALL_UES)]
        said = _composed(_draws(column, mine, str(relation)), float(delta), str(relation), known)
        with_channel = math.nan
        if believed:
            counted = _draws(column, mine, str(relation), column["channel_std"])
            with_channel = _composed(counted, float(delta), str(relation), known).best.epsilon
        stated.append(
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
                "with_channel": with_channel,
            }
        )
    return stated


def _composed(draws: RoundKinds, delta: float, relation: str, known: dict[bytes, Composition]) -> Composition:
    """Compose some draws, once for all UEs that paid alike."""
    key = b"".join((draws.z.tobytes(), draws.q.tobytes(), draws.count.tobytes(), repr((relation, delta)).encode()))
    if key not in known:
        known[key] = compose(draws, delta, relation)
    return known[key]


def _draws(
    column: Mapping[str, np.ndarray], mine: np.ndarray, relation: str, more: np.ndarray | None = None
) -> RoundKinds:
    """Composition of one UE's rows; `more` is noise beside the drawn one.

    Those of a round that depend on the same coin are one Gaussian before the coin amplifies it: their 1 / z^2 add up.
    """
    std, sensitivity, q = (column[k][mine].astype(np.float64) for k in ("std", "sensitivity", "sampling_rate"))
    if more is not None:
        std = np.hypot(std, np.nan_to_num(more[mine].astype(np.float64)))
    z = std / sensitivity
    coin = (q < 1) & (relation == ADD_REMOVE)
    tossed = np.stack([column["round"][mine][coin].astype(np.float64), q[coin]])
    rounds, which = np.unique(tossed, axis=1, return_inverse=True)
    with np.errstate(divide="ignore", over="ignore"):
        together = 1 / np.sqrt(np.bincount(which.reshape(-1), weights=z[coin] ** -2.0, minlength=rounds.shape[1]))
    pairs = [*zip(z[~coin], q[~coin], strict=True), *zip(_down(together), rounds[1], strict=True)]
    return RoundKinds.of((z_, q_, 1.0) for z_, q_ in pairs)


def _down(z: FloatArray) -> FloatArray:
    """Multipliers (n,) cut to nine significant digits: what differs by rounding alone is one kind of round."""
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = 10.0 ** (np.floor(np.log10(z)) - 8)
        cut = np.floor(z / unit * (1 + 1e-12)) * unit
    return np.where(np.isfinite(cut) & (unit > 0), cut, z)


def _channel_counts(column: Mapping[str, np.ndarray], rows: np.ndarray, relation: str) -> bool:
    """Whether an account has a figure with the channel's noise: some UE's draw met some, and no coin is counted on.

    Then every UE of the account has one; that of a UE whose channel never added any is its epsilon.
    """
    noise, q = (column[k][rows].astype(np.float64) for k in ("channel_std", "sampling_rate"))
    return bool(np.any(noise > 0)) and not (relation == ADD_REMOVE and bool(np.any(q < 1)))
