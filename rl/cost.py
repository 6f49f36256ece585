"""Costs of a round: noise beyond the required one, lost updates, leakage, loss, energy.

Besides the cost of all there is that of each UE: the saving if its noise had been exactly the required one,
 without its energy, its part of lost updates and of leakage, and the loss, which is common.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fl.learning import Learning
from fl.round.send import rows_of
from fl.round.setup import Setup
from fl.round.state import RoundOutcome, standings
from netsim.columns import frozen
from netsim.radio.power import PowerContext
from netsim.units import FloatArray, IntArray
from rl.radio_records import RadioCosts, Sent, costs_of, lost_noise
from rl.reward import FIGURES
from rl.settings import Online


@frozen
class Costs:
    """The figures of a round, the cost `total` that a reward makes of them, and whether artificial noise was drawn.

    own (K,) : the cost of each UE.
    """

    figures: Mapping[str, float]
    total: float
    artificial: bool
    own: FloatArray


def costs(
    task: Online, setup: Setup, outcome: RoundOutcome | None, now: PowerContext, of: int
) -> Costs:  # fmt: skip
    """The costs of a round. now : the context before it; of : rounds that are planned.

    A round without a UE has no outcome, and costs nothing.
    """
    reward = task.reward
    n = len(now.snr_per_w)
    if outcome is None:
        return Costs(dict.fromkeys(FIGURES, 0.0), 0.0, False, np.zeros(n))
    radio = _radio(task, setup, outcome, now, of)
    leakage, leakage_of_ue = _leakage(outcome, reward.leakage_within_m, n)
    live = {"loss": np.array([_loss(setup.learning, outcome)]), "leakage": np.array([leakage])}
    figures = {name: live[name] if name in live else radio.figures[name] for name in FIGURES}
    own = _own(radio, outcome, figures["loss"], leakage_of_ue)
    total = reward.cost(figures)
    without = reward.cost({name: figures[name] - own[name] for name in FIGURES})
    values = {name: float(figure[0]) for name, figure in figures.items()}
    return Costs(values, float(total[0]), bool(radio.artificial[0]), total - without)


def _radio(task: Online, setup: Setup, outcome: RoundOutcome, now: PowerContext, of: int) -> RadioCosts:
    """Costs of the round by its radio."""
    last = outcome.phases[-1].uploads
    rows = rows_sent(setup.learning, outcome)
    shape = (1, len(now.snr_per_w))
    sinr, snr, heard, energy_j = (np.zeros(shape) for _ in range(4))
    decoded = np.zeros(shape, dtype=np.bool_)
    ue, first = np.unique(last.ue, return_index=True)
    listener = last.channel if last.overheard is None else last.overheard.channel
    noise_std = last.channel.noise_std[first]  # also of one that took its time, whose SINR changed meanwhile
    with np.errstate(divide="ignore", invalid="ignore"):
        sinr[0, ue] = np.where(noise_std > 0, (now.scale / noise_std) ** 2, np.inf)
    if listener is not None:
        heard[0, ue] = listener.sinr[first]
    snr[0, ue] = now.snr_per_w[ue] * last.channel.power_w[first]
    decoded[0, ue] = last.channel.decoded[first]
    energy_j[0, ue] = last.channel.energy_j[first]
    factor = np.array([task.bound.factor(rows.by_model(shape[1])) ** (of - outcome.state.played)])
    return costs_of(
        Sent(sinr, snr, decoded, heard), energy_j, rows.ue[None], rows.weight[None], rows.required_std[None],
        np.array([now.scale]), factor, lost_noise(setup.uplink, setup.learning.round_s, np.array([now.n_bits])),
        rows.drawn_std[None],
    )  # fmt: skip


def _own(radio: RadioCosts, outcome: RoundOutcome, loss: FloatArray, leakage: FloatArray) -> dict[str, FloatArray]:
    """The part of each figure that is due to each UE (K,); leakage (K,) is that part already."""
    rows = radio.rows
    ue = outcome.phases[-1].uploads.ue
    n = len(leakage)
    had = rows.suffered[0]
    asked = rows.asked[0]
    least = 1e-12 * asked.sum()
    without = np.maximum(had.sum() - np.bincount(ue, had - asked, n), least)
    noise = np.zeros(n)
    if asked.sum() > 0:
        noise = rows.factor[0] * np.log(max(had.sum(), least) / without)

    def share(of_rows: FloatArray) -> FloatArray:
        return np.bincount(ue, of_rows, n) / max(len(ue), 1)

    return {
        "noise": noise,
        "loss": np.tile(loss, n),
        "leakage": leakage,
        "lost": share(rows.lost[0].astype(np.float64)),
        "leak": share(rows.leak[0]),
        "energy_j": radio.energy_of_ue_j[0],
    }


@frozen
class RowsSent:
    """Rows (R,) of a round: UE, model, weight, and the noise required and drawn."""

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


def rows_sent(learning: Learning, outcome: RoundOutcome) -> RowsSent:
    """The rows of a round. One that was lost counts as the mean one that came for its model."""
    last = outcome.phases[-1].uploads
    ue = last.ue
    model = last.made.model
    weight = last.weight.astype(np.float64)
    came = last.channel.decoded & (weight > 0)
    for m in np.unique(model):
        mine = model == m
        some = mine & came
        weight[mine & ~came] = weight[some].mean() if some.any() else 1.0 / mine.sum()
    own_ue, own_model, required, drawn = rows_of(standings(learning, outcome.state.parts))
    required_std = np.zeros(len(ue))
    drawn_std = np.zeros(len(ue))
    if len(own_ue):
        span = int(max(own_model.max(), model.max(initial=0))) + 1
        at = np.searchsorted(own_ue * span + own_model, ue * span + model)
        required_std = required[at]
        drawn_std = drawn[at]
    return RowsSent(ue, model, weight, required_std, drawn_std)


def _loss(learning: Learning, outcome: RoundOutcome) -> float:
    """Error of a map in dB, cross-entropy of a classifier in nats; NaN for another learner."""
    learner = learning.learner
    scores = learner.evaluate(outcome.state.model, outcome.state.held_out.thinned(learner.most_held_out))
    rmse_db = float(scores.get("rmse_db", np.nan))
    return rmse_db if np.isfinite(rmse_db) else float(scores.get("cross_entropy_nats", np.nan))


def _leakage(outcome: RoundOutcome, within_m: float, n: int) -> tuple[float, FloatArray]:
    """Share of the estimates of a round that come near enough, mean over attacks; 0 without an attack. And the part of
    it that each UE's estimates make up (K,).
    """
    ue, attack, error_m = (np.array([row[name] for row in outcome.leaked.rows]) for name in ("ue", "attack", "error_m"))
    attacks = np.unique(attack)
    of_ue = np.zeros(n)
    total = 0.0
    for a in attacks:
        mine = attack == a
        near = error_m[mine].astype(np.float64) <= within_m
        of_ue += np.bincount(ue[mine].astype(np.int64), near / len(near), n) / len(attacks)
        total += float(near.mean()) / len(attacks)
    return total, of_ue
