"""What a round cost, read from its records: noise beyond what was required, lost updates, leakage, loss, energy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fl.learning import Learning
from fl.round.power_context import rows_of
from fl.round.setup import Setup
from fl.round.state import RoundState
from netsim.radio.power import PowerContext
from netsim.units import FloatArray, IntArray, ratio_from_db
from rl.radio_records import RadioCosts, Sent, costs_of, lost_noise
from rl.settings import Online

Tables = Mapping[str, Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Costs:
    """The unweighted figures of a round, their weighted sum `total`, and whether artificial noise was drawn."""

    noise: float
    loss: float
    leakage: float
    energy_j: float
    lost: float
    leak: float
    total: float
    artificial: bool

    def parts(self) -> dict[str, float]:
        """The figures by name."""
        return {
            "noise": self.noise, "loss": self.loss, "leakage": self.leakage, "energy_j": self.energy_j,
            "lost": self.lost, "leak": self.leak,
        }  # fmt: skip


def costs(
    task: Online,
    setup: Setup,
    state: RoundState,
    figures: Mapping[str, Any],
    tables: Tables,
    now: PowerContext,
    of: int,
) -> Costs:
    """The costs of the round that led to `state`. now : the context before it; of : rounds that are planned.

    A round that nobody took part in costs nothing.
    """
    if not figures:
        return Costs(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False)
    weights = task.reward
    radio = _radio(task, setup, state, tables, now, of)
    loss, leakage = _loss(figures), _leakage(tables, weights.leakage_within_m)
    total = float(radio.total(weights)[0])
    total += weights.loss * loss if weights.loss else 0.0  # a loss may not be known
    total += weights.leakage * leakage if weights.leakage else 0.0
    return Costs(
        float(radio.noise[0]), loss, leakage, float(radio.energy_j[0]), float(radio.lost[0]), float(radio.leak[0]),
        total, bool(radio.artificial[0]),
    )  # fmt: skip


def _radio(task: Online, setup: Setup, state: RoundState, tables: Tables, now: PowerContext, of: int) -> RadioCosts:
    """What the round cost on the air."""
    links, rows = tables["links"], rows_sent(state, setup.learning, tables)
    heard = tables.get("eavesdropper", links)
    shape = (1, len(now.snr_per_w))
    sinr, snr, hears = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    decoded = np.zeros(shape, dtype=np.bool_)
    ue = links["ue"].astype(np.int64)
    with np.errstate(divide="ignore"):
        sinr[0, ue] = ratio_from_db(links["sinr_db"].astype(np.float64))
        hears[0, heard["ue"].astype(np.int64)] = ratio_from_db(heard["sinr_db"].astype(np.float64))
    snr[0, ue] = now.snr_per_w[ue] * links["power_w"].astype(np.float64)
    decoded[0, ue] = links["decoded"].astype(np.bool_)
    energy_j = np.array([np.nansum(links["energy_j"].astype(np.float64))])
    factor = np.array([task.bound.factor(rows.by_model(shape[1])) ** (of - state.played)])
    return costs_of(
        Sent(sinr, snr, decoded, hears), energy_j, rows.ue[None], rows.weight[None], rows.required_std[None],
        np.array([now.scale]), factor, lost_noise(setup.uplink, setup.learning.round_s, np.array([now.n_bits])),
        rows.drawn_std[None],
    )  # fmt: skip


@dataclass(frozen=True)
class RowsSent:
    """Rows (R,) of a round: whose, of which model, with which weight they count, and the noise required and drawn."""

    ue: IntArray
    model: IntArray
    weight: FloatArray
    required_std: FloatArray
    drawn_std: FloatArray

    def by_model(self, n_ue: int) -> FloatArray:
        """Weights (models, K)."""
        found = np.zeros((int(self.model.max(initial=0)) + 1, n_ue))
        found[self.model, self.ue] = self.weight
        return found


def rows_sent(state: RoundState, learning: Learning, tables: Tables) -> RowsSent:
    """The rows of the round that led to `state`. One that was lost counts as the mean one that came for its model would
    have.
    """
    updates = tables["updates"]
    ue, model, weight = (updates[name] for name in ("ue", "model", "weight"))
    ue, model, weight = ue.astype(np.int64), model.astype(np.int64), weight.astype(np.float64)
    came = updates["decoded"].astype(np.bool_) & (weight > 0)
    for m in np.unique(model):
        mine = model == m
        some = mine & came
        weight[mine & ~came] = weight[some].mean() if some.any() else 1.0 / mine.sum()
    own_ue, own_model, required, drawn = rows_of(state.parts.standings(learning))
    required_std, drawn_std = np.zeros(len(ue)), np.zeros(len(ue))
    if len(own_ue):
        span = int(max(own_model.max(), model.max(initial=0))) + 1
        at = np.searchsorted(own_ue * span + own_model, ue * span + model)
        required_std, drawn_std = required[at], drawn[at]
    return RowsSent(ue, model, weight, required_std, drawn_std)


def _loss(figures: Mapping[str, Any]) -> float:
    """Error of a map in dB, cross-entropy of a classifier in nats; NaN for another learner."""
    rmse_db = float(figures.get("rmse_db", np.nan))
    return rmse_db if np.isfinite(rmse_db) else float(figures.get("scores", {}).get("cross_entropy_nats", np.nan))


def _leakage(tables: Tables, within_m: float) -> float:
    """Share of the estimates of a round that come near enough, mean over attacks; 0 without an attack."""
    rows = tables.get("leakage", {})
    if not len(rows.get("error_m", [])):
        return 0.0
    error_m: FloatArray = np.asarray(rows["error_m"], dtype=np.float64)
    attack = np.asarray(rows["attack"])
    return float(np.mean([np.mean(error_m[attack == a] <= within_m) for a in np.unique(attack)]))
