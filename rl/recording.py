"""Rounds of the live environment, written down as the radio saw them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fl.round.state import RoundOutcome
from netsim.units import FloatArray
from rl.cost import rows_sent
from rl.env_online import OnlinePower
from rl.look import Look
from rl.problem import as_action
from rl.radio_records import Links, Rounds, lost_noise

Rule = Callable[[Look], FloatArray]
"""Powers (S, K) in W of what is known of S rounds before they begin"""


def look_now(env: OnlinePower) -> Look:
    """What is known of the round that comes."""
    return Look.of(env.now, env.task.limits)


def recorded(env: OnlinePower, rule: Rule, world: int) -> tuple[Rounds, Look]:
    """All rounds of a world that is played with a rule: what the air did, and what was known before."""
    env.reset(options={"world": world})
    rounds, looks = list[Rounds](), list[Look]()
    while not env.over:
        look = look_now(env)
        env.step(as_action(rule(look)[0], env.task.limits).astype(np.float32))
        if env.outcome is not None:
            looks.append(look)
            rounds.append(_of_round(env, env.outcome, look))
    return Rounds.stack(rounds), Look.stack(looks)


def _of_round(env: OnlinePower, outcome: RoundOutcome, look: Look) -> Rounds:
    """The round that was played last, whose links were known before."""
    world, setup = env.world, env.setup
    assert world is not None  # noqa: S101 - it has been played
    sent = rows_sent(setup.learning, outcome)
    k = look.links.serving.shape[1]
    count = outcome.phases[-1].made.count
    work = setup.learning.learner.passes * np.bincount(sent.ue, weights=count, minlength=k)
    rows = np.bincount(sent.ue, minlength=k)
    serving = np.where(rows > 0, look.links.serving, -1)
    links = Links(look.links.h, look.links.heard, serving, look.links.downlink_bps)
    factor = env.task.bound.factor(sent.by_model(k)) ** (env.rounds - outcome.state.played)
    return Rounds(
        links=links,
        rows=rows[None],
        n_bits=look.n_bits,
        compute_s=(world.compute_s_per_sample * work)[None],
        compute_j=np.asarray(world.compute_j_per_sample * work)[None],
        rho=look.rho,
        factor=np.array([factor]),
        lost_noise=lost_noise(setup.uplink, setup.learning.round_s, look.n_bits),
        of=sent.ue[None],
        weight=sent.weight[None],
        required_std=sent.required_std[None],
    )
