"""Powers as actions of the live environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.units import FloatArray
from scenarios.app.training.evaluate import Act

if TYPE_CHECKING:
    from rl.env_online import OnlinePower
    from rl.look import Look


def played(power_w: Callable[[Look], FloatArray]) -> Act:
    """A rule as actions of the live environment."""
    from rl.problem import as_action
    from rl.recording import look_now

    return lambda env, seen: as_action(power_w(look_now(env))[0], env.task.limits)


def planned(power_w: FloatArray, progress: FloatArray) -> Act:
    """Powers (S, K) of rounds at these shares (S,) of an episode, as actions; the least power in any other round."""
    from rl.problem import as_action

    of = dict(zip(progress.tolist(), power_w, strict=True))

    def act(env: OnlinePower, seen: Any) -> FloatArray:
        limits = env.task.limits
        least = np.full(env.n_ue, limits.each_min_w)
        return as_action(of.get(env.now.progress, least), limits)

    return act
