"""Recording of rounds of the live environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fl.round.state import RoundOutcome
from netsim.columns import frozen
from netsim.radio.power import PowerContext
from netsim.units import BoolArray, FloatArray, IntArray
from rl.cost import Costs, rows_sent
from rl.env import Episode, OnlinePower
from rl.look import Look, silent
from rl.problem import as_action
from rl.radio_records import Rounds, lost_noise

Rule = Callable[[Look], FloatArray]
"""Powers (S, K) in W from the knowledge of S rounds before they begin"""


def look_now(env: OnlinePower) -> Look:
    """The knowledge of the coming round."""
    return Look.of(env.now, env.task.limits)


def recorded(env: OnlinePower, rule: Rule, world: int) -> tuple[Rounds, Look]:
    """All rounds of a world that is played with a rule: the rounds, and the knowledge before each."""
    env.reset(options={"world": world})
    played = [(rounds, look) for rounds, look in _played(env, rule) if rounds is not None]
    return Rounds.stack([rounds for rounds, _ in played]), Look.stack([look for _, look in played])


def episode_of(env: OnlinePower, rule: Rule, world: int) -> Episode:
    """All steps of a world that is played with a rule."""
    env.reset(options={"world": world})
    before = [_without_links(env.now)]
    rounds = list[Rounds]()
    none_sent = list[bool]()
    played = list[int]()
    for own, look in _played(env, rule):
        rounds.append(silent(look) if own is None else own)
        none_sent.append(own is None)
        played.append(env.state.played)
        before.append(_without_links(env.now))
    whole = Rounds.stack(rounds)
    return Episode(whole, before, whole.rows > 0, np.array(none_sent), np.array(played), env.state.stopped)


def _without_links(now: PowerContext) -> PowerContext:
    """The context as far as it is observed."""
    return replace(now, cohort=None, overheard=None)


def _played(env: OnlinePower, rule: Rule) -> Iterator[tuple[Rounds | None, Look]]:
    """Round by round: the recorded round, None where no UE sent, and the knowledge before."""
    while not env.over:
        look = look_now(env)
        env.step(as_action(rule(look)[0], env.task.limits).astype(np.float32))
        yield None if env.outcome is None else _of_round(env, env.outcome, look), look


def _of_round(env: OnlinePower, outcome: RoundOutcome, look: Look) -> Rounds:
    """The round that was played last, whose links were known before."""
    world = env.world
    setup = env.setup
    sent = rows_sent(setup.learning, outcome)
    k = look.links.serving.shape[1]
    count = outcome.phases[-1].uploads.made.count
    work = setup.learning.learner.passes * np.bincount(sent.ue, weights=count, minlength=k)
    rows = np.bincount(sent.ue, minlength=k)
    factor = env.task.bound.factor(sent.by_model(k)) ** (env.rounds - outcome.state.played)
    return replace(
        silent(look),
        links=replace(look.links, serving=np.where(rows > 0, look.links.serving, -1)),
        rows=rows[None],
        compute_s=(world.training_s_per_sample * work)[None],
        compute_j=np.asarray(world.setting.ues.compute_j_per_sample * work)[None],
        factor=np.array([factor]),
        lost_noise=lost_noise(setup.uplink, setup.learning.round_s, look.n_bits),
        of=sent.ue[None],
        weight=sent.weight[None],
        required_std=sent.required_std[None],
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


def steps_of(env: OnlinePower, act: Callable[[OnlinePower, Any], FloatArray], world: int) -> list[Step]:
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
