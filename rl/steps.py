"""An episode of the live environment, step by step: where UEs were, what they sent with, what came, what it cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.units import BoolArray, FloatArray, IntArray
from rl.cost import Costs
from rl.env_online import OnlinePower


@dataclass(frozen=True, eq=False)
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
        assert env.world is not None  # noqa: S101 - reset
        number, at_m, serving = env.state.round + 1, env.world.position_m().copy(), env.world.serving(env.world.links())
        seen, *_ = env.step(act(env, seen).astype(np.float32))
        steps.append(Step(number, at_m, serving, *_sent(env, len(at_m)), env.cost))
    return steps


def _sent(env: OnlinePower, n: int) -> tuple[BoolArray, FloatArray, BoolArray]:
    """Who sent in the last round, with what, and whose updates arrived: all (K,)."""
    sent, arrived = np.zeros((2, n), dtype=np.bool_)
    power_w = np.full(n, np.nan)
    if env.outcome is not None:
        last = env.outcome.phases[-1]
        ue, first = np.unique(last.made.ue, return_index=True)
        sent[ue], power_w[ue], arrived[ue] = True, last.channel.power_w[first], last.channel.decoded[first]
    return sent, power_w, arrived
