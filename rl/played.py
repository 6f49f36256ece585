"""Rounds of the live environment: what they cost, together and by UE, and their recording.

The cost of a UE is the saving if its noise had been exactly the required one, without its energy, its part of lost
updates and of leakage, and the loss, which is common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fl.learning import Learning
from fl.round.send import rows_of
from fl.round.setup import Setup
from fl.round.state import RoundOutcome, standings
from netsim.columns import frozen
from netsim.radio.power import PowerContext
from netsim.units import BoolArray, FloatArray, IntArray
from rl.look import Look, silent
from rl.problem import Seen, as_action
from rl.radio_records import RadioCosts, Rounds, Rows, Sent, costs_of, lost_noise
from rl.reward import FIGURES
from rl.settings import Online

if TYPE_CHECKING:
    from rl.env import OnlinePower

Rule = Callable[[Look], FloatArray]
"""Powers (S, K) in W from the knowledge of S rounds before they begin"""


@frozen
class Costs:
    """The figures of a round, the cost `total` that a reward makes of them, and whether artificial noise was drawn.

    own (K,) : the cost of each UE. rows : that were sent; None where no UE sent.
    """

    figures: Mapping[str, float]
    total: float
    artificial: bool
    own: FloatArray
    rows: Rows | None = None


def costs(task: Online, setup: Setup, outcome: RoundOutcome | None, now: PowerContext, of: int) -> Costs:
    """The costs of a round. now : the context before it; of : rounds that are planned.

    A round without a UE has no outcome, and costs nothing.
    """
    reward = task.reward
    n = len(now.snr_per_w)
    if outcome is None:
        return Costs(dict.fromkeys(FIGURES, 0.0), 0.0, False, np.zeros(n))
    rows, drawn_std = rows_sent(task, setup, outcome, now, of)
    radio = _radio(outcome, now, rows, drawn_std)
    leakage, leakage_of_ue = _leakage(outcome, reward.leakage_within_m, n)
    loss = _loss(setup.learning, outcome)
    figures = {**radio.figures, "loss": np.array([loss]), "leakage": np.array([leakage])}
    own = _own(radio, rows, n) | {"loss": np.full(n, loss), "leakage": leakage_of_ue}
    total = reward.cost(figures)
    without = reward.cost({name: figures[name] - own[name] for name in FIGURES})
    values = {name: float(figures[name][0]) for name in FIGURES}
    return Costs(values, float(total[0]), bool(radio.drawn.any()), total - without, rows)


def rows_sent(
    task: Online, setup: Setup, outcome: RoundOutcome, now: PowerContext, of: int
) -> tuple[Rows, FloatArray]:  # fmt: skip
    """The rows of a round, and the noise drawn on each (1, R). A lost one weighs as the mean that came of its model."""
    last = outcome.phases[-1].uploads
    ue = last.ue
    model = last.made.model
    weight = last.weight.astype(np.float64)
    came = last.channel.decoded & (weight > 0)
    for m in np.unique(model):
        mine = model == m
        some = mine & came
        weight[mine & ~came] = weight[some].mean() if some.any() else 1.0 / mine.sum()
    by_model = np.zeros((int(model.max(initial=0)) + 1, len(now.snr_per_w)))
    by_model[model, ue] = weight
    own_ue, own_model, required, drawn = rows_of(standings(setup.learning, outcome.state.parts))
    required_std, drawn_std = np.zeros((2, len(ue)))
    if len(own_ue):
        span = int(max(own_model.max(), model.max(initial=0))) + 1
        at = np.searchsorted(own_ue * span + own_model, ue * span + model)
        required_std = required[at]
        drawn_std = drawn[at]
    factor = task.bound.factor(by_model) ** (of - outcome.state.played)
    kappa = lost_noise(setup.uplink, setup.learning.round_s, np.array([now.n_bits]))
    rho = np.array([now.scale])
    return Rows(ue[None], weight[None], required_std[None], rho, np.array([factor]), kappa), drawn_std[None]


def _radio(outcome: RoundOutcome, now: PowerContext, rows: Rows, drawn_std: FloatArray) -> RadioCosts:
    """Costs of the round by its radio."""
    last = outcome.phases[-1].uploads
    channel = last.channel
    shape = (1, len(now.snr_per_w))
    sinr, snr, heard, energy_j = (np.zeros(shape) for _ in range(4))
    decoded = np.zeros(shape, dtype=np.bool_)
    ue, first = np.unique(last.ue, return_index=True)
    listener = channel if last.overheard is None else last.overheard.channel
    noise_std = channel.noise_std[first]  # also of one that took its time, whose SINR changed meanwhile
    with np.errstate(divide="ignore", invalid="ignore"):
        sinr[0, ue] = np.where(noise_std > 0, (now.scale / noise_std) ** 2, np.inf)
    if listener is not None:
        heard[0, ue] = listener.sinr[first]
    snr[0, ue] = now.snr_per_w[ue] * channel.power_w[first]
    decoded[0, ue] = channel.decoded[first]
    energy_j[0, ue] = channel.energy_j[first]
    return costs_of(Sent(sinr, snr, decoded, heard), energy_j, rows, drawn_std)


def _own(radio: RadioCosts, rows: Rows, n: int) -> dict[str, FloatArray]:
    """The part of each figure of the radio that is due to each UE (K,)."""
    ue = rows.of[0]
    had = radio.suffered[0]
    asked = radio.asked[0]
    least = 1e-12 * asked.sum()
    without = np.maximum(had.sum() - np.bincount(ue, had - asked, n), least)
    noise = np.zeros(n)
    if asked.sum() > 0:
        noise = rows.factor[0] * np.log(max(had.sum(), least) / without)

    def share(of_rows: FloatArray | BoolArray) -> FloatArray:
        return np.bincount(ue, of_rows, n) / max(len(ue), 1)

    return {
        "noise": noise,
        "lost": share(radio.lost[0]),
        "leak": share(radio.leak[0]),
        "energy_j": radio.energy_of_ue_j[0],
    }


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
    of_ue = np.zeros(n)
    attacks = np.unique(attack)
    for a in attacks:
        mine = attack == a
        near = error_m[mine].astype(np.float64) <= within_m
        of_ue += np.bincount(ue[mine].astype(np.int64), near / len(near), n) / len(attacks)
    return float(of_ue.sum()), of_ue


# -- recording


@frozen
class Episode:
    """A whole world as it was recorded, S steps. rounds : of all steps, silent ones without rows; before : S + 1
    contexts, with that at the end; played (S,) : rounds so far; stopped : whether a budget ended it.
    """

    rounds: Rounds
    before: list[PowerContext]
    played: IntArray
    stopped: bool

    def __len__(self) -> int:
        return len(self.played)


def look_now(env: OnlinePower) -> Look:
    """The knowledge of the coming round."""
    return Look.of(env.now, env.task.limits)


def recorded(env: OnlinePower, rule: Rule, world: int) -> tuple[Rounds, Look]:
    """All rounds of a world that is played with a rule: the rounds, and the knowledge before each."""
    env.reset(options={"world": world})
    played = [(rounds, look) for rounds, look in _played(env, rule) if rounds.count.any()]
    return Rounds.stack([rounds for rounds, _ in played]), Look.stack([look for _, look in played])


def episode_of(env: OnlinePower, rule: Rule, world: int) -> Episode:
    """All steps of a world that is played with a rule."""
    env.reset(options={"world": world})
    before = [_without_links(env.now)]
    rounds = list[Rounds]()
    played = list[int]()
    for own, _ in _played(env, rule):
        rounds.append(own)
        played.append(env.state.played)
        before.append(_without_links(env.now))
    return Episode(Rounds.stack(rounds), before, np.array(played), env.state.stopped)


def _without_links(now: PowerContext) -> PowerContext:
    """The context as far as it is observed."""
    return replace(now, cohort=None, overheard=None)


def _played(env: OnlinePower, rule: Rule) -> Iterator[tuple[Rounds, Look]]:
    """Round by round: the recorded round, and the knowledge before."""
    while not env.over:
        look = look_now(env)
        env.step(as_action(rule(look)[0], env.task.limits).astype(np.float32))
        yield _of_round(env, look), look


def _of_round(env: OnlinePower, look: Look) -> Rounds:
    """The round that was played last, whose links were known before; a silent one where no UE sent."""
    rows = env.cost.rows
    if env.outcome is None or rows is None:
        return silent(look)
    world = env.world
    ue = rows.of[0]
    k = look.links.serving.shape[1]
    trained = np.bincount(ue, weights=env.outcome.phases[-1].uploads.made.count, minlength=k)
    work = env.setup.learning.learner.passes * trained
    count = np.bincount(ue, minlength=k)
    return Rounds(
        links=replace(look.links, serving=np.where(count > 0, look.links.serving, -1)),
        rows=rows,
        count=count[None],
        n_bits=look.n_bits,
        compute_s=(world.training_s_per_sample * work)[None],
        compute_j=np.asarray(world.setting.ues.compute_j_per_sample * work)[None],
    )


@frozen
class Step:
    """A round. position_m (K, 2), NaN for a UE that is away; serving (K,), -1 : no base station; sent, arrived (K,);
    power_w (K,), NaN for a UE that sent nothing.
    """

    round: int
    position_m: FloatArray
    serving: IntArray
    sent: BoolArray
    power_w: FloatArray
    arrived: BoolArray
    cost: Costs


def steps_of(env: OnlinePower, act: Callable[[OnlinePower, Seen], FloatArray], world: int) -> list[Step]:
    """All rounds of a world under a policy."""
    seen, _ = env.reset(options={"world": world})
    steps = list[Step]()
    while not env.over:
        number = env.state.round + 1
        at_m = env.world.position_m().copy()
        serving = env.world.serving(env.world.links())
        seen, *_ = env.step(act(env, seen).astype(np.float32))
        steps.append(Step(number, at_m, serving, *_sent(env, len(at_m)), env.cost))
    return steps


def _sent(env: OnlinePower, n: int) -> tuple[BoolArray, FloatArray, BoolArray]:
    """Whether each UE sent in the last round, its power, and whether its update arrived: all (K,)."""
    sent, arrived = np.zeros((2, n), dtype=np.bool_)
    power_w = np.full(n, np.nan)
    if env.outcome is not None:
        last = env.outcome.phases[-1].uploads
        ue, first = np.unique(last.ue, return_index=True)
        sent[ue], power_w[ue], arrived[ue] = True, last.channel.power_w[first], last.channel.decoded[first]
    return sent, power_w, arrived
