"""What a round cost, read from what its records are made of: noise beyond what was required, loss, leakage, energy.

Besides the cost of all there is that of each UE: what the round would have cost less if this UE's noise had been
exactly the required one, its energy, its estimates' part of the leakage, and the loss, which is common, in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fl.learning import Learning
from fl.round.state import RoundOutcome, RoundState
from netsim.radio.power import PowerContext
from netsim.units import FloatArray
from rl.settings import Online

Tables = Mapping[str, Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Costs:
    """The unweighted figures of a round, their weighted sum `total`, and whether artificial noise was drawn.

    own (K,) : the weighted cost of each UE.
    """

    noise: float
    loss: float
    leakage: float
    energy_j: float
    total: float
    artificial: bool
    own: FloatArray

    def parts(self) -> dict[str, float]:
        """The figures by name."""
        return {"noise": self.noise, "loss": self.loss, "leakage": self.leakage, "energy_j": self.energy_j}


def costs(
    task: Online,
    learning: Learning,
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
        return Costs(0.0, 0.0, 0.0, 0.0, 0.0, False, np.zeros(len(now.snr_per_w)))
    weights, n = task.reward, len(now.snr_per_w)
    noise, artificial, noise_of_ue = _noise(task, learning, state, tables, now, of)
    loss = _loss(figures)
    leakage, leakage_of_ue = _leakage(tables, weights.leakage_within_m, n)
    links = tables["links"]
    energy_j = float(np.nansum(links["energy_j"].astype(np.float64)))
    energy_of_ue = np.bincount(links["ue"].astype(np.int64), np.nan_to_num(links["energy_j"].astype(np.float64)), n)
    total = weights.noise * noise + weights.energy_per_j * energy_j
    total += weights.loss * loss if weights.loss else 0.0  # a loss may not be known
    total += weights.leakage * leakage if weights.leakage else 0.0
    own = weights.noise * noise_of_ue + weights.energy_per_j * energy_of_ue + weights.leakage * leakage_of_ue
    own += weights.loss * loss if weights.loss else 0.0
    return Costs(noise, loss, leakage, energy_j, float(total), artificial, own)


def noted(learning: Learning, outcome: RoundOutcome) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]]:
    """The figures and the columns of `updates`, `links` and `leakage` that costs are read from, with the numbers that
    the records of the round would hold; the rest of the records is not made.
    """
    phases, last, leaks = outcome.phases, outcome.phases[-1], outcome.leaks
    scores = learning.learner.evaluate(
        outcome.state.model, outcome.state.held_out.thinned(learning.learner.most_held_out)
    )
    ue, first = np.unique(last.made.ue, return_index=True)
    tables = {
        "updates": {
            "ue": np.concatenate([p.made.ue for p in phases]),
            "model": np.concatenate([p.made.model for p in phases]),
            "weight": np.concatenate([p.weights for p in phases]),
        },
        "links": {"ue": ue, "noise_std": last.channel.noise_std[first], "energy_j": last.channel.energy_j[first]},
        "leakage": {name: np.array([row[name] for row in leaks]) for name in ("ue", "attack", "error_m")},
    }
    return {"rmse_db": scores.get("rmse_db", np.nan), "scores": scores}, tables


def _noise(
    task: Online, learning: Learning, state: RoundState, tables: Tables, now: PowerContext, of: int
) -> tuple[float, bool, FloatArray]:
    """Logarithm of the round's increment of the bound over that of the required noise; whether noise was drawn; of
    each UE (K,), by how much the logarithm exceeds the one with exactly the required noise on its updates.
    """
    n = len(now.snr_per_w)
    updates, links = tables["updates"], tables["links"]
    row = updates["ue"].astype(np.int64)
    weight = updates["weight"].astype(np.float64)
    channel_var, required_var, drawn_var = np.zeros(n), np.zeros(n), np.zeros(n)
    # the model suffers all of the decoder's noise, interference included: thermal noise alone is for privacy
    channel_var[links["ue"].astype(np.int64)] = links["noise_std"].astype(np.float64) ** 2
    for standing in state.parts.standings(learning):
        required_var += standing.required_std**2
        drawn_var += standing.drawn_std**2
    share = weight**2
    required, asked_var = float(share @ required_var[row]), required_var[row]
    if not required:
        required, asked_var = float(share.sum() * now.scale**2), np.full(len(row), now.scale**2)
    if required <= 0:
        return 0.0, False, np.zeros(n)
    models = int(updates["model"].astype(np.int64).max()) + 1
    by_model = np.zeros((models, n))
    by_model[updates["model"].astype(np.int64), row] = weight
    contraction = task.bound.factor(by_model)
    had_var, least = (channel_var + drawn_var)[row], 1e-12 * required
    increment = max(float(share @ had_var), least)
    without = np.maximum(increment - np.bincount(row, share * (had_var - asked_var), n), least)
    late = contraction ** (of - state.played)
    own = late * np.log(increment / without)
    return late * float(np.log(increment / required)), bool((drawn_var[row] > 0).any()), own


def _loss(figures: Mapping[str, Any]) -> float:
    """Error of a map in dB, cross-entropy of a classifier in nats; NaN for another learner."""
    rmse_db = float(figures.get("rmse_db", np.nan))
    return rmse_db if np.isfinite(rmse_db) else float(figures.get("scores", {}).get("cross_entropy_nats", np.nan))


def _leakage(tables: Tables, within_m: float, n: int) -> tuple[float, FloatArray]:
    """Share of the estimates of a round that come near enough, mean over attacks; 0 without an attack. And the part of
    it that each UE's estimates make up (K,).
    """
    rows, of_ue = tables.get("leakage", {}), np.zeros(n)
    if not len(rows.get("error_m", [])):
        return 0.0, of_ue
    near = np.asarray(rows["error_m"], dtype=np.float64) <= within_m
    attack, ue = np.asarray(rows["attack"]), rows["ue"].astype(np.int64)
    attacks = np.unique(attack)
    for a in attacks:
        mine = attack == a
        of_ue += np.bincount(ue[mine], near[mine] / mine.sum(), n) / len(attacks)
    return float(np.mean([np.mean(near[attack == a]) for a in attacks])), of_ue
