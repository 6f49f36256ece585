"""Recording of rounds of the live environment."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from netsim.errors import BadInput
from netsim.units import FloatArray
from rl.env import OnlinePower
from rl.look import Look, build_silent_round
from rl.problem import Seen, convert_to_action
from rl.radio_records import Costs, Rounds

Rule = Callable[[Look], FloatArray]
"""Powers (S, K) in W from the knowledge of S rounds before they begin"""


def observe_next_round(env: OnlinePower) -> Look:
    """The knowledge of the coming round."""
    return Look.from_context(env.context, env.task.limits)


def record_world(env: OnlinePower, rule: Rule, world: int) -> tuple[Rounds, Look]:
    """All rounds of a world that is played with a rule: the rounds, and the knowledge before each.
    BadInput: none.
    """
    env.reset(options={"world": world})
    played = []
    looks = []
    while not env.over:
        look = observe_next_round(env)
        env.step(convert_to_action(rule(look)[0], env.task.limits).astype(np.float32))
        rounds = _record_round(env, look)
        if rounds.count.any():
            played.append(rounds)
            looks.append(look)
    _check_played(env, len(played))
    return Rounds.stack(played), Look.join(looks)


def _check_played(env: OnlinePower, n: int) -> None:
    """Raise BadInput where n, the number of rounds of a world that were played, is 0."""
    if not n:
        raise BadInput(
            f"learning: no round is played in world {env.start['world']}: no UE sends anything, "
            f"or the first round exceeds privacy_budget ({env.setup.learning.privacy_budget}): "
            "raise its epsilon, or let defenses draw more noise"
        )


def _record_round(env: OnlinePower, look: Look) -> Rounds:
    """The round that was played last, whose links were known before; a silent one where no UE
    sent.
    """
    rows = env.cost.rows
    if env.outcome is None or rows is None:
        return build_silent_round(look)
    ue = rows.ue[0]
    k = look.links.serving.shape[1]
    trained = np.bincount(ue, weights=env.outcome.merges[-1].uploads.made.count, minlength=k)
    work = env.setup.learning.learner.passes * trained
    count = np.bincount(ue, minlength=k)
    return Rounds(
        links=replace(look.links, serving=np.where(count > 0, look.links.serving, -1)),
        rows=rows,
        count=count[None],
        n_bits=look.n_bits,
        compute_s=(env.world.training_s_per_sample * work)[None],
        compute_j=np.asarray(env.world.setting.ues.compute_j_per_sample * work)[None],
    )


def play_costs(
    env: OnlinePower, act: Callable[[OnlinePower, Seen], FloatArray], world: int
) -> Iterator[tuple[Costs, float]]:
    """All rounds of a world under a policy, but for one that a privacy budget discards: what each
    costs, and the wall time of the decision, ms. BadInput: none is played.
    """
    seen, _ = env.reset(options={"world": world})
    while not env.over:
        began_s = time.perf_counter()
        action = act(env, seen).astype(np.float32)
        decision_ms = 1e3 * (time.perf_counter() - began_s)
        seen, *_ = env.step(action)
        if env.state.stopped:
            break
        yield env.cost, decision_ms
    _check_played(env, env.state.played)
