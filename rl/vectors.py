"""What environments that step as arrays share: a seed for each, and one row of actions for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netsim.units import BoolArray, FloatArray
from rl.problem import END, checked_action


def own_seeds(seed: int | Sequence[int | None] | None, n: int) -> list[int | None]:
    """The seed of each of n environments: s, s + 1, ... of one seed s, a list as it is, None where none is given.

    Raises
    ------
    ValueError : no integers that are 0 or more, or another number of them.
    """
    seeds: list[Any] = [None] * n
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        seeds = [int(seed) + i for i in range(n)]
    elif isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str | bytes):
        seeds = list(seed)
    elif seed is not None:
        raise ValueError(f"reset: seed {seed!r:.40} is no integer; give one, 0 or more, or a list of {n}")
    if len(seeds) != n:
        raise ValueError(f"reset: {len(seeds)} seeds; give one, or {n}")
    for own in seeds:
        if own is not None and (isinstance(own, bool) or not isinstance(own, int | np.integer) or own < 0):
            raise ValueError(f"reset: seed {own!r:.40}; give integers, 0 or more")
    return [None if own is None else int(own) for own in seeds]


def checked_actions(actions: Any, shape: tuple[int, int], over: BoolArray) -> FloatArray:
    """Actions (n, K) as numbers of our own; those of environments that begin anew (`over`) are not looked at.

    Raises
    ------
    ValueError : no numbers, another shape, numbers outside of [-1, 1].
    """
    try:
        action = np.array(actions, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"actions: not numbers; give one row for each environment, shape {shape}") from None
    if action.shape != shape:
        raise ValueError(f"actions: shape {action.shape}; give one row for each environment, shape {shape}")
    if not (np.abs(action) <= END).all():
        for own in action[~over]:
            checked_action(own, shape[1])
        action[over] = 0.0
    return action
